use skep_abi::Direction::{Egress, Ingress};
use skep_abi::{Direction, endpoint_flags};

use super::evaluate::{Connection, allows};
use crate::dataplane::samples::{change, labels, local, name, namespace, policy, selector, settle, synced, workload};
use crate::dataplane::{
    Change, Index, IpBlock, Kind, MapWrite, NetworkPolicy, PodPeer, PolicyPeer, PolicyPort, PolicyPorts, PolicyRule,
    Protocol, Write,
};

/// The world of these tests: `web` is local (interface 1); `client` and `db` are elsewhere in its Namespace, `far` in
/// another one.
fn world(policies: impl IntoIterator<Item = NetworkPolicy>) -> Index {
    let objects = [
        Change::Namespace(namespace("ns", "team=a")),
        Change::Namespace(namespace("other", "team=b")),
        Change::Workload(workload("ns/web", &["10.0.0.1"], "app=web", &["http:8080"])),
        Change::Workload(workload("ns/client", &["10.0.0.2", "fd00::2"], "app=client", &["http:80"])),
        Change::Workload(workload("ns/db", &["10.0.0.3"], "app=db,tier=back", &["http:81"])),
        Change::Workload(workload("other/far", &["10.0.0.4"], "app=client", &[])),
    ];
    let mut index = synced(objects.into_iter().chain(policies.into_iter().map(Change::NetworkPolicy)));
    index.endpoint_added(local("ns/web", "10.0.0.1", "app=web"));
    settle(&mut index);
    index
}

fn tcp(index: &Index, direction: Direction, remote: &str, port: u16) -> bool {
    connect(index, direction, remote, Protocol::Tcp, port)
}

fn connect(index: &Index, direction: Direction, remote: &str, protocol: Protocol, port: u16) -> bool {
    let connection = Connection { ifindex: 1, direction, remote: remote.parse().unwrap(), protocol, port };
    allows(index.contents(), connection).unwrap()
}

/// Which of the world's addresses may connect to (or be reached by) `web` at a port.
fn reach(index: &Index, direction: Direction, port: u16) -> Vec<&'static str> {
    let all = ["10.0.0.2", "fd00::2", "10.0.0.3", "10.0.0.4", "192.0.2.1", "2001:db8::1"];
    all.into_iter().filter(|remote| tcp(index, direction, remote, port)).collect()
}

fn rule(peers: Vec<PolicyPeer>, ports: Vec<PolicyPort>) -> PolicyRule {
    PolicyRule { peers, ports }
}

fn pods(pod_selector: &str) -> PolicyPeer {
    PolicyPeer::Pods(PodPeer { namespace_selector: None, pod_selector: selector(pod_selector) })
}

fn pods_in(namespaces: &str, pod_selector: &str) -> PolicyPeer {
    PolicyPeer::Pods(PodPeer { namespace_selector: Some(selector(namespaces)), pod_selector: selector(pod_selector) })
}

fn block(cidr: &str, except: &[&str]) -> PolicyPeer {
    let except = except.iter().map(|cidr| cidr.parse().unwrap()).collect();
    PolicyPeer::IpBlock(IpBlock { cidr: cidr.parse().unwrap(), except })
}

fn tcp_ports(ports: PolicyPorts) -> PolicyPort {
    PolicyPort { protocol: Protocol::Tcp, ports }
}

fn named(port: &str) -> PolicyPort {
    tcp_ports(PolicyPorts::Named(port.to_owned()))
}

fn ingress(rules: Vec<PolicyRule>) -> NetworkPolicy {
    policy("ns/p", "app=web", Some(rules), None)
}

fn egress(rules: Vec<PolicyRule>) -> NetworkPolicy {
    policy("ns/p", "app=web", None, Some(rules))
}

const EVERYBODY: [&str; 6] = ["10.0.0.2", "fd00::2", "10.0.0.3", "10.0.0.4", "192.0.2.1", "2001:db8::1"];

#[test]
fn without_a_policy_that_selects_it_a_pod_is_open() {
    let elsewhere =
        [policy("ns/db", "app=db", Some(vec![]), Some(vec![])), policy("other/all", "", Some(vec![]), Some(vec![]))];
    let index = world(elsewhere);
    assert_eq!(reach(&index, Ingress, 80), EVERYBODY);
    assert_eq!(index.contents().endpoints[&1].rule_list, [0, 0]);
    assert!(index.contents().rule_lists.is_empty());
}

#[test]
fn isolation_is_by_direction() {
    let index = world([ingress(vec![])]);
    assert_eq!(reach(&index, Ingress, 80), [""; 0]);
    assert_eq!(reach(&index, Egress, 80), EVERYBODY);
    let index = world([egress(vec![PolicyRule::default()])]);
    assert_eq!(reach(&index, Ingress, 80), EVERYBODY);
    assert_eq!(reach(&index, Egress, 80), EVERYBODY);
    assert!(connect(&index, Egress, "192.0.2.1", Protocol::Sctp, 9));
}

#[test]
fn peers() {
    let cases: [(&str, Vec<PolicyPeer>, &[&str]); 9] = [
        ("pods of the policy's Namespace", vec![pods("app=client")], &["10.0.0.2", "fd00::2"]),
        ("every pod of it", vec![pods("")], &["10.0.0.2", "fd00::2", "10.0.0.3"]),
        ("a Namespace", vec![pods_in("team=b", "")], &["10.0.0.4"]),
        ("pods in selected Namespaces", vec![pods_in("", "app=client")], &["10.0.0.2", "fd00::2", "10.0.0.4"]),
        ("both must hold", vec![pods_in("team=b", "app=db")], &[]),
        ("either peer", vec![pods("app=db"), pods_in("team=b", "")], &["10.0.0.3", "10.0.0.4"]),
        ("a block", vec![block("192.0.2.0/24", &[])], &["192.0.2.1"]),
        ("a block of pods without one", vec![block("10.0.0.0/8", &["10.0.0.3/32"])], &["10.0.0.2", "10.0.0.4"]),
        ("a block and pods", vec![block("2001:db8::/32", &[]), pods("app=db")], &["10.0.0.3", "2001:db8::1"]),
    ];
    for (what, peers, expected) in cases {
        for make in [ingress, egress] {
            let policy = make(vec![rule(peers.clone(), vec![])]);
            let direction = if policy.ingress.is_some() { Ingress } else { Egress };
            assert_eq!(reach(&world([policy]), direction, 80), expected, "{what}, {direction:?}");
        }
    }
}

#[test]
fn exceptions_are_of_their_block_only() {
    let index = world([ingress(vec![
        rule(vec![block("10.0.0.0/8", &["10.0.0.0/24", "10.0.0.0/25"]), block("10.0.0.4/30", &[])], vec![]),
        rule(vec![block("0.0.0.0/0", &["10.0.0.0/8"])], vec![tcp_ports(PolicyPorts::Range(443, 443))]),
    ])]);
    assert_eq!(reach(&index, Ingress, 80), ["10.0.0.4"]);
    assert_eq!(reach(&index, Ingress, 443), ["10.0.0.4", "192.0.2.1"]);
    assert!(tcp(&index, Ingress, "10.0.1.1", 80));
}

#[test]
fn a_block_of_one_family_holds_nothing_of_the_other() {
    let six = world([ingress(vec![rule(vec![block("::/0", &[])], vec![])])]);
    assert_eq!(reach(&six, Ingress, 80), ["fd00::2", "2001:db8::1"]);
    let four = world([ingress(vec![rule(vec![block("0.0.0.0/0", &[])], vec![])])]);
    assert_eq!(reach(&four, Ingress, 80), ["10.0.0.2", "10.0.0.3", "10.0.0.4", "192.0.2.1"]);
    let mixed =
        world([ingress(vec![rule(vec![block("::/0", &[])], vec![]), rule(vec![block("192.0.2.0/24", &[])], vec![])])]);
    assert_eq!(reach(&mixed, Ingress, 80), ["fd00::2", "192.0.2.1", "2001:db8::1"]);
}

#[test]
fn ports() {
    let udp = PolicyPort { protocol: Protocol::Udp, ports: PolicyPorts::Range(53, 53) };
    let index = world([ingress(vec![rule(
        vec![],
        vec![
            tcp_ports(PolicyPorts::Range(80, 80)),
            tcp_ports(PolicyPorts::Range(8000, 8010)),
            udp,
            PolicyPort { protocol: Protocol::Sctp, ports: PolicyPorts::All },
        ],
    )])]);
    let allowed = |protocol, ports: &[u16]| -> Vec<u16> {
        ports.iter().filter(|&&port| connect(&index, Ingress, "192.0.2.1", protocol, port)).copied().collect()
    };
    let all = [0, 53, 79, 80, 81, 7999, 8000, 8005, 8010, 8011, 65535];
    assert_eq!(allowed(Protocol::Tcp, &all), [80, 8000, 8005, 8010]);
    assert_eq!(allowed(Protocol::Udp, &all), [53]);
    assert_eq!(allowed(Protocol::Sctp, &all), all);
}

#[test]
fn overlapping_ranges_inherit_from_the_shorter_prefix() {
    let index = world([ingress(vec![
        rule(vec![pods("app=client")], vec![tcp_ports(PolicyPorts::All)]),
        rule(vec![pods("app=db")], vec![tcp_ports(PolicyPorts::Range(1024, 65535))]),
        rule(vec![pods_in("team=b", "")], vec![tcp_ports(PolicyPorts::Range(8080, 8080))]),
    ])]);
    assert_eq!(reach(&index, Ingress, 80), ["10.0.0.2", "fd00::2"]);
    assert_eq!(reach(&index, Ingress, 2000), ["10.0.0.2", "fd00::2", "10.0.0.3"]);
    assert_eq!(reach(&index, Ingress, 8080), ["10.0.0.2", "fd00::2", "10.0.0.3", "10.0.0.4"]);
}

#[test]
fn a_named_ingress_port_is_the_selected_pods_own() {
    let mut index = world([ingress(vec![rule(vec![], vec![named("http")])])]);
    assert!(tcp(&index, Ingress, "192.0.2.1", 8080));
    assert!(!tcp(&index, Ingress, "192.0.2.1", 80));
    change(&mut index, Change::Workload(workload("ns/web", &["10.0.0.1"], "app=web", &["http:9090"])));
    settle(&mut index);
    assert!(tcp(&index, Ingress, "192.0.2.1", 9090));
    assert!(!tcp(&index, Ingress, "192.0.2.1", 8080));
    change(&mut index, Change::Workload(workload("ns/web", &["10.0.0.1"], "app=web", &[])));
    settle(&mut index);
    assert_eq!(reach(&index, Ingress, 9090), [""; 0]);
}

#[test]
fn a_named_egress_port_is_each_destinations_own() {
    let mut index = world([egress(vec![rule(vec![pods(""), block("192.0.2.0/24", &[])], vec![named("http")])])]);
    assert_eq!(reach(&index, Egress, 80), ["10.0.0.2", "fd00::2"]);
    assert_eq!(reach(&index, Egress, 81), ["10.0.0.3"]);
    // A second pod with the labels of the first and another port under the name: address by address.
    change(&mut index, Change::Workload(workload("ns/client-2", &["192.0.2.1"], "app=client", &["http:81"])));
    settle(&mut index);
    assert_eq!(reach(&index, Egress, 80), ["10.0.0.2", "fd00::2"]);
    assert_eq!(reach(&index, Egress, 81), ["10.0.0.3", "192.0.2.1"]);
    change(&mut index, Change::Deleted(Kind::Workload, name("ns/client-2")));
    settle(&mut index);
    assert_eq!(reach(&index, Egress, 81), ["10.0.0.3"]);
    let any = world([egress(vec![rule(vec![], vec![named("http")])])]);
    assert_eq!(reach(&any, Egress, 81), ["10.0.0.3"]);
}

#[test]
fn policies_add_up() {
    let mut index = world([
        policy("ns/a", "", Some(vec![rule(vec![pods("app=client")], vec![])]), None),
        policy("ns/b", "app=web", Some(vec![rule(vec![pods("app=db")], vec![])]), None),
    ]);
    assert_eq!(reach(&index, Ingress, 80), ["10.0.0.2", "fd00::2", "10.0.0.3"]);
    change(&mut index, Change::Deleted(Kind::NetworkPolicy, name("ns/a")));
    settle(&mut index);
    assert_eq!(reach(&index, Ingress, 80), ["10.0.0.3"]);
    change(&mut index, Change::Deleted(Kind::NetworkPolicy, name("ns/b")));
    settle(&mut index);
    assert_eq!(reach(&index, Ingress, 80), EVERYBODY);
    let contents = index.contents();
    assert!(contents.rule_lists.is_empty() && contents.peer_rules.is_empty());
}

#[test]
fn more_rules_than_a_word_holds_go_on_in_the_next() {
    let mut rules: Vec<_> = (0..600_u16)
        .map(|i| rule(vec![block("192.0.2.1/32", &[])], vec![tcp_ports(PolicyPorts::Range(1000 + i, 1000 + i))]))
        .collect();
    rules.push(rule(vec![pods("app=db")], vec![]));
    let mut index = world([ingress(rules)]);
    assert_eq!(index.contents().endpoints[&1].words, [3, 0]);
    for port in [1000, 1255, 1256, 1511, 1512, 1599] {
        assert_eq!(reach(&index, Ingress, port), ["10.0.0.3", "192.0.2.1"], "{port}");
    }
    assert_eq!(reach(&index, Ingress, 1600), ["10.0.0.3"]);
    // A peer that appears later lands in the word of its rule.
    change(&mut index, Change::Workload(workload("ns/db-2", &["2001:db8::1"], "app=db", &[])));
    settle(&mut index);
    assert_eq!(reach(&index, Ingress, 1600), ["10.0.0.3", "2001:db8::1"]);
}

#[test]
fn more_rules_than_the_programs_look_at_close_the_pod() {
    let rules = |count: usize| ingress(vec![rule(vec![], vec![tcp_ports(PolicyPorts::Range(80, 80))]); count]);
    let index = world([rules(64 * 256)]);
    assert_eq!(index.contents().endpoints[&1].flags, 0);
    let index = world([rules(64 * 256 + 1)]);
    assert_eq!(index.contents().endpoints[&1].flags, endpoint_flags::CLOSED);
}

#[test]
fn other_pods_that_come_and_go_change_peer_entries_only() {
    let mut index = world([ingress(vec![rule(vec![pods("app=client")], vec![])])]);
    let list = index.contents().endpoints[&1].rule_list;
    change(&mut index, Change::Workload(workload("ns/new", &["192.0.2.1"], "app=client,v=2", &[])));
    let writes = settle(&mut index);
    assert!(
        matches!(
            writes.as_slice(),
            [
                MapWrite::PeerRules(Write::Put(..)),
                MapWrite::Identity(Write::Put(..)),
                MapWrite::IdentityTail(Write::Put(..))
            ]
        ),
        "{writes:?}"
    );
    assert_eq!(reach(&index, Ingress, 80), ["10.0.0.2", "fd00::2", "192.0.2.1"]);
    // The same labels: nothing but the address.
    change(&mut index, Change::Workload(workload("ns/new-2", &["2001:db8::1"], "app=client,v=2", &[])));
    assert_eq!(settle(&mut index).len(), 1);
    change(&mut index, Change::Deleted(Kind::Workload, name("ns/new")));
    change(&mut index, Change::Deleted(Kind::Workload, name("ns/new-2")));
    let writes = settle(&mut index);
    assert!(
        matches!(
            writes.as_slice(),
            [
                MapWrite::IdentityTail(Write::Delete(_)),
                MapWrite::Identity(Write::Delete(_)),
                MapWrite::Identity(Write::Delete(_)),
                MapWrite::PeerRules(Write::Delete(_))
            ]
        ),
        "{writes:?}"
    );
    assert_eq!(index.contents().endpoints[&1].rule_list, list);
}

#[test]
fn labels_of_a_namespace_count_at_once() {
    let mut index = world([ingress(vec![rule(vec![pods_in("team=b", "")], vec![])])]);
    change(&mut index, Change::Namespace(namespace("ns", "team=b")));
    change(&mut index, Change::Namespace(namespace("other", "team=c")));
    settle(&mut index);
    assert_eq!(reach(&index, Ingress, 80), ["10.0.0.2", "fd00::2", "10.0.0.3"]);
}

#[test]
fn a_changed_rule_is_a_new_list_that_the_endpoint_flips_to() {
    let mut index = world([ingress(vec![rule(vec![], vec![tcp_ports(PolicyPorts::Range(80, 80))])])]);
    let before = index.contents().endpoints[&1].rule_list[0];
    change(&mut index, Change::NetworkPolicy(ingress(vec![rule(vec![], vec![tcp_ports(PolicyPorts::Range(81, 81))])])));
    let writes = index.drain();
    assert!(
        matches!(
            writes.as_slice(),
            [
                MapWrite::RuleList(Write::Put(..)),
                MapWrite::PortRules(Write::Put(..)),
                MapWrite::Endpoint(Write::Put(1, _)),
            ]
        ),
        "{writes:?}"
    );
    assert_eq!(index.contents().endpoints[&1].rule_list[0], before + 1);
    assert!(index.has_retired());
    assert_eq!(index.drain().len(), 2);
    assert!(!index.has_retired());
}

#[test]
fn pods_with_the_same_policies_share_a_list() {
    let mut index = world([policy("ns/p", "", Some(vec![]), None)]);
    index.endpoint_added(local("ns/web-2", "10.0.0.7", "app=web"));
    let writes = settle(&mut index);
    assert!(!writes.iter().any(|write| matches!(write, MapWrite::RuleList(_))), "{writes:?}");
    let endpoints = &index.contents().endpoints;
    assert_eq!(endpoints[&1].rule_list, endpoints[&7].rule_list);
}

#[test]
fn a_list_that_cannot_be_written_closes_its_endpoints_until_its_policies_change() {
    let mut index = world([]);
    change(&mut index, Change::NetworkPolicy(ingress(vec![rule(vec![pods("app=client")], vec![])])));
    let writes = index.drain();
    let refused = writes.iter().find(|write| matches!(write, MapWrite::PeerRules(_))).unwrap();
    index.write_failed(refused);
    settle(&mut index);
    assert_eq!(index.contents().endpoints[&1].flags, endpoint_flags::CLOSED);
    assert_eq!(index.closed(), [name("ns/web")]);
    assert_eq!(reach(&index, Ingress, 80), [""; 0]);
    assert!(index.contents().rule_lists.is_empty() && index.contents().peer_rules.is_empty());

    change(&mut index, Change::NetworkPolicy(ingress(vec![rule(vec![pods("app=db")], vec![])])));
    settle(&mut index);
    assert_eq!(reach(&index, Ingress, 80), ["10.0.0.3"]);
    assert!(index.closed().is_empty());
}

#[test]
fn lists_have_names() {
    let index = world([ingress(vec![
        rule(vec![], vec![named("nobody")]),
        rule(vec![], vec![tcp_ports(PolicyPorts::Range(80, 80))]),
    ])]);
    let names = index.names();
    let (number, list) = names.rule_lists.iter().next().unwrap();
    assert_eq!(index.contents().endpoints[&1].rule_list[0], *number);
    assert_eq!((list.direction.as_str(), list.policies.as_slice()), ("ingress", ["p".to_owned()].as_slice()));
    assert_eq!(list.rules.iter().map(|rule| rule.rule).collect::<Vec<_>>(), [1]);
    let identity = index.contents().identities[&crate::dataplane::abi_addr("10.0.0.3".parse().unwrap())];
    assert_eq!(names.identities[&identity].labels, labels("app=db,tier=back"));
}
