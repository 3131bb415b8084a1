use std::net::IpAddr;

use skep_proto::dataplane::v1 as proto;

use super::{address, required};
use crate::dataplane::Cidr;
use crate::dataplane::invalid::{Fault, each};

/// How a node's pods are reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRoute {
    /// Name of the node.
    pub name: String,
    /// Internal addresses of the node: next hops, the first of each family counts.
    pub addresses: Vec<IpAddr>,
    /// Ranges of its pods.
    pub pod_cidrs: Vec<Cidr>,
}

impl NodeRoute {
    pub(crate) fn from_wire(wire: proto::NodeRoute) -> Result<Self, Fault> {
        Ok(Self {
            name: required("name", wire.name)?,
            addresses: each("addresses", wire.addresses, |text| address(&text))?,
            pod_cidrs: each("pod_cidrs", wire.pod_cidrs, |text| {
                text.parse().map_err(|problem| Fault::new("", problem))
            })?,
        })
    }
}
