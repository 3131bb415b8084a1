//! The kernel's list of sockets (sock_diag(7)) of one network namespace, and the request that ends one of them
//! (`SOCK_DESTROY`, Linux 4.5, `CONFIG_INET_DIAG_DESTROY`).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const SOCK_DESTROY: u16 = 21;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 0x01;
const NLM_F_ACK: u16 = 0x04;
const NLM_F_DUMP: u16 = 0x300;

/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;
/// Bytes of `struct inet_diag_sockid`.
const SOCKET_ID: usize = 48;
/// Bytes of `struct inet_diag_req_v2`.
const REQUEST: usize = 8 + SOCKET_ID;
/// Every TCP state but `LISTEN` (10), `TIME_WAIT` (6) and `NEW_SYN_RECV` (12): sockets that have a peer and a program. A
/// connected UDP socket is in state `ESTABLISHED` (1).
const STATES: u32 = 0xfff & !(1 << 10) & !(1 << 6);

/// A socket that has a peer.
#[derive(Clone, Debug)]
pub(super) struct Peered {
    /// The other side; an IPv4-mapped address is the IPv4 address.
    pub(super) peer: SocketAddr,
    family: u8,
    protocol: u8,
    /// `struct inet_diag_sockid` as it came.
    id: [u8; SOCKET_ID],
}

/// An open netlink socket, which acts in the namespace in which it was opened.
pub(super) struct Diag {
    fd: OwnedFd,
    buffer: Vec<u8>,
}

impl Diag {
    /// Opens it in the calling thread's network namespace.
    pub(super) fn open() -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let fd = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkSockDiag)?;
        Ok(Self { fd, buffer: vec![0; 32 * 1024] })
    }

    /// Every socket of a protocol that has a peer, of both families.
    pub(super) fn peered(&mut self, protocol: u8) -> io::Result<Vec<Peered>> {
        let mut found = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let family = family as u8;
            self.request(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, family, protocol, &[0; SOCKET_ID])?;
            self.answers(|body| {
                if let Some(socket) = peered(body, family, protocol) {
                    found.push(socket);
                }
            })?;
        }
        Ok(found)
    }

    /// Ends a socket: the program that has it gets `ECONNABORTED`. False when it has ended by itself.
    pub(super) fn destroy(&mut self, socket: &Peered) -> io::Result<bool> {
        self.request(SOCK_DESTROY, NLM_F_ACK, socket.family, socket.protocol, &socket.id)?;
        match self.answers(|_| {}) {
            Ok(()) => Ok(true),
            Err(error) if error.raw_os_error() == Some(nix::libc::ENOENT) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn request(&self, kind: u16, flags: u16, family: u8, protocol: u8, id: &[u8; SOCKET_ID]) -> io::Result<()> {
        let length = HEADER + REQUEST;
        let mut message = Vec::with_capacity(length);
        message.extend((length as u32).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend((NLM_F_REQUEST | flags).to_ne_bytes());
        // Sequence number and port: one request at a time is under way.
        message.extend([0; 8]);
        // No extensions, and padding.
        message.extend([family, protocol, 0, 0]);
        message.extend(STATES.to_ne_bytes());
        message.extend(id);
        send(self.fd.as_raw_fd(), &message, MsgFlags::empty())?;
        Ok(())
    }

    /// Reads until the request is answered; the body of each message that is not about the request itself goes to `each`.
    fn answers(&mut self, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        loop {
            let length = recv(self.fd.as_raw_fd(), &mut self.buffer, MsgFlags::empty())?;
            let mut rest = self.buffer.get(..length).unwrap_or_default();
            while let Some((kind, body, after)) = message(rest) {
                match kind {
                    NLMSG_DONE => return Ok(()),
                    NLMSG_ERROR => return result(body),
                    _ => each(body),
                }
                rest = after;
            }
        }
    }
}

/// The first message of a buffer: its type, its body, what follows.
fn message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::try_from(u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?)).ok()?;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let body = bytes.get(HEADER..length)?;
    // Messages begin at multiples of 4.
    Some((kind, body, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// An acknowledgement, or why there is none.
fn result(body: &[u8]) -> io::Result<()> {
    let code = body.get(..4).and_then(|code| code.try_into().ok()).map(i32::from_ne_bytes);
    match code {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(code.saturating_abs())),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Reads `struct inet_diag_msg`. Nothing for a socket without a peer.
fn peered(body: &[u8], family: u8, protocol: u8) -> Option<Peered> {
    let id: [u8; SOCKET_ID] = body.get(4..4 + SOCKET_ID)?.try_into().ok()?;
    let port = u16::from_be_bytes([id[2], id[3]]);
    let address: [u8; 16] = id.get(20..36)?.try_into().ok()?;
    let [a, b, c, d, ..] = address;
    let address = if i32::from(family) == nix::libc::AF_INET {
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    } else {
        Ipv6Addr::from(address).to_canonical()
    };
    let peer = SocketAddr::new(address, port);
    (port != 0 && !address.is_unspecified()).then_some(Peered { peer, family, protocol, id })
}
