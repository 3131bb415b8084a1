use std::net::IpAddr;

use skep_abi::OVERLAY_PORT;

use crate::netlink::{Netlink, NetlinkError};

/// Name of the overlay's interface.
pub const OVERLAY: &str = "skep_vxlan";

/// Bytes that encapsulation adds to a packet between nodes that have addresses of these families: outer IP, UDP and VXLAN
/// headers and the inner Ethernet header.
#[must_use]
pub fn overhead(node_addrs: &[IpAddr]) -> u32 {
    if node_addrs.iter().any(IpAddr::is_ipv6) { 70 } else { 50 }
}

/// Makes the overlay's interface, or takes the one that is there, and brings it up. `uplink_mtu` is the MTU of the interface
/// below, `node_addrs` the node's own. Gives its index and MTU; the MTU is that of pods' interfaces, too.
///
/// The interface knows no remote side: the programs on it give each packet its own. Nobody is asked for link-layer addresses
/// on it.
///
/// # Errors
/// [`NetlinkError`].
pub async fn prepare_overlay(
    netlink: &Netlink,
    uplink_mtu: u32,
    node_addrs: &[IpAddr],
) -> Result<(u32, u32), NetlinkError> {
    let mtu = uplink_mtu.saturating_sub(overhead(node_addrs));
    netlink.ensure_overlay(OVERLAY, OVERLAY_PORT, mtu).await.map(|index| (index, mtu))
}

/// Removes the overlay's interface, when routes are direct. That it is not there is no error.
///
/// # Errors
/// [`NetlinkError`].
pub async fn remove_overlay(netlink: &Netlink) -> Result<(), NetlinkError> {
    match netlink.link(OVERLAY).await? {
        Some(link) => netlink.delete_link(link.index).await,
        None => Ok(()),
    }
}
