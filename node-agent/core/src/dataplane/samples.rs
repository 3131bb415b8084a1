//! Small objects for tests.

use std::net::IpAddr;

use super::{
    Change, Endpoint, EndpointPort, EndpointSlice, Event, Family, HostPort, Index, Labels, LocalEndpoint, MapWrite,
    Namespace, NetworkPolicy, NodeRoute, ObjectName, PolicyRule, Protocol, Requirement, Selector, Service, ServicePort,
    Workload,
};

/// Reads `namespace/name`.
pub(crate) fn name(text: &str) -> ObjectName {
    let (namespace, name) = text.split_once('/').unwrap();
    ObjectName::new(namespace, name)
}

/// Reads `key=value,key=value`.
pub(crate) fn labels(text: &str) -> Labels {
    let pairs = text.split(',').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap()).map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Selects objects that have all of `key=value,key=value`.
pub(crate) fn selector(text: &str) -> Selector {
    let requirements = labels(text).into_iter().map(|(key, value)| Requirement::In(key, vec![value]));
    Selector { requirements: requirements.collect() }
}

/// A Service with TCP ports `name:number` or `name:number:node port`.
pub(crate) fn service(text: &str, ips: &[&str], ports: &[&str]) -> Service {
    let port = |text: &&str| {
        let parts: Vec<&str> = text.split(':').collect();
        let number = |at: usize| parts.get(at).map(|part| part.parse().unwrap());
        ServicePort {
            name: parts[0].to_owned(),
            protocol: Protocol::Tcp,
            port: number(1).unwrap(),
            node_port: number(2),
        }
    };
    let cluster_ips: Vec<IpAddr> = ips.iter().map(|ip| ip.parse().unwrap()).collect();
    let mut families: Vec<Family> = cluster_ips.iter().map(|&ip| Family::of(ip)).collect();
    families.dedup();
    Service { cluster_ips, families, ports: ports.iter().map(port).collect(), ..Service::new(name(text)) }
}

/// A slice with TCP ports `name:number` and endpoints `address[@node][/notready|/terminating|/gone]`: ready, not ready,
/// terminating but serving, terminating and no longer serving. The node is n1 unless it is given.
pub(crate) fn slice(text: &str, service: &str, ports: &[&str], endpoints: &[&str]) -> EndpointSlice {
    let endpoint = |text: &&str| {
        let (address, state) = text.split_once('/').unwrap_or((text, "ready"));
        let (address, node) = address.split_once('@').unwrap_or((address, "n1"));
        Endpoint {
            address: address.parse().unwrap(),
            ready: state == "ready",
            serving: state == "ready" || state == "terminating",
            terminating: state == "terminating" || state == "gone",
            node: node.into(),
            zone: "".into(),
            pod: format!("pod-{address}").into(),
            hostname: "".into(),
            for_zones: [].into(),
            for_nodes: [].into(),
        }
    };
    EndpointSlice {
        name: name(text),
        service: service.to_owned(),
        endpoints: endpoints.iter().map(endpoint).collect(),
        ports: ports.iter().map(|text| named_port(text)).collect(),
    }
}

/// A node that is ready.
pub(crate) fn node(name: &str, addresses: &[&str], cidrs: &[&str]) -> NodeRoute {
    NodeRoute {
        name: name.to_owned(),
        addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
        pod_cidrs: cidrs.iter().map(|text| text.parse().unwrap()).collect(),
        zone: String::new(),
        ready: true,
        exclude_from_load_balancers: false,
    }
}

/// The host port `[address:]host port:container port` over TCP.
pub(crate) fn host_port(text: &str) -> HostPort {
    let (rest, container_port) = text.rsplit_once(':').unwrap();
    let (host_ip, host_port) = rest.rsplit_once(':').map_or((None, rest), |(ip, port)| (Some(ip), port));
    HostPort {
        host_ip: host_ip.map(|ip| ip.parse().unwrap()),
        host_port: host_port.parse().unwrap(),
        container_port: container_port.parse().unwrap(),
        protocol: Protocol::Tcp,
    }
}

/// Reads the TCP port `name:number`.
pub(crate) fn named_port(text: &str) -> EndpointPort {
    let (name, port) = text.split_once(':').unwrap();
    EndpointPort { name: name.to_owned(), protocol: Protocol::Tcp, port: port.parse().unwrap() }
}

/// A Workload whose UID is its name.
pub(crate) fn workload(text: &str, addresses: &[&str], pod_labels: &str, ports: &[&str]) -> Workload {
    Workload {
        name: name(text),
        uid: text.to_owned(),
        node: "n1".to_owned(),
        addresses: addresses.iter().map(|addr| addr.parse().unwrap()).collect(),
        labels: labels(pod_labels),
        named_ports: ports.iter().map(|text| named_port(text)).collect(),
    }
}

/// A local endpoint of the pod that [`workload`] would make; interface and number are `10.0.0.N`'s N.
pub(crate) fn local(text: &str, address: &str, pod_labels: &str) -> LocalEndpoint {
    let addr4: std::net::Ipv4Addr = address.parse().unwrap();
    let number = u32::from(addr4.octets()[3]);
    let ObjectName { namespace, name } = name(text);
    LocalEndpoint {
        id: number,
        ifindex: number,
        namespace,
        name,
        uid: text.to_owned(),
        addr4: Some(addr4),
        addr6: None,
        mac: [2, 0, 0, 0, 0, addr4.octets()[3]],
        labels: labels(pod_labels),
        named_ports: Vec::new(),
        host_ports: Vec::new(),
    }
}

/// A Namespace.
pub(crate) fn namespace(name: &str, text: &str) -> Namespace {
    Namespace { name: name.to_owned(), labels: labels(text) }
}

/// A policy that isolates pods in the given directions.
pub(crate) fn policy(
    text: &str,
    pods: &str,
    ingress: Option<Vec<PolicyRule>>,
    egress: Option<Vec<PolicyRule>>,
) -> NetworkPolicy {
    NetworkPolicy { name: name(text), pod_selector: selector(pods), ingress, egress }
}

/// Applies a change at no particular revision.
pub(crate) fn change(index: &mut Index, change: Change) {
    index.apply(Event { revision: 7, change });
}

/// An index whose stream was complete at once.
pub(crate) fn synced(changes: impl IntoIterator<Item = Change>) -> Index {
    let mut index = Index::new("n1");
    change(&mut index, Change::SnapshotBegin);
    for object in changes {
        change(&mut index, object);
    }
    change(&mut index, Change::Synced);
    index
}

/// Drains until nothing is retired; returns all writes.
pub(crate) fn settle(index: &mut Index) -> Vec<MapWrite> {
    let mut writes = index.drain();
    while index.has_retired() {
        writes.extend(index.drain());
    }
    writes
}
