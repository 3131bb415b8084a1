use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use skep_proto::dataplane::v1 as proto;

use super::{ObjectName, Protocol, address, port, required};
use crate::dataplane::invalid::{Fault, each};
use crate::dataplane::{Cidr, Family, Problem};

/// Longest session affinity that the API takes, seconds (one day).
const LONGEST_AFFINITY: u32 = 86_400;

/// A v1.Service of any type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Namespace and name.
    pub name: ObjectName,
    /// Type.
    pub kind: ServiceKind,
    /// Cluster IPs of either family; none when it is headless or of type ExternalName.
    pub cluster_ips: Vec<IpAddr>,
    /// It has no cluster IP on purpose: its name stands for its endpoints.
    pub headless: bool,
    /// The name that a Service of type ExternalName stands for, else "".
    pub external_name: String,
    /// Families that it has, the first one first.
    pub families: Vec<Family>,
    /// Ports; name and (port, protocol) are unique, (node port, protocol) too.
    pub ports: Vec<ServicePort>,
    /// Seconds of ClientIP affinity; 0 is none.
    pub affinity_timeout_seconds: u32,
    /// `externalIPs`.
    pub external_ips: Vec<IpAddr>,
    /// Addresses of its load balancer that nodes serve.
    pub load_balancer_ips: Vec<IpAddr>,
    /// Clients from outside that may use the load balancer's addresses; empty: everybody.
    pub load_balancer_source_ranges: Vec<Cidr>,
    /// `internalTrafficPolicy` is Local.
    pub internal_local: bool,
    /// `externalTrafficPolicy` is Local.
    pub external_local: bool,
    /// Where load balancers ask a node whether it has endpoints.
    pub health_check_node_port: Option<u16>,
    /// Endpoints that are not ready are published as if they were; EndpointSlices say so by themselves.
    pub publish_not_ready_addresses: bool,
    /// Backends are chosen by a Maglev table.
    pub maglev: bool,
    /// `trafficDistribution`, "" for none; it takes effect by the hints of EndpointSlices.
    pub traffic_distribution: String,
}

/// Type of a [`Service`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServiceKind {
    /// Reached within the cluster.
    #[default]
    ClusterIp,
    /// And by a port of every node.
    NodePort,
    /// And by addresses of a load balancer.
    LoadBalancer,
    /// A name for a name; nothing of the dataplane.
    ExternalName,
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
    /// The same on every node's addresses.
    pub node_port: Option<u16>,
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
    /// Node, "" when unknown. Shared: a cluster has few of these names and many endpoints.
    pub node: Arc<str>,
    /// Topology zone of the node, "" when unknown.
    pub zone: Arc<str>,
    /// Pod in the slice's Namespace, "" for another kind of target.
    pub pod: Box<str>,
    /// Host name under which it is published in DNS, "" for none.
    pub hostname: Box<str>,
    /// Zones whose clients should use it; none: no hint.
    pub for_zones: Box<[Box<str>]>,
    /// Nodes whose clients should use it; none: no hint.
    pub for_nodes: Box<[Box<str>]>,
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
        let kind = ServiceKind::from_wire(wire.r#type)?;
        let cluster_ips = each("cluster_ips", wire.cluster_ips, |ip| address(&ip))?;
        let external_name = wire.external_name;
        if kind == ServiceKind::ExternalName {
            if external_name.is_empty() {
                return Err(Fault::new("external_name", Problem::Missing));
            }
            if !cluster_ips.is_empty() {
                return Err(Fault::new("cluster_ips", Problem::Unexpected("of type ExternalName")));
            }
        } else if wire.headless {
            if !cluster_ips.is_empty() {
                return Err(Fault::new("cluster_ips", Problem::Unexpected("headless")));
            }
        } else if cluster_ips.is_empty() {
            return Err(Fault::new("cluster_ips", Problem::Missing));
        }
        if wire.affinity_timeout_seconds > LONGEST_AFFINITY {
            let problem = Problem::Seconds(wire.affinity_timeout_seconds, LONGEST_AFFINITY);
            return Err(Fault::new("affinity_timeout_seconds", problem));
        }
        let mut families = each("ip_families", wire.ip_families, |text| {
            text.parse::<Family>().map_err(|problem| Fault::new("", problem))
        })?;
        if families.is_empty() {
            for family in cluster_ips.iter().map(|&ip| Family::of(ip)) {
                if !families.contains(&family) {
                    families.push(family);
                }
            }
        }
        let ports = each("ports", wire.ports, ServicePort::from_wire)?;
        check_unique(&ports)?;
        Ok(Self {
            name,
            kind,
            cluster_ips,
            headless: wire.headless,
            external_name,
            families,
            ports,
            affinity_timeout_seconds: wire.affinity_timeout_seconds,
            external_ips: each("external_ips", wire.external_ips, |ip| address(&ip))?,
            load_balancer_ips: each("load_balancer_ips", wire.load_balancer_ips, |ip| address(&ip))?,
            // The API takes blanks around them.
            load_balancer_source_ranges: each(
                "load_balancer_source_ranges",
                wire.load_balancer_source_ranges,
                |text| text.trim().parse().map_err(|problem| Fault::new("", problem)),
            )?,
            internal_local: wire.internal_local,
            external_local: wire.external_local,
            health_check_node_port: optional_port("health_check_node_port", wire.health_check_node_port)?,
            publish_not_ready_addresses: wire.publish_not_ready_addresses,
            maglev: wire.maglev,
            traffic_distribution: wire.traffic_distribution,
        })
    }

    /// A Service of type ClusterIP with neither addresses nor ports.
    #[must_use]
    pub fn new(name: ObjectName) -> Self {
        Self {
            name,
            kind: ServiceKind::ClusterIp,
            cluster_ips: Vec::new(),
            headless: false,
            external_name: String::new(),
            families: Vec::new(),
            ports: Vec::new(),
            affinity_timeout_seconds: 0,
            external_ips: Vec::new(),
            load_balancer_ips: Vec::new(),
            load_balancer_source_ranges: Vec::new(),
            internal_local: false,
            external_local: false,
            health_check_node_port: None,
            publish_not_ready_addresses: false,
            maglev: false,
            traffic_distribution: String::new(),
        }
    }
}

fn check_unique(ports: &[ServicePort]) -> Result<(), Fault> {
    let mut names = BTreeSet::new();
    let mut numbers = BTreeSet::new();
    let mut node_ports = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        if !names.insert(&port.name) {
            return Err(Fault::new("name", Problem::Duplicate(format!("{:?}", port.name))).at("ports", i));
        }
        if !numbers.insert((port.port, port.protocol)) {
            return Err(Fault::new("port", Problem::Duplicate(port.port.to_string())).at("ports", i));
        }
        if let Some(node_port) = port.node_port.filter(|&node_port| !node_ports.insert((node_port, port.protocol))) {
            return Err(Fault::new("node_port", Problem::Duplicate(node_port.to_string())).at("ports", i));
        }
    }
    Ok(())
}

/// A port number from 1 to 65535, or 0 for none.
fn optional_port(field: &str, wire: u32) -> Result<Option<u16>, Fault> {
    if wire == 0 { Ok(None) } else { port(field, wire).map(Some) }
}

impl ServiceKind {
    /// Reads a type; unspecified is ClusterIP, as in the Kubernetes API.
    fn from_wire(wire: i32) -> Result<Self, Fault> {
        match proto::ServiceType::try_from(wire) {
            Ok(proto::ServiceType::Unspecified | proto::ServiceType::ClusterIp) => Ok(Self::ClusterIp),
            Ok(proto::ServiceType::NodePort) => Ok(Self::NodePort),
            Ok(proto::ServiceType::LoadBalancer) => Ok(Self::LoadBalancer),
            Ok(proto::ServiceType::ExternalName) => Ok(Self::ExternalName),
            Err(_) => Err(Fault::new("type", Problem::ServiceType(wire))),
        }
    }
}

impl ServicePort {
    fn from_wire(wire: proto::ServicePort) -> Result<Self, Fault> {
        Ok(Self {
            name: wire.name,
            protocol: Protocol::from_wire(wire.protocol)?,
            port: port("port", wire.port)?,
            node_port: optional_port("node_port", wire.node_port)?,
        })
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
            node: wire.node.into(),
            zone: wire.zone.into(),
            pod: wire.pod.into(),
            hostname: wire.hostname.into(),
            for_zones: wire.for_zones.into_iter().map(String::into_boxed_str).collect(),
            for_nodes: wire.for_nodes.into_iter().map(String::into_boxed_str).collect(),
        })
    }
}

impl EndpointPort {
    pub(crate) fn from_wire(wire: proto::EndpointPort) -> Result<Self, Fault> {
        Ok(Self { name: wire.name, protocol: Protocol::from_wire(wire.protocol)?, port: port("port", wire.port)? })
    }
}
