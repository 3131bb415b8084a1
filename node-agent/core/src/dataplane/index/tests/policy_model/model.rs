//! NetworkPolicy on the objects, as its documentation reads.

use std::collections::BTreeMap;
use std::net::IpAddr;

use skep_abi::Direction;

use crate::dataplane::policies::evaluate::Connection;
use crate::dataplane::samples::change;
use crate::dataplane::{
    Change, EndpointPort, Index, Kind, Labels, LocalEndpoint, MapContents, Namespace, NetworkPolicy, PolicyPeer,
    PolicyPort, PolicyPorts, Workload,
};

/// The objects, as the API would hold them, and the local interfaces.
#[derive(Clone, Debug, Default)]
pub(super) struct World {
    namespaces: BTreeMap<String, Labels>,
    workloads: BTreeMap<String, Workload>,
    policies: BTreeMap<String, NetworkPolicy>,
    pub(super) local: BTreeMap<u32, LocalEndpoint>,
}

/// What a policy sees of a pod.
struct Pod<'a> {
    namespace: &'a str,
    labels: &'a Labels,
    named_ports: &'a [EndpointPort],
}

impl World {
    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Namespace(object) => {
                self.namespaces.insert(object.name.clone(), object.labels.clone());
            }
            Change::Workload(object) => {
                self.workloads.insert(object.name.to_string(), object.clone());
            }
            Change::NetworkPolicy(object) => {
                self.policies.insert(object.name.to_string(), object.clone());
            }
            Change::Deleted(Kind::Workload, name) => {
                self.workloads.remove(&name.to_string());
            }
            Change::Deleted(Kind::NetworkPolicy, name) => {
                self.policies.remove(&name.to_string());
            }
            _ => unreachable!(),
        }
    }

    /// An agent that starts with these maps and is told everything.
    pub(super) fn start(&self, held: MapContents) -> Index {
        let mut index = Index::new("n1");
        index.adopt(held);
        for endpoint in self.local.values() {
            index.endpoint_added(endpoint.clone());
        }
        let namespaces = self.namespaces.iter();
        let namespaces = namespaces.map(|(name, labels)| Namespace { name: name.clone(), labels: labels.clone() });
        change(&mut index, Change::SnapshotBegin);
        namespaces.for_each(|object| change(&mut index, Change::Namespace(object)));
        self.workloads.values().for_each(|object| change(&mut index, Change::Workload(object.clone())));
        self.policies.values().for_each(|object| change(&mut index, Change::NetworkPolicy(object.clone())));
        change(&mut index, Change::Synced);
        index
    }

    fn pod_at(&self, addr: IpAddr) -> Option<Pod<'_>> {
        if let Some(pod) = self.workloads.values().find(|pod| pod.addresses.contains(&addr)) {
            return Some(Pod { namespace: &pod.name.namespace, labels: &pod.labels, named_ports: &pod.named_ports });
        }
        let pod = self.local.values().find(|pod| pod.addr4.map(IpAddr::V4) == Some(addr))?;
        Some(Pod { namespace: &pod.namespace, labels: &pod.labels, named_ports: &pod.named_ports })
    }

    pub(super) fn allows(&self, connection: Connection) -> Option<bool> {
        let pod = self.local.get(&connection.ifindex)?;
        let own = self.pod_at(IpAddr::V4(pod.addr4?))?;
        let destination = match connection.direction {
            Direction::Ingress => self.pod_at(IpAddr::V4(pod.addr4?)),
            Direction::Egress => self.pod_at(connection.remote),
        };
        let named_ports = destination.map_or(&[][..], |pod| pod.named_ports);
        let mut isolated = false;
        for policy in self.policies.values() {
            let rules = match connection.direction {
                Direction::Ingress => &policy.ingress,
                Direction::Egress => &policy.egress,
            };
            let Some(rules) = rules else { continue };
            if policy.name.namespace != own.namespace || !policy.pod_selector.matches(own.labels) {
                continue;
            }
            isolated = true;
            for rule in rules {
                let mut peers = rule.peers.iter();
                let peer = rule.peers.is_empty() || peers.any(|peer| self.is_peer(peer, policy, connection.remote));
                let mut ports = rule.ports.iter();
                let port = rule.ports.is_empty() || ports.any(|port| is_port(port, connection, named_ports));
                if peer && port {
                    return Some(true);
                }
            }
        }
        Some(!isolated)
    }

    fn is_peer(&self, peer: &PolicyPeer, policy: &NetworkPolicy, remote: IpAddr) -> bool {
        match peer {
            PolicyPeer::IpBlock(block) => block.contains(remote),
            PolicyPeer::Pods(peer) => self.pod_at(remote).is_some_and(|pod| {
                let none = Labels::new();
                let namespace_labels = self.namespaces.get(pod.namespace).unwrap_or(&none);
                let inside = match &peer.namespace_selector {
                    None => pod.namespace == policy.name.namespace,
                    Some(selector) => selector.matches(namespace_labels),
                };
                inside && peer.pod_selector.matches(pod.labels)
            }),
        }
    }
}

fn is_port(port: &PolicyPort, connection: Connection, named_ports: &[EndpointPort]) -> bool {
    let number = match &port.ports {
        PolicyPorts::All => true,
        PolicyPorts::Range(first, last) => (*first..=*last).contains(&connection.port),
        PolicyPorts::Named(name) => {
            let mut ports = named_ports.iter();
            let found = ports.find(|other| other.name == *name && other.protocol == port.protocol);
            found.is_some_and(|found| found.port == connection.port)
        }
    };
    number && port.protocol == connection.protocol
}
