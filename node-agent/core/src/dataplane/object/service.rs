use std::collections::BTreeSet;
use std::net::IpAddr;

use skep_proto::dataplane::v1 as proto;

use super::{ObjectName, Protocol, address, port, required};
use crate::dataplane::Problem;
use crate::dataplane::invalid::{Fault, each};

/// A v1.Service that has at least one cluster IP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Namespace and name.
    pub name: ObjectName,
    /// Cluster IPs of either family.
    pub cluster_ips: Vec<IpAddr>,
    /// Ports; name and (port, protocol) are unique.
    pub ports: Vec<ServicePort>,
    /// Seconds of ClientIP affinity; 0 is none.
    pub affinity_timeout_seconds: u32,
}

/// A port of a [`Service`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// "" when the Service has one unnamed port.
    pub name: String,
    /// Protocol.
    pub protocol: Protocol,
    /// The Service's port, 1 to 65535.
    pub port: u16,
}

/// A discovery.k8s.io/v1 EndpointSlice that names its Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSlice {
    /// Namespace and name.
    pub name: ObjectName,
    /// Name of the Service, in the same Namespace.
    pub service: String,
    /// Endpoints.
    pub endpoints: Vec<Endpoint>,
    /// Ports of every endpoint.
    pub ports: Vec<EndpointPort>,
}

/// An endpoint of an [`EndpointSlice`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The first address; the API gives further ones no meaning.
    pub address: IpAddr,
    /// Takes new connections.
    pub ready: bool,
    /// Answers connections.
    pub serving: bool,
    /// Is going away.
    pub terminating: bool,
    /// Node, "" when unknown.
    pub node: String,
    /// Pod in the slice's Namespace, "" for another kind of target.
    pub pod: String,
}

/// A named port of pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndpointPort {
    /// Name; "" for the unnamed port.
    pub name: String,
    /// Protocol.
    pub protocol: Protocol,
    /// Port, 1 to 65535.
    pub port: u16,
}

impl Service {
    pub(crate) fn from_wire(wire: proto::Service) -> Result<Self, Fault> {
        let name = ObjectName { namespace: required("namespace", wire.namespace)?, name: required("name", wire.name)? };
        let cluster_ips = each("cluster_ips", wire.cluster_ips, |ip| address(&ip))?;
        if cluster_ips.is_empty() {
            return Err(Fault::new("cluster_ips", Problem::Missing));
        }
        let ports = each("ports", wire.ports, |wire| {
            Ok(ServicePort {
                name: wire.name,
                protocol: Protocol::from_wire(wire.protocol)?,
                port: port("port", wire.port)?,
            })
        })?;
        let mut names = BTreeSet::new();
        let mut numbers = BTreeSet::new();
        for (i, port) in ports.iter().enumerate() {
            if !names.insert(&port.name) {
                return Err(Fault::new("name", Problem::Duplicate(format!("{:?}", port.name))).at("ports", i));
            }
            if !numbers.insert((port.port, port.protocol)) {
                return Err(Fault::new("port", Problem::Duplicate(port.port.to_string())).at("ports", i));
            }
        }
        Ok(Self { name, cluster_ips, ports, affinity_timeout_seconds: wire.affinity_timeout_seconds })
    }
}

impl EndpointSlice {
    pub(crate) fn from_wire(wire: proto::EndpointSlice) -> Result<Self, Fault> {
        Ok(Self {
            name: ObjectName { namespace: required("namespace", wire.namespace)?, name: required("name", wire.name)? },
            service: required("service", wire.service)?,
            endpoints: each("endpoints", wire.endpoints, Endpoint::from_wire)?,
            ports: each("ports", wire.ports, EndpointPort::from_wire)?,
        })
    }
}

impl Endpoint {
    fn from_wire(wire: proto::Endpoint) -> Result<Self, Fault> {
        let first = wire.addresses.first().ok_or_else(|| Fault::new("addresses", Problem::Missing))?;
        Ok(Self {
            address: address(first).map_err(|fault| fault.at("addresses", 0))?,
            ready: wire.ready,
            serving: wire.serving,
            terminating: wire.terminating,
            node: wire.node,
            pod: wire.pod,
        })
    }
}

impl EndpointPort {
    pub(crate) fn from_wire(wire: proto::EndpointPort) -> Result<Self, Fault> {
        Ok(Self { name: wire.name, protocol: Protocol::from_wire(wire.protocol)?, port: port("port", wire.port)? })
    }
}
