use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{EndpointPort, Labels, ObjectName, Protocol};

/// A pod of this node whose interface is ready: what the CNI part knows before the API does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalEndpoint {
    /// Number of the endpoint, from 1, never reused while the node is up.
    pub id: u32,
    /// Index of the host-side interface.
    pub ifindex: u32,
    /// The pod's Namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The pod's UID.
    pub uid: String,
    /// IPv4 address.
    pub addr4: Option<Ipv4Addr>,
    /// IPv6 address.
    pub addr6: Option<Ipv6Addr>,
    /// MAC address of the pod's side of the interface.
    pub mac: [u8; 6],
    /// The pod's labels when it was created. The stream's Workload of the same UID is newer and wins.
    pub labels: Labels,
    /// The pod's named container ports, which ingress rules may refer to. The stream's Workload of the same UID wins.
    pub named_ports: Vec<EndpointPort>,
    /// Ports of the node that lead to the pod.
    pub host_ports: Vec<HostPort>,
}

/// A port of the node that leads to a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// The address of the node that it is at; absent or unspecified: every one.
    pub host_ip: Option<IpAddr>,
    /// Port of the node, 1 to 65535.
    pub host_port: u16,
    /// Port of the pod, 1 to 65535.
    pub container_port: u16,
    /// Protocol.
    pub protocol: Protocol,
}

impl LocalEndpoint {
    /// The pod.
    #[must_use]
    pub fn pod(&self) -> ObjectName {
        ObjectName::new(&self.namespace, &self.name)
    }
}
