use std::net::IpAddr;

use skep_proto::dataplane::v1 as proto;

use super::{EndpointPort, Labels, ObjectName, address, required};
use crate::dataplane::Problem;
use crate::dataplane::invalid::{Fault, each};

/// A pod that has addresses and is not in a terminal phase, wherever it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Namespace and name.
    pub name: ObjectName,
    /// UID of the pod.
    pub uid: String,
    /// The node that it runs on.
    pub node: String,
    /// Addresses of either family; at least one.
    pub addresses: Vec<IpAddr>,
    /// Labels.
    pub labels: Labels,
    /// Named container ports.
    pub named_ports: Vec<EndpointPort>,
}

/// A Namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Name.
    pub name: String,
    /// Labels.
    pub labels: Labels,
}

impl Workload {
    pub(crate) fn from_wire(wire: proto::Workload) -> Result<Self, Fault> {
        let addresses = each("addresses", wire.addresses, |text| address(&text))?;
        if addresses.is_empty() {
            return Err(Fault::new("addresses", Problem::Missing));
        }
        Ok(Self {
            name: ObjectName { namespace: required("namespace", wire.namespace)?, name: required("name", wire.name)? },
            uid: required("uid", wire.uid)?,
            node: wire.node,
            addresses,
            labels: wire.labels.into_iter().collect(),
            named_ports: each("named_ports", wire.named_ports, EndpointPort::from_wire)?,
        })
    }
}

impl Namespace {
    pub(crate) fn from_wire(wire: proto::Namespace) -> Result<Self, Fault> {
        Ok(Self { name: required("name", wire.name)?, labels: wire.labels.into_iter().collect() })
    }
}
