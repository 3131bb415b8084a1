use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;

use nix::libc;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use skep_verdict::neighbour;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::netlink::Mac;

/// How often an address is announced (RFC 5227 section 2.3 and RFC 4861 section 7.2.6 ask for a few times), and how long to
/// wait between.
const ANNOUNCEMENTS: u32 = 3;
const INTERVAL: Duration = Duration::from_secs(1);

/// Bytes of an Ethernet header.
const ETH_LEN: usize = 14;
/// Bytes of an IPv6 header.
const IPV6_LEN: usize = 40;

/// Tells everybody on a link where load balancer addresses are now. As long as it lives, the interface hears multicast of
/// every group: those who look for an IPv6 address ask a group that the stack knows nothing of.
#[derive(Debug)]
pub struct Announcer {
    socket: OwnedFd,
    mac: Mac,
}

impl Announcer {
    /// For an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// The socket cannot be made or bound to the interface.
    pub fn open(ifindex: u32, mac: Mac) -> io::Result<Self> {
        // Protocol 0: nothing is ever received.
        let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?;
        let ifindex = i32::try_from(ifindex).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: plain integers, for which zeroes are valid.
        #[allow(unsafe_code, reason = "nix has no constructor for this address")]
        let (mut address, mut membership) =
            unsafe { (std::mem::zeroed::<libc::sockaddr_ll>(), std::mem::zeroed::<libc::packet_mreq>()) };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = ifindex;
        membership.mr_ifindex = ifindex;
        membership.mr_type = libc::PACKET_MR_ALLMULTI as u16;
        // SAFETY: the structure is as long as is said, and outlives the call.
        #[allow(unsafe_code, reason = "raw system call")]
        let bound = unsafe {
            let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len)
        };
        nix::errno::Errno::result(bound)?;
        // SAFETY: as above.
        #[allow(unsafe_code, reason = "raw system call")]
        let joined = unsafe {
            let len = size_of::<libc::packet_mreq>() as libc::socklen_t;
            let option = (libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP);
            libc::setsockopt(socket.as_raw_fd(), option.0, option.1, (&raw const membership).cast(), len)
        };
        nix::errno::Errno::result(joined)?;
        Ok(Self { socket, mac })
    }

    /// Announces an address once.
    ///
    /// # Errors
    /// The frame cannot be sent.
    pub fn announce(&self, addr: IpAddr) -> io::Result<()> {
        let frame = match addr {
            IpAddr::V4(addr) => gratuitous_arp(addr, self.mac),
            IpAddr::V6(addr) => unsolicited_advertisement(addr, self.mac),
        };
        nix::unistd::write(&self.socket, &frame)?;
        Ok(())
    }
}

/// Announces each address that comes into the set, a few times. Ends when the set does.
pub async fn keep_announced(announcer: Announcer, mut addresses: watch::Receiver<BTreeSet<IpAddr>>) {
    let mut known = BTreeSet::new();
    // Addresses that are still to be announced, with how often.
    let mut due: Vec<(IpAddr, u32)> = Vec::new();
    loop {
        let now = addresses.borrow_and_update().clone();
        due.retain(|(addr, _)| now.contains(addr));
        due.extend(now.difference(&known).map(|addr| (*addr, ANNOUNCEMENTS)));
        if now != known {
            info!(addresses = now.len(), "load balancer addresses that this node answers for");
        }
        known = now;
        for (addr, left) in &mut due {
            if let Err(problem) = announcer.announce(*addr) {
                warn!(%addr, %problem, "address is not announced");
            }
            *left -= 1;
        }
        due.retain(|(_, left)| *left > 0);
        let changed = if due.is_empty() {
            addresses.changed().await
        } else {
            // The time being up and a change call for the same.
            tokio::time::timeout(INTERVAL, addresses.changed()).await.unwrap_or(Ok(()))
        };
        if changed.is_err() {
            return;
        }
    }
}

fn gratuitous_arp(addr: Ipv4Addr, mac: Mac) -> Vec<u8> {
    let mut frame = ethernet([0xff; 6], mac, [0x08, 0x06]);
    frame.extend(neighbour::arp_announcement(addr.octets(), &mac.0));
    frame
}

fn unsolicited_advertisement(addr: Ipv6Addr, mac: Mac) -> Vec<u8> {
    const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let message = neighbour::unsolicited(&IpAddr::V6(addr).into(), &IpAddr::V6(ALL_NODES).into(), &mac.0);
    let mut frame = ethernet([0x33, 0x33, 0, 0, 0, 1], mac, [0x86, 0xdd]);
    frame.extend([0x60, 0, 0, 0, 0, message.len() as u8, 58, 255]);
    frame.extend(addr.octets());
    frame.extend(ALL_NODES.octets());
    frame.extend(message.iter());
    debug_assert_eq!(frame.len(), ETH_LEN + IPV6_LEN + neighbour::ADVERTISEMENT_LEN);
    frame
}

fn ethernet(to: [u8; 6], from: Mac, ethertype: [u8; 2]) -> Vec<u8> {
    [&to[..], &from.0, &ethertype].concat()
}

#[cfg(test)]
mod tests;
