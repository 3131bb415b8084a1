//! Whether an interface's driver can run XDP programs, and send their packets out again.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::libc;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};

/// What is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ability {
    /// It can.
    Able,
    /// It cannot, and why.
    Unable(String),
    /// The kernel does not say (before 6.3): who tries will see, but for frames that a driver loses without a word.
    Unknown,
}

/// Asks about an interface of the calling thread's network namespace.
pub(crate) fn ask(ifname: &str, ifindex: u32) -> io::Result<Ability> {
    let Some(features) = features(ifindex)? else { return Ok(Ability::Unknown) };
    if features & BASIC == 0 {
        return Ok(Ability::Unable("its driver cannot run XDP programs".to_owned()));
    }
    // One side of a veth pair has this when the other takes frames, which it does as long as it has a program of its own or
    // GRO. Frames for one that does not are lost without a word. Other drivers need it for redirection only.
    if features & TAKES_FRAMES == 0 && is_veth(ifname)? {
        let reason = "the other side of its veth pair takes no frames: that side needs GRO (ethtool -K PEER gro on)";
        return Ok(Ability::Unable(reason.to_owned()));
    }
    Ok(Ability::Able)
}

/// Whether an interface is one side of a veth pair.
pub(crate) fn is_veth(ifname: &str) -> io::Result<bool> {
    Ok(driver(ifname)?.as_deref() == Some("veth"))
}

/// `NETDEV_XDP_ACT_BASIC` of the kernel's `netdev.h`: the driver runs programs and can pass, drop and send back.
const BASIC: u64 = 1 << 0;
/// `NETDEV_XDP_ACT_NDO_XMIT`: the driver takes frames that were redirected to it.
const TAKES_FRAMES: u64 = 1 << 2;

/// Bytes of `struct nlmsghdr`, and of that with a `struct genlmsghdr`.
const HEADER: usize = 16;
const HEADERS: usize = HEADER + 4;
const NLM_F_REQUEST: u16 = 0x01;
const NLMSG_ERROR: u16 = 2;

/// The family that numbers the others (`GENL_ID_CTRL`), its command and attributes.
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// Command and attributes of the family `netdev`.
const DEV_GET: u8 = 1;
const IFINDEX: u16 = 1;
const XDP_FEATURES: u16 = 3;

/// `NETDEV_XDP_ACT_*` bits of an interface; nothing when the kernel does not know of them.
fn features(ifindex: u32) -> io::Result<Option<u64>> {
    let protocol = SockProtocol::NetlinkGeneric;
    let netlink = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
    let family = match request(&netlink, CONTROL, GET_FAMILY, (FAMILY_NAME, b"netdev\0")) {
        Ok(answer) => answer,
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
        Err(error) => return Err(error),
    };
    let family = attribute(&family, FAMILY_ID).ok_or(io::ErrorKind::InvalidData)?;
    let answer = request(&netlink, u16::from_ne_bytes(family), DEV_GET, (IFINDEX, &ifindex.to_ne_bytes()))?;
    Ok(attribute(&answer, XDP_FEATURES).map(u64::from_ne_bytes))
}

/// Sends a request with one attribute, and gives the attributes of the answer.
fn request(netlink: &OwnedFd, family: u16, command: u8, (kind, value): (u16, &[u8])) -> io::Result<Vec<u8>> {
    let mut message = vec![0; HEADERS];
    message.extend((value.len() as u16 + 4).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
    message.resize(message.len().next_multiple_of(4), 0);
    let length = (message.len() as u32).to_ne_bytes();
    message[..4].copy_from_slice(&length);
    message[4..6].copy_from_slice(&family.to_ne_bytes());
    message[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    // Command and version.
    message[HEADER..HEADER + 2].copy_from_slice(&[command, 1]);
    send(netlink.as_raw_fd(), &message, MsgFlags::empty())?;
    let mut answer = vec![0; 8192];
    let length = recv(netlink.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    answer.truncate(length);
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let kind = answer.get(4..6).and_then(|kind| kind.try_into().ok()).map(u16::from_ne_bytes).ok_or_else(invalid)?;
    if kind == NLMSG_ERROR {
        let code = answer.get(HEADER..HEADERS).and_then(|code| code.try_into().ok()).map(i32::from_ne_bytes);
        return Err(code.map_or_else(invalid, |code| io::Error::from_raw_os_error(code.saturating_abs())));
    }
    Ok(answer.get(HEADERS..).ok_or_else(invalid)?.to_vec())
}

/// The value of an attribute that is `N` bytes long.
fn attribute<const N: usize>(mut attributes: &[u8], wanted: u16) -> Option<[u8; N]> {
    loop {
        let length = usize::from(u16::from_ne_bytes(attributes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(attributes.get(2..4)?.try_into().ok()?);
        if kind == wanted {
            return attributes.get(4..length)?.try_into().ok();
        }
        // Attributes begin at multiples of 4.
        attributes = attributes.get(length.max(4).next_multiple_of(4)..)?;
    }
}

/// Head of the kernel's `struct ethtool_drvinfo`.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

/// Name of an interface's driver; nothing when it has none.
fn driver(ifname: &str) -> io::Result<Option<String>> {
    /// `ETHTOOL_GDRVINFO` of the kernel's `ethtool.h`.
    const GET_DRIVER_INFO: u32 = 3;
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let mut info = DriverInfo { command: GET_DRIVER_INFO, driver: [0; 32], rest: [0; 160] };
    // SAFETY: plain integers and a union of such, for which zeroes are valid.
    #[allow(unsafe_code, reason = "libc has no constructor for this structure")]
    let mut request = unsafe { std::mem::zeroed::<libc::ifreq>() };
    for (to, from) in request.ifr_name.iter_mut().zip(ifname.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut info).cast();
    // SAFETY: the kernel reads and writes the two structures, which outlive the call, and no more than their lengths.
    #[allow(unsafe_code, reason = "raw system call")]
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    match nix::errno::Errno::result(result) {
        Ok(_) => {
            let name = info.driver.split(|byte| *byte == 0).next().unwrap_or_default();
            Ok(Some(String::from_utf8_lossy(name).into_owned()))
        }
        Err(nix::errno::Errno::EOPNOTSUPP) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}
