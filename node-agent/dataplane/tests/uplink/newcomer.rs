//! Pods whose addresses the receiving node has not been told of.

use skep_abi::{Bits, Direction, PeerKey, Reason, RuleList, RuleListKey, rule_list_flags};

use crate::lan::{Lan, Node};
use crate::machine::Machine;

const IDENTITY: u64 = 0xfedc_ba98_7654_3210;
const TAIL: u64 = 0x3fff_1234_5678;
/// An identity with the same 24 bits in the packet's number.
const OTHER: u64 = 0x0123_4567_8954_3210;

/// Lets one identity into the first pod of a node.
fn let_in(node: &Node, identity: u64) {
    let maps = node.dataplane.maps();
    let rules = Bits([1, 0, 0, 0]);
    let list = RuleList { any_peer: Bits::default(), any_port: rules, flags: rule_list_flags::PEERS, pad: 0 };
    maps.rule_lists.set(&RuleListKey { list: 3, word: 0 }, &list).unwrap();
    maps.peer_rules.set(&PeerKey { identity, list: 3, word: 0 }, &rules).unwrap();
    node.change(1, |endpoint| (endpoint.rule_list[0], endpoint.words[0]) = (3, 1));
}

/// Tells the pod's own node who it is.
fn name(node: &Node, pod: &Machine, identity: u64, tail: Option<u64>) {
    let maps = node.dataplane.maps();
    for addr in pod.addrs {
        maps.identities.set(&addr.into(), &identity).unwrap();
    }
    match tail {
        Some(tail) => maps.identity_tails.set(&identity, &tail).unwrap(),
        None => drop(maps.identity_tails.remove(&identity).unwrap()),
    }
}

#[test]
fn a_pod_that_is_not_known_yet_is_who_its_node_says_it_is() {
    let Some(lan) = Lan::overlaid(0) else { return };
    let [near, far] = &lan.nodes;
    let (client, server) = (near.pod(1), far.pod(1));
    let_in(far, IDENTITY);
    let maps = far.dataplane.maps();
    for v6 in [false, true] {
        let to = server.tcp_server((server.addr(v6), 0).into());
        let datagrams = server.udp_server((server.addr(v6), 0).into());
        let denied = |why: &str| {
            let before = far.drops(Reason::PolicyDenied, Direction::Ingress);
            client.connect(to).map(drop).expect_err(why);
            assert!(far.drops(Reason::PolicyDenied, Direction::Ingress) > before, "{why}, IPv6 {v6}");
        };
        name(near, &client, IDENTITY, Some(TAIL));
        denied("nobody here has the identity");
        maps.identity_tails.set(&IDENTITY, &(TAIL ^ 1)).unwrap();
        denied("somebody here has another with the same number");
        maps.identity_tails.set(&IDENTITY, &0).unwrap();
        denied("somebody here has one without a tail");
        maps.identity_tails.set(&IDENTITY, &TAIL).unwrap();
        let (mut conversation, seen) = client.connect(to).unwrap();
        assert_eq!(seen.ip(), client.addr(v6));
        conversation.go_on().unwrap();
        client.send(datagrams, 1).unwrap();
        // Fragments say it as well.
        client.send(datagrams, 4000).unwrap();
        // The next pod with this address is somebody else.
        name(near, &client, OTHER, Some(TAIL));
        denied("another identity");
        maps.identity_tails.set(&OTHER, &TAIL).unwrap();
        denied("another identity that is known here and not let in");
        maps.identity_tails.remove(&OTHER).unwrap();
        // The pod's node itself does not know how the identity is called elsewhere.
        name(near, &client, IDENTITY, None);
        denied("no tail in the packet");
        name(near, &client, IDENTITY, Some(TAIL));
        client.connect(to).unwrap();
        // What is known of an address goes before what a packet says.
        maps.identities.set(&client.addr(v6).into(), &OTHER).unwrap();
        denied("the address is another's");
        maps.identities.remove(&client.addr(v6).into()).unwrap();
        client.connect(to).unwrap();
        conversation.go_on().unwrap();
        maps.identity_tails.remove(&IDENTITY).unwrap();
    }
}

#[test]
fn what_comes_by_the_uplink_is_not_asked_who_it_is() {
    let Some(lan) = Lan::new(0) else { return };
    let [near, far] = &lan.nodes;
    let (client, server) = (near.pod(1), far.pod(1));
    let_in(far, IDENTITY);
    name(near, &client, IDENTITY, Some(TAIL));
    far.dataplane.maps().identity_tails.set(&IDENTITY, &TAIL).unwrap();
    let to = server.tcp_server((server.addr(false), 0).into());
    client.connect(to).map(drop).unwrap_err();
    // As soon as the address is known it may.
    far.dataplane.maps().identities.set(&client.addr(false).into(), &IDENTITY).unwrap();
    client.connect(to).unwrap();
}
