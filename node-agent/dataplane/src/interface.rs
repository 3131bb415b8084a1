//! What is known of an interface by its index, in the network namespace of the calling thread.

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::libc;
use nix::net::if_::if_indextoname;

use crate::Error;

/// The name of an interface.
pub(crate) fn name(ifindex: u32) -> Result<String, Error> {
    let name = if_indextoname(ifindex).map_err(|errno| failed(ifindex, errno))?;
    name.into_string().map_err(|_| failed(ifindex, Errno::EILSEQ))
}

/// The link-layer address of an interface; zeroes when it is none of Ethernet's.
pub(crate) fn mac(ifindex: u32) -> Result<[u8; 6], Error> {
    let index = usize::try_from(ifindex).unwrap_or(usize::MAX);
    let links = getifaddrs().map_err(|errno| failed(ifindex, errno))?;
    for link in links.filter_map(|interface| interface.address) {
        if let Some(link) = link.as_link_addr().filter(|link| link.ifindex() == index) {
            let ethernet = link.hatype() == libc::ARPHRD_ETHER;
            return Ok(link.addr().filter(|_| ethernet).unwrap_or_default());
        }
    }
    Err(failed(ifindex, Errno::ENODEV))
}

fn failed(ifindex: u32, errno: Errno) -> Error {
    Error::Interface { ifindex, source: errno.into() }
}
