use std::net::IpAddr;

use skep_proto::dataplane::v1 as proto;

use super::{address, required};
use crate::dataplane::Cidr;
use crate::dataplane::invalid::{Fault, each};

/// A node: how it and its pods are reached, and whether traffic from outside may be sent to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRoute {
    /// Name of the node.
    pub name: String,
    /// Internal addresses of the node: next hops, the first of each family counts.
    pub addresses: Vec<IpAddr>,
    /// Ranges of its pods.
    pub pod_cidrs: Vec<Cidr>,
    /// Topology zone, "" for none.
    pub zone: String,
    /// The node is Ready: it may answer for load balancer addresses.
    pub ready: bool,
    /// The node must not answer for load balancer addresses.
    pub exclude_from_load_balancers: bool,
}

impl NodeRoute {
    pub(crate) fn from_wire(wire: proto::NodeRoute) -> Result<Self, Fault> {
        Ok(Self {
            name: required("name", wire.name)?,
            addresses: each("addresses", wire.addresses, |text| address(&text))?,
            pod_cidrs: each("pod_cidrs", wire.pod_cidrs, |text| {
                text.parse().map_err(|problem| Fault::new("", problem))
            })?,
            zone: wire.zone,
            ready: wire.ready,
            exclude_from_load_balancers: wire.exclude_from_load_balancers,
        })
    }
}
