use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use skep_abi::Direction;

use crate::dataplane::identity::Group;
use crate::dataplane::population::{Pod, Population};
use crate::dataplane::{
    EndpointPort, IpBlock, NetworkPolicy, PodPeer, PolicyPeer, PolicyPort, PolicyPorts, PolicyRule, Protocol, RuleName,
    Selector,
};

/// One bit of a rule list: allows the product of `peers` and `ports`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) name: RuleName,
    /// `None`: any peer.
    pub(super) peers: Option<Peers>,
    /// `None`: any port of any protocol.
    pub(super) ports: Option<Vec<PortRange>>,
}

/// Ports of a protocol; every one when it begins at 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PortRange {
    pub(super) protocol: Protocol,
    pub(super) first: u16,
    pub(super) last: u16,
}

/// Peers of a [`Rule`]: the union of its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Peers {
    pub(super) pods: Vec<PodMatch>,
    pub(super) identities: BTreeSet<u64>,
    pub(super) blocks: Vec<IpBlock>,
    pub(super) addresses: BTreeSet<IpAddr>,
}

/// Pods of some Namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodMatch {
    namespaces: Namespaces,
    pods: Selector,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Namespaces {
    One(String),
    Selected(Selector),
}

impl PodMatch {
    fn new(policy: &NetworkPolicy, peer: &PodPeer) -> Self {
        let namespaces = match &peer.namespace_selector {
            None => Namespaces::One(policy.name.namespace.clone()),
            Some(selector) => Namespaces::Selected(selector.clone()),
        };
        Self { namespaces, pods: peer.pod_selector.clone() }
    }

    pub(super) fn matches(&self, group: &Group) -> bool {
        let namespace = match &self.namespaces {
            Namespaces::One(name) => *name == group.namespace,
            Namespaces::Selected(selector) => selector.matches(&group.namespace_labels),
        };
        namespace && self.pods.matches(&group.labels)
    }
}

impl Peers {
    fn new(policy: &NetworkPolicy, rule: &PolicyRule) -> Option<Self> {
        if rule.peers.is_empty() {
            return None;
        }
        let mut peers = Self::default();
        for peer in &rule.peers {
            match peer {
                PolicyPeer::Pods(pods) => peers.pods.push(PodMatch::new(policy, pods)),
                PolicyPeer::IpBlock(block) => peers.blocks.push(block.clone()),
            }
        }
        Some(peers)
    }

    /// Whether pods of the group are peers whatever their address.
    pub(super) fn select(&self, identity: u64, group: &Group) -> bool {
        self.identities.contains(&identity) || self.pods.iter().any(|pods| pods.matches(group))
    }
}

/// The rules of a direction of policies, in order.
pub(super) fn rules_of(direction: Direction, policy: &NetworkPolicy) -> Option<&[PolicyRule]> {
    match direction {
        Direction::Ingress => policy.ingress.as_deref(),
        Direction::Egress => policy.egress.as_deref(),
    }
}

/// Whether some rule of this direction names a port.
pub(super) fn names_ports(direction: Direction, policy: &NetworkPolicy) -> bool {
    let mut ports = rules_of(direction, policy).into_iter().flatten().flat_map(|rule| &rule.ports);
    ports.any(|port| matches!(port.ports, PolicyPorts::Named(_)))
}

/// Lays the rules of policies out as bits.
///
/// A named port is a port of the destination. For ingress that is the selected pod, whose ports are `named_ports`. For
/// egress it differs from peer to peer: the rule becomes one bit for each number that peers have under the name.
pub(super) fn lay_out(
    direction: Direction,
    policies: &[&NetworkPolicy],
    named_ports: &[EndpointPort],
    population: &Population,
) -> Vec<Rule> {
    let mut bits = Vec::new();
    for policy in policies {
        for (index, rule) in rules_of(direction, policy).into_iter().flatten().enumerate() {
            let name = RuleName { policy: policy.name.name.clone(), rule: index };
            let peers = Peers::new(policy, rule);
            if rule.ports.is_empty() {
                bits.push(Rule { name, peers, ports: None });
                continue;
            }
            let mut ranges = Vec::new();
            for PolicyPort { protocol, ports } in &rule.ports {
                let protocol = *protocol;
                match ports {
                    PolicyPorts::All => ranges.push(PortRange { protocol, first: 0, last: u16::MAX }),
                    PolicyPorts::Range(first, last) => {
                        ranges.push(PortRange { protocol, first: *first, last: *last });
                    }
                    PolicyPorts::Named(port) if direction == Direction::Ingress => {
                        let mut known = named_ports.iter();
                        let known = known.find(|known| known.name == *port && known.protocol == protocol);
                        ranges.extend(known.map(|known| PortRange { protocol, first: known.port, last: known.port }));
                    }
                    PolicyPorts::Named(port) => {
                        for (number, peers) in peers_by_port(peers.as_ref(), port, protocol, population) {
                            let ports = Some(vec![PortRange { protocol, first: number, last: number }]);
                            bits.push(Rule { name: name.clone(), peers: Some(peers), ports });
                        }
                    }
                }
            }
            // Only names that nobody has: the rule allows nothing, which is not the same as any port.
            if !ranges.is_empty() {
                bits.push(Rule { name, peers, ports: Some(ranges) });
            }
        }
    }
    bits
}

/// The port that a pod has under the name asked for, and the pod's addresses.
type Member = (Option<u16>, Vec<IpAddr>);

/// The peers that have a port of this name, by its number.
fn peers_by_port(
    peers: Option<&Peers>,
    name: &str,
    protocol: Protocol,
    population: &Population,
) -> BTreeMap<u16, Peers> {
    let mut by_port: BTreeMap<u16, Peers> = BTreeMap::new();
    let mut by_identity: BTreeMap<u64, Vec<Member>> = BTreeMap::new();
    for (key, pod) in population.pods() {
        let port = pod.named_port(name, protocol);
        let held = |addr: &&IpAddr| population.holder(**addr).is_some_and(|(holder, _)| holder == key);
        let addresses = || pod.addresses.iter().filter(held).copied();
        if is_selected(peers, pod, population) {
            by_identity.entry(pod.identity).or_default().push((port, addresses().collect()));
        } else if let (Some(port), Some(peers)) = (port, peers) {
            let inside: Vec<_> =
                addresses().filter(|&addr| peers.blocks.iter().any(|block| block.contains(addr))).collect();
            if !inside.is_empty() {
                by_port.entry(port).or_default().addresses.extend(inside);
            }
        }
    }
    for (identity, members) in by_identity {
        let first = members.first().and_then(|(port, _)| *port);
        match first {
            Some(port) if members.iter().all(|(other, _)| *other == first) => {
                by_port.entry(port).or_default().identities.insert(identity);
            }
            // Pods with the same labels and different ports, as in the middle of a rollout: address by address.
            _ => {
                for (port, addresses) in members {
                    if let Some(port) = port {
                        by_port.entry(port).or_default().addresses.extend(addresses);
                    }
                }
            }
        }
    }
    by_port
}

fn is_selected(peers: Option<&Peers>, pod: &Pod, population: &Population) -> bool {
    match peers {
        None => true,
        Some(peers) => population.identities.group(pod.identity).is_some_and(|group| peers.select(pod.identity, group)),
    }
}
