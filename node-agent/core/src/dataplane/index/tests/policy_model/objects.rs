//! Random objects of a small world.

use std::net::IpAddr;

use proptest::prelude::*;
use skep_abi::Direction;

use crate::dataplane::policies::evaluate::Connection;
use crate::dataplane::samples::{labels, name, named_port};
use crate::dataplane::{
    Change, Cidr, IpBlock, Kind, Labels, Namespace, NetworkPolicy, ObjectName, PodPeer, PolicyPeer, PolicyPort,
    PolicyPorts, PolicyRule, Protocol, Requirement, Selector, Workload,
};

/// Pods and their addresses. The first two can be local.
pub(super) const PODS: [(&str, [&str; 2]); 5] = [
    ("a/p1", ["10.0.0.1", "fd00::1"]),
    ("b/p2", ["10.0.0.2", "fd00::2"]),
    ("a/p3", ["10.0.0.3", "fd00::3"]),
    ("b/p4", ["10.0.1.4", "fd00::1:4"]),
    ("c/p5", ["10.0.1.5", "fd00::1:5"]),
];
const OTHERS: [&str; 3] = ["10.0.0.200", "192.0.2.1", "2001:db8::1"];
const PORTS: [u16; 7] = [1, 79, 80, 81, 443, 8080, 65535];

#[derive(Clone, Debug)]
pub(super) enum Step {
    Change(Box<Change>),
    /// The interface of one of the first two pods comes, with these labels, or goes.
    Local(usize, Option<Labels>),
    Drain,
    /// The agent starts anew with what the maps hold.
    Restart,
}

fn some_labels() -> impl Strategy<Value = Labels> {
    prop::sample::subsequence(vec!["app=x", "app=y", "tier=f"], 0..=2).prop_map(|pairs| labels(&pairs.join(",")))
}

fn a_selector() -> impl Strategy<Value = Selector> {
    let key = || prop::sample::select(vec!["app", "tier"]).prop_map(str::to_owned);
    let values = || {
        let values = prop::sample::subsequence(vec!["x", "y", "f"], 1..=2);
        values.prop_map(|values| values.into_iter().map(str::to_owned).collect())
    };
    let requirement = prop_oneof![
        (key(), values()).prop_map(|(key, values)| Requirement::In(key, values)),
        (key(), values()).prop_map(|(key, values)| Requirement::NotIn(key, values)),
        key().prop_map(Requirement::Exists),
        key().prop_map(Requirement::DoesNotExist),
    ];
    prop::collection::vec(requirement, 0..=1).prop_map(|requirements| Selector { requirements })
}

fn a_peer() -> impl Strategy<Value = PolicyPeer> {
    let cidrs =
        ["0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/24", "10.0.0.2/31", "192.0.2.0/24", "::/0", "fd00::/16", "fd00::2/127"];
    let cidrs = cidrs.map(|text| text.parse::<Cidr>().unwrap()).to_vec();
    let except = prop::sample::subsequence(cidrs.clone(), 0..=3);
    let block = (prop::sample::select(cidrs), except).prop_map(|(cidr, mut except)| {
        except.retain(|except| cidr.covers(except));
        PolicyPeer::IpBlock(IpBlock { cidr, except })
    });
    let pods = (prop::option::of(a_selector()), a_selector())
        .prop_map(|(namespace_selector, pod_selector)| PolicyPeer::Pods(PodPeer { namespace_selector, pod_selector }));
    prop_oneof![block, pods]
}

fn a_port() -> impl Strategy<Value = PolicyPort> {
    let range = prop::sample::select(vec![(80, 80), (1, 80), (79, 8080), (81, 65535), (443, 443)]);
    let ports = prop_oneof![
        Just(PolicyPorts::All),
        range.prop_map(|(first, last)| PolicyPorts::Range(first, last)),
        Just(PolicyPorts::Named("http".to_owned())),
    ];
    let protocol = prop_oneof![4 => Just(Protocol::Tcp), 1 => Just(Protocol::Udp)];
    (protocol, ports).prop_map(|(protocol, ports)| PolicyPort { protocol, ports })
}

fn some_rules() -> impl Strategy<Value = Option<Vec<PolicyRule>>> {
    let rule = (prop::collection::vec(a_peer(), 0..=2), prop::collection::vec(a_port(), 0..=2));
    let rule = rule.prop_map(|(peers, ports)| PolicyRule { peers, ports });
    prop::option::of(prop::collection::vec(rule, 0..=2))
}

fn a_policy_name() -> impl Strategy<Value = ObjectName> {
    prop::sample::select(vec!["a/n0", "a/n1", "b/n0", "b/n1"]).prop_map(name)
}

fn a_policy() -> impl Strategy<Value = NetworkPolicy> {
    let parts = (a_policy_name(), a_selector(), some_rules(), some_rules());
    parts.prop_map(|(name, pod_selector, ingress, egress)| NetworkPolicy { name, pod_selector, ingress, egress })
}

fn a_workload() -> impl Strategy<Value = Workload> {
    let named = prop::option::of(prop::sample::select(vec!["http:80", "http:8080"]));
    (prop::sample::select(PODS.to_vec()), 1..=2_usize, some_labels(), named).prop_map(
        |((pod, addresses), count, labels, named)| Workload {
            name: name(pod),
            uid: pod.to_owned(),
            node: "n1".to_owned(),
            addresses: addresses.iter().take(count).map(|addr| addr.parse().unwrap()).collect(),
            labels,
            named_ports: named.into_iter().map(named_port).collect(),
        },
    )
}

pub(super) fn a_step() -> impl Strategy<Value = Step> {
    let namespace = (prop::sample::select(vec!["a", "b", "c"]), some_labels());
    let namespace = namespace.prop_map(|(name, labels)| Namespace { name: name.to_owned(), labels });
    let pod = prop::sample::select(PODS.to_vec()).prop_map(|(pod, _)| name(pod));
    let changes = prop_oneof![
        2 => namespace.prop_map(Change::Namespace),
        4 => a_workload().prop_map(Change::Workload),
        6 => a_policy().prop_map(Change::NetworkPolicy),
        1 => pod.prop_map(|pod| Change::Deleted(Kind::Workload, pod)),
        1 => a_policy_name().prop_map(|name| Change::Deleted(Kind::NetworkPolicy, name)),
    ];
    prop_oneof![
        12 => changes.prop_map(|change| Step::Change(Box::new(change))),
        3 => (0..2_usize, prop::option::weighted(0.8, some_labels())).prop_map(|(n, labels)| Step::Local(n, labels)),
        6 => Just(Step::Drain),
        1 => Just(Step::Restart),
    ]
}

/// Every connection of the first two pods that the tests ask about.
pub(super) fn connections() -> impl Iterator<Item = Connection> {
    let mut connections = Vec::new();
    for remote in PODS.iter().flat_map(|(_, addresses)| addresses).chain(&OTHERS) {
        let remote: IpAddr = remote.parse().unwrap();
        for port in PORTS {
            for protocol in [Protocol::Tcp, Protocol::Udp] {
                for direction in [Direction::Ingress, Direction::Egress] {
                    let of = |ifindex| Connection { ifindex, direction, remote, protocol, port };
                    connections.extend([of(1), of(2)]);
                }
            }
        }
    }
    connections.into_iter()
}
