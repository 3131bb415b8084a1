use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use skep_abi::{
    Bits, Direction, PeerKey, PortKey, PrefixKey, Reason, RuleList, RuleListKey, Verdict, config_flags, endpoint_flags,
    rule_list_flags,
};

use crate::world::{Node, Pod, TCP, VIPS};

const RULE: u32 = 70;

/// The vector of one rule.
fn only(rule: u32) -> Bits {
    let mut bits = Bits::default();
    bits.0[rule as usize / 64] = 1 << (rule % 64);
    bits
}

/// A list whose second word has one rule: peers of this identity to this TCP port. Its first word is empty.
fn allow_peer_and_port(node: &Node, list: u32, identity: u64, port: u16) {
    let maps = node.dataplane.maps();
    let empty = RuleList { any_peer: Bits::default(), any_port: Bits::default(), flags: 0, pad: 0 };
    let flags = rule_list_flags::PEERS | rule_list_flags::PORTS;
    maps.rule_lists.set(&RuleListKey { list, word: 0 }, &empty).unwrap();
    maps.rule_lists.set(&RuleListKey { list, word: 1 }, &RuleList { flags, ..empty }).unwrap();
    maps.peer_rules.set(&PeerKey { identity, list, word: 1 }, &only(RULE)).unwrap();
    let key = PortKey { list, word: 1, proto: TCP, pad: 0, port_be: port.to_be(), tail: [0; 6] };
    maps.port_rules.set(PortKey::BASE_BITS + 16, &key, &only(RULE)).unwrap();
}

fn apply(node: &Node, pod: &Pod, direction: Direction, list: u32, words: u16) {
    node.change(pod, |endpoint| {
        endpoint.rule_list[direction as usize] = list;
        endpoint.words[direction as usize] = words;
    });
}

#[test]
fn ingress_allows_what_a_rule_names_and_nothing_else() {
    let Some(node) = Node::new() else { return };
    let (server, friend, stranger) = (node.pod(1), node.pod(2), node.pod(3));
    for i in 0..2 {
        let (open, closed) = (server.tcp_server(server.addrs[i]), server.tcp_server(server.addrs[i]));
        let list = 7 + i as u32;
        allow_peer_and_port(&node, list, 2, open.port());
        apply(&node, &server, Direction::Ingress, list, 2);
        node.events();
        friend.ask(open).unwrap();
        friend.ask(closed).unwrap_err();
        stranger.ask(open).unwrap_err();
        let denied = node.events();
        assert!(denied.len() >= 2, "{denied:?}");
        for event in &denied {
            assert_eq!((event.verdict, event.reason), (Verdict::Dropped as u8, Reason::PolicyDenied as u8));
            assert_eq!((event.endpoint, event.list, event.rule), (101, list, u32::MAX));
            assert_eq!((event.direction, event.local), (Direction::Ingress as u8, server.addrs[i].into()));
        }
        assert!(denied.iter().any(|event| event.remote_identity == 3));
        assert!(node.drops(Reason::PolicyDenied, Direction::Ingress) >= 2);
        // The selected pod itself may still speak, and is answered.
        server.ask(friend.tcp_server(friend.addrs[i])).unwrap();
        apply(&node, &server, Direction::Ingress, 0, 0);
        stranger.ask(open).unwrap();
        friend.ask(closed).unwrap();
    }
}

#[test]
fn egress_is_judged_after_translation() {
    let Some(node) = Node::new() else { return };
    let (client, allowed, other) = (node.pod(1), node.pod(2), node.pod(3));
    for (i, vip) in VIPS.iter().enumerate() {
        let vip: IpAddr = vip.parse().unwrap();
        let (good, bad) = (allowed.tcp_server(allowed.addrs[i]), other.tcp_server(other.addrs[i]));
        let list = 20 + i as u32;
        allow_peer_and_port(&node, list, 2, good.port());
        apply(&node, &client, Direction::Egress, list, 2);
        node.serve((vip, 80).into(), TCP, &[good]);
        node.serve((vip, 81).into(), TCP, &[bad]);
        client.ask((vip, 80).into()).unwrap();
        client.ask((vip, 81).into()).unwrap_err();
        client.ask(bad).unwrap_err();
        // A pod may always reach itself.
        node.serve((vip, 82).into(), TCP, &[client.tcp_server(client.addrs[i])]);
        client.ask((vip, 82).into()).unwrap();
        // And be reached.
        other.ask(client.tcp_server(client.addrs[i])).unwrap();
    }
    assert!(node.drops(Reason::PolicyDenied, Direction::Egress) > 0);
}

#[test]
fn prefixes_allow_by_longest_match() {
    let Some(node) = Node::new() else { return };
    let (server, inside, excepted) = (node.pod(1), node.pod(2), node.pod(3));
    let addr = server.tcp_server(server.addrs[0]);
    let maps = node.dataplane.maps();
    let all = Bits([u64::MAX; 4]);
    let list = RuleList { any_peer: Bits::default(), any_port: all, flags: rule_list_flags::PREFIXES, pad: 0 };
    maps.rule_lists.set(&RuleListKey { list: 5, word: 0 }, &list).unwrap();
    let prefix = |text: &str, len: u32, bits: Bits| {
        let key = PrefixKey { list: 5, word: 0, addr: text.parse::<IpAddr>().unwrap().into() };
        maps.prefixes.set(PrefixKey::BASE_BITS + 96 + len, &key, &bits).unwrap();
    };
    prefix("10.244.0.0", 16, only(3));
    prefix("10.244.1.3", 32, Bits::default());
    apply(&node, &server, Direction::Ingress, 5, 1);
    inside.ask(addr).unwrap();
    excepted.ask(addr).unwrap_err();
}

#[test]
fn an_open_connection_stays_when_a_policy_lands_and_new_ones_are_judged() {
    let Some(node) = Node::new() else { return };
    let (server, client) = (node.pod(1), node.pod(2));
    let addr = server.addrs[0];
    let listener = server.run(move || TcpListener::bind((addr, 0)).unwrap());
    let service = listener.local_addr().unwrap();
    let mut stream = client.run(move || TcpStream::connect(service).unwrap());
    let (mut accepted, _) = listener.accept().unwrap();
    allow_peer_and_port(&node, 9, 77, 1);
    apply(&node, &server, Direction::Ingress, 9, 2);
    client.ask(service).unwrap_err();
    stream.write_all(b"ping").unwrap();
    let mut buffer = [0; 4];
    accepted.read_exact(&mut buffer).unwrap();
    accepted.write_all(b"pong").unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    stream.read_exact(&mut buffer).unwrap();
    assert_eq!(&buffer, b"pong");
}

#[test]
fn the_node_reaches_its_pods_whatever_their_policies() {
    let Some(node) = Node::new() else { return };
    let server = node.pod(1);
    allow_peer_and_port(&node, 9, 77, 1);
    apply(&node, &server, Direction::Ingress, 9, 2);
    for addr in server.addrs {
        let addr = server.tcp_server(addr);
        TcpStream::connect_timeout(&addr, Duration::from_secs(2)).unwrap();
    }
}

#[test]
fn nothing_passes_a_closed_endpoint_or_a_list_that_is_not_there() {
    let Some(node) = Node::new() else { return };
    let (server, client) = (node.pod(1), node.pod(2));
    let addr = server.tcp_server(server.addrs[0]);
    client.ask(addr).unwrap();
    apply(&node, &server, Direction::Ingress, 1234, 1);
    client.ask(addr).unwrap_err();
    assert!(node.drops(Reason::MapError, Direction::Ingress) > 0);
    apply(&node, &server, Direction::Ingress, 0, 0);
    client.ask(addr).unwrap();
    node.change(&server, |endpoint| endpoint.flags = endpoint_flags::CLOSED);
    client.ask(addr).unwrap_err();
    server.ask(client.tcp_server(client.addrs[0])).unwrap_err();
    assert!(node.drops(Reason::EndpointClosed, Direction::Ingress) > 0);
    assert!(node.drops(Reason::EndpointClosed, Direction::Egress) > 0);
}

#[test]
fn allowed_connections_are_reported_with_their_rule_when_wanted() {
    let Some(node) = Node::new() else { return };
    let (server, friend) = (node.pod(1), node.pod(2));
    let addr = server.tcp_server(server.addrs[0]);
    allow_peer_and_port(&node, 7, 2, addr.port());
    apply(&node, &server, Direction::Ingress, 7, 2);
    friend.ask(addr).unwrap();
    assert_eq!(node.events(), []);
    let mut config = node.dataplane.maps().config.get().unwrap();
    config.flags |= config_flags::EVENTS_ALLOWED;
    node.dataplane.maps().config.set(&config).unwrap();
    friend.ask(addr).unwrap();
    let events = node.events();
    assert_eq!(events.len(), 2, "one for each pod: {events:?}");
    let event = events.iter().find(|event| event.direction == Direction::Ingress as u8).unwrap();
    assert_eq!((event.verdict, event.list, event.rule), (Verdict::Allowed as u8, 7, 256 + RULE));
    assert_eq!((event.remote, event.remote_identity), (friend.addrs[0].into(), 2));
}

#[test]
fn echo_is_tracked_and_judged() {
    let Some(node) = Node::new() else { return };
    let (server, client) = (node.pod(1), node.pod(2));
    let ping = |from: &Pod, to: IpAddr| {
        from.run(move || {
            let output = Command::new("busybox").args(["ping", "-c1", "-W1", "-q", &to.to_string()]).output();
            output.map(|output| output.status.success())
        })
    };
    match ping(&client, server.addrs[0]) {
        Err(error) => return println!("skipped: no busybox to ping with ({error})"),
        Ok(reached) => assert!(reached),
    }
    for i in 0..2 {
        assert!(ping(&client, server.addrs[i]).unwrap());
        allow_peer_and_port(&node, 7, 2, 80);
        apply(&node, &server, Direction::Ingress, 7, 2);
        // Another identifier: another flow, which no rule allows because the rule names a TCP port.
        assert!(!ping(&client, server.addrs[i]).unwrap());
        // Replies to what the pod sends pass.
        assert!(ping(&server, client.addrs[i]).unwrap());
        apply(&node, &server, Direction::Ingress, 0, 0);
    }
}
