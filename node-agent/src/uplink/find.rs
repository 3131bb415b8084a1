//! The interface that leads to other nodes and out of the cluster.

use anyhow::{Context as _, bail};
use tracing::warn;

use crate::config::Config;
use crate::netlink::Netlink;

/// `lo` is the first interface of every namespace.
const LOOPBACK: u32 = 1;

/// Index of the interface: the one that the command line names, else the one that has the node's first address. Without
/// one nothing from outside is served here.
///
/// # Errors
/// The interface that was named is not there, or the kernel does not answer.
pub(crate) async fn find(netlink: &Netlink, config: &Config) -> anyhow::Result<Option<u32>> {
    if let Some(name) = &config.uplink {
        return match netlink.link(name).await? {
            Some(link) => Ok(Some(link.index)),
            None => bail!("--uplink: there is no interface {name}"),
        };
    }
    let addresses = netlink.addresses().await.context("addresses of interfaces")?;
    for node_address in &config.node_address {
        let found = addresses.iter().find(|address| address.addr == *node_address && address.ifindex != LOOPBACK);
        if let Some(found) = found {
            return Ok(Some(found.ifindex));
        }
    }
    warn!("no interface has a node address: --uplink must name the one that traffic from outside comes by");
    Ok(None)
}
