use std::net::IpAddr;

use crate::netlink::{Netlink, NetlinkError};

/// The interface that has the addresses of cluster DNS.
pub const INTERFACE: &str = "skep-dns";

/// Gives the node the addresses `wanted`, and takes those away that an earlier agent gave it. What is there already is
/// not touched, so that questions go on through a restart.
pub(super) async fn ensure(netlink: &Netlink, wanted: &[IpAddr]) -> Result<(), NetlinkError> {
    let link = match netlink.link(INTERFACE).await? {
        Some(link) => link,
        None => {
            netlink.add_dead_end(INTERFACE).await?;
            match netlink.link(INTERFACE).await? {
                Some(link) => link,
                // Somebody took it away in between: the next review makes it again.
                None => return Ok(()),
            }
        }
    };
    let present = netlink.addresses().await?;
    let present: Vec<IpAddr> =
        present.into_iter().filter(|found| found.ifindex == link.index).map(|found| found.addr).collect();
    for &addr in wanted.iter().filter(|addr| !present.contains(addr)) {
        netlink.add_host_address(link.index, addr).await?;
    }
    netlink.set_up(link.index).await?;
    for addr in present.into_iter().filter(|addr| !wanted.contains(addr) && !is_link_local(*addr)) {
        netlink.remove_address(link.index, addr).await?;
    }
    Ok(())
}

/// Takes the interface away, should there be one.
pub(super) async fn remove(netlink: &Netlink) -> Result<(), NetlinkError> {
    match netlink.link(INTERFACE).await? {
        Some(link) => netlink.delete_link(link.index).await,
        None => Ok(()),
    }
}

/// The kernel gives such an address to every interface.
fn is_link_local(addr: IpAddr) -> bool {
    matches!(addr, IpAddr::V6(addr) if addr.is_unicast_link_local())
}
