use std::io;
use std::net::IpAddr;

use skep_agent_core::dataplane::Cidr;
use skep_agent_core::ipam::Allocation;
use skep_cni::{GATEWAY4, GATEWAY6};
use tracing::warn;

use crate::config::Config;
use crate::netlink::{
    Link, Mac, Namespace, Netlink, NetlinkError, Route, SysctlError, VethPair, set_sysctl, set_sysctl_if_present,
};

/// Names of the node's side of pod interfaces: this and the endpoint's number in hexadecimal.
pub const HOST_PREFIX: &str = "skeppod";
/// MTU when the uplink has none to tell (Ethernet's).
const DEFAULT_MTU: u32 = 1500;
/// `lo` is the first interface of every namespace.
const LOOPBACK_INDEX: u32 = 1;

/// Interfaces, addresses or routes could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PlumbingError {
    /// The kernel refused.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// A setting could not be changed.
    #[error(transparent)]
    Sysctl(#[from] SysctlError),
    /// The pod's namespace cannot be entered.
    #[error("network namespace {path}: {source}")]
    Namespace {
        /// Where it is mounted.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// An interface that was just made is not there.
    #[error("interface {0} has vanished")]
    Vanished(String),
}

/// What the node's own network says about that of its pods.
#[derive(Clone, Debug)]
pub struct NodeNetwork {
    /// Acts in the node's namespace.
    pub netlink: Netlink,
    /// The node's IPv4 address, when it is one of this namespace.
    pub source4: Option<IpAddr>,
    /// The node's IPv6 address, when it is one of this namespace.
    pub source6: Option<IpAddr>,
    /// MTU of the interface that has the node's address, bytes.
    pub mtu: u32,
}

impl NodeNetwork {
    /// Looks at the node's interfaces, and has the kernel forward packets.
    ///
    /// # Errors
    /// [`PlumbingError`].
    pub async fn prepare(netlink: Netlink, config: &Config) -> Result<Self, PlumbingError> {
        let addresses = netlink.addresses().await?;
        let mut network = Self { netlink, source4: None, source6: None, mtu: DEFAULT_MTU };
        let mut smallest = None;
        for &addr in &config.node_address {
            let Some(found) = addresses.iter().find(|address| address.addr == addr) else {
                warn!(%addr, "the node address is not on any interface; connections to pods use another source");
                continue;
            };
            match addr {
                IpAddr::V4(_) => network.source4 = Some(addr),
                IpAddr::V6(_) => network.source6 = Some(addr),
            }
            if let Some(link) = network.netlink.link_by_index(found.ifindex).await? {
                smallest = Some(smallest.map_or(link.mtu, |mtu: u32| mtu.min(link.mtu)));
                keep_router_advertisements(&network.netlink, found.ifindex).await?;
            }
        }
        if let Some(mtu) = smallest {
            // `lo` has 65536, and IPv4 cannot have that much.
            network.mtu = mtu.min(65_535);
        }
        if config.address(true).is_some() {
            set_sysctl("net/ipv4/ip_forward", "1")?;
        }
        if config.address(false).is_some() {
            set_sysctl("net/ipv6/conf/all/forwarding", "1")?;
        }
        Ok(network)
    }

    /// This node's source address of a family.
    #[must_use]
    pub fn source(&self, ipv4: bool) -> Option<IpAddr> {
        if ipv4 { self.source4 } else { self.source6 }
    }

    /// Makes the interface pair, both sides down.
    ///
    /// # Errors
    /// [`PlumbingError`].
    pub(super) async fn create(&self, allocation: &Allocation, ifname: &str) -> Result<Pair, PlumbingError> {
        let path = &allocation.owner.netns;
        let failed = |source| PlumbingError::Namespace { path: path.clone(), source };
        let namespace = Namespace::open(path.as_ref()).map_err(failed)?;
        let ipv6 = allocation.addr6.is_some();
        let (settings, pod) = namespace.enter(move || pod_settings(ipv6)).await.map_err(failed)?;
        settings?;
        let host = host_ifname(allocation.endpoint);
        let (host_mac, pod_mac) = macs(allocation.endpoint);
        let veth = VethPair {
            host: &host,
            host_mac,
            peer: ifname,
            peer_mac: pod_mac,
            netns: namespace.as_fd(),
            mtu: self.mtu,
        };
        self.netlink.add_veth(&veth).await?;
        host_settings(&host)?;
        let link = self.netlink.link(&host).await?.ok_or_else(|| PlumbingError::Vanished(host.clone()))?;
        Ok(Pair { host, link, pod_mac, pod })
    }

    /// The pod's side: up, with addresses, neighbours and routes. No packet passes before [`NodeNetwork::open`].
    ///
    /// # Errors
    /// [`PlumbingError`].
    pub(super) async fn furnish(
        &self,
        pair: &Pair,
        allocation: &Allocation,
        ifname: &str,
    ) -> Result<(), PlumbingError> {
        let pod = &pair.pod;
        pod.set_up(LOOPBACK_INDEX).await?;
        let inside = pod.link(ifname).await?.ok_or_else(|| PlumbingError::Vanished(ifname.to_owned()))?;
        pod.set_up(inside.index).await?;
        for addr in allocation.addresses() {
            pod.add_host_address(inside.index, addr).await?;
            let (gateway, everywhere) = match addr {
                IpAddr::V4(_) => (IpAddr::V4(GATEWAY4), Cidr::ALL_IPV4),
                IpAddr::V6(_) => (IpAddr::V6(GATEWAY6), Cidr::ALL_IPV6),
            };
            pod.add_neighbour(inside.index, gateway, pair.link.mac).await?;
            let (gateway, ifindex) = (Some(gateway), Some(inside.index));
            pod.set_route(&Route { destination: everywhere, gateway, ifindex, source: None, onlink: true }).await?;
        }
        Ok(())
    }

    /// The node's side: up, with neighbours and routes. From now on packets pass.
    ///
    /// # Errors
    /// [`PlumbingError`].
    pub(super) async fn open(&self, pair: &Pair, allocation: &Allocation) -> Result<(), PlumbingError> {
        let index = pair.link.index;
        self.netlink.set_up(index).await?;
        for addr in allocation.addresses() {
            self.netlink.add_neighbour(index, addr, pair.pod_mac).await?;
            let source = self.source(addr.is_ipv4());
            let destination = Cidr::host(addr);
            let route = Route { destination, gateway: None, ifindex: Some(index), source, onlink: false };
            self.netlink.set_route(&route).await?;
        }
        Ok(())
    }
}

/// A pod's interfaces.
#[derive(Debug)]
pub(super) struct Pair {
    /// Name of the node's side.
    pub(super) host: String,
    /// The node's side.
    pub(super) link: Link,
    /// Address of the pod's side.
    pub(super) pod_mac: Mac,
    /// Acts in the pod's namespace.
    pod: Netlink,
}

/// Name of the node's side of an endpoint's interface pair.
pub(super) fn host_ifname(endpoint: u32) -> String {
    format!("{HOST_PREFIX}{endpoint:x}")
}

/// Link-layer addresses of the node's and the pod's side: locally administered, and derived from the endpoint's number,
/// which is never reused.
pub(super) fn macs(endpoint: u32) -> (Mac, Mac) {
    let [a, b, c, d] = endpoint.to_be_bytes();
    (Mac([0x0a, 0x01, a, b, c, d]), Mac([0x0a, 0x02, a, b, c, d]))
}

/// Before there is an interface, so that it gets them from its birth.
fn pod_settings(ipv6: bool) -> Result<(), SysctlError> {
    if !ipv6 {
        return Ok(());
    }
    for (name, value) in [
        ("net/ipv6/conf/all/disable_ipv6", "0"),
        ("net/ipv6/conf/default/disable_ipv6", "0"),
        // The link-local address of a pod has no rival either; without the wait for one the pod can use it at once.
        ("net/ipv6/conf/default/accept_dad", "0"),
        ("net/ipv6/conf/default/accept_ra", "0"),
    ] {
        set_sysctl_if_present(name, value)?;
    }
    Ok(())
}

fn host_settings(ifname: &str) -> Result<(), SysctlError> {
    // What a pod may send from is checked by the programs, for both families.
    set_sysctl_if_present(&format!("net/ipv4/conf/{ifname}/rp_filter"), "0")?;
    // No link-local address: nothing is ever sent to the node by one, and each would join multicast groups.
    set_sysctl_if_present(&format!("net/ipv6/conf/{ifname}/addr_gen_mode"), "1")
}

/// A kernel that forwards IPv6 ignores router advertisements, and with them the way out, unless told otherwise.
async fn keep_router_advertisements(netlink: &Netlink, ifindex: u32) -> Result<(), PlumbingError> {
    let Some(name) = netlink.link_name(ifindex).await? else { return Ok(()) };
    let setting = format!("net/ipv6/conf/{name}/accept_ra");
    let path = format!("/proc/sys/{setting}");
    if tokio::fs::read_to_string(path).await.is_ok_and(|value| value.trim() == "1") {
        set_sysctl(&setting, "2")?;
    }
    Ok(())
}
