//! What `ethtool -K` does, in this thread's namespace.
#![allow(unsafe_code, reason = "raw system calls")]

use std::os::fd::AsRawFd as _;

use nix::libc;

/// Whether received packets are joined, for which an interface has a queue that takes frames, too (`ETHTOOL_SGRO`).
pub(crate) const GRO: u32 = 0x2c;
/// Whether the checksums of packets that are sent are left to hardware (`ETHTOOL_STXCSUM`).
pub(crate) const SENT_CHECKSUMS: u32 = 0x17;

/// Sets a feature of an interface.
pub(crate) fn set(ifname: &str, feature: u32, on: bool) {
    let socket = std::net::UdpSocket::bind("[::]:0").unwrap();
    let mut value = [feature, on.into()];
    // SAFETY: plain integers and a union of such, for which zeroes are valid.
    let mut request = unsafe { std::mem::zeroed::<libc::ifreq>() };
    for (to, from) in request.ifr_name.iter_mut().zip(ifname.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
    // SAFETY: the kernel reads the name and two words, all of which outlive the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    nix::errno::Errno::result(result).unwrap();
}
