//! The short ways between pods and other machines.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use nix::sys::socket::{setsockopt, sockopt};
use skep_abi::{
    Bits, ConnState, ConnValue, Counter, Direction, Reason, RuleList, RuleListKey, conn_flags, endpoint_flags, scope,
};

use crate::icmp::ping;
use crate::lan::{Lan, MASQUERADE, Node, Place, TCP, any};
use crate::machine::{Conversation, Machine, exchange};

/// Packets of one direction of a test.
const MANY: u64 = 50;

/// Whether the kernel has what the short ways are made of; if not, says so.
fn is_there(lan: &Lan) -> bool {
    let features = lan.nodes[0].dataplane.features();
    if !features.redirect_peer {
        println!("skipped: this kernel has no bpf_redirect_peer or no bpf_check_mtu");
    }
    features.redirect_peer
}

/// What counters have counted while something was done.
fn counted<const N: usize>(node: &Node, counters: [Counter; N], what: impl FnOnce()) -> [u64; N] {
    let before = counters.map(|counter| node.count(counter));
    what();
    let mut before = before.into_iter();
    counters.map(|counter| node.count(counter) - before.next().unwrap())
}

/// Goes on until a flow is known everywhere.
fn begin(conversation: &mut Conversation) {
    for _ in 0..5 {
        conversation.go_on().unwrap();
    }
}

fn go_on(conversation: &mut Conversation) {
    for _ in 0..MANY {
        conversation.go_on().unwrap();
    }
}

/// A socket of the machine's that flows are not known of.
fn socket(machine: &Machine, v6: bool) -> UdpSocket {
    let addr = machine.addr(v6);
    machine.run(move || UdpSocket::bind((addr, 0)).unwrap())
}

/// The entry of the first pod of a node for a TCP connection with somebody.
fn flow(node: &Node, remote: IpAddr) -> ConnValue {
    let entries = node.dataplane.maps().conntrack.iter().unwrap();
    let mut flows = entries
        .into_iter()
        .filter(|(key, _)| (key.endpoint, key.remote, key.proto, key.kind) == (101, remote.into(), TCP, 0));
    flows.next().unwrap().1
}

fn between_pods_of_two_nodes(lan: &Lan) {
    let [near, far] = &lan.nodes;
    let (client, server) = (near.pod(1), far.pod(1));
    for v6 in [false, true] {
        let (mut conversation, _) = client.connect(server.tcp_server((server.addr(v6), 0).into())).unwrap();
        begin(&mut conversation);
        let known = flow(far, client.addr(v6));
        assert_eq!((known.state, known.flags & conn_flags::OUTBOUND), (ConnState::Established as u8, 0));
        let both = [Counter::RedirectedOut, Counter::RedirectedIn];
        let mut at_far = [0; 2];
        let at_near = counted(near, both, || at_far = counted(far, both, || go_on(&mut conversation)));
        assert!(at_near.into_iter().chain(at_far).all(|packets| packets >= MANY), "{at_near:?} {at_far:?}");
        let after = flow(far, client.addr(v6));
        assert!(after.rx_packets >= known.rx_packets + MANY && after.tx_packets >= known.tx_packets + MANY);
        assert!(after.expires > known.expires);
        // Echoes have no ports.
        for _ in 0..4 {
            ping(&client, server.addr(v6), 7).unwrap();
        }
        assert!(
            counted(far, both, || ping(&client, server.addr(v6), 7).unwrap()).into_iter().all(|packets| packets > 0)
        );
    }
    for node in &lan.nodes {
        assert_eq!(node.count(Counter::RedirectedToPod) + node.count(Counter::Masqueraded), 0);
    }
}

#[test]
fn known_flows_between_pods_of_two_nodes_go_past_the_routing_of_both_and_are_tracked_all_the_same() {
    let Some(lan) = Lan::new(MASQUERADE) else { return };
    if is_there(&lan) {
        between_pods_of_two_nodes(&lan);
    }
}

#[test]
fn known_flows_by_an_overlay_go_past_the_routing_too() {
    let Some(lan) = Lan::overlaid(MASQUERADE) else { return };
    if is_there(&lan) {
        between_pods_of_two_nodes(&lan);
    }
}

#[test]
fn answers_of_a_services_backends_elsewhere_are_translated_on_the_short_way() {
    let Some(lan) = Lan::new(MASQUERADE) else { return };
    if !is_there(&lan) {
        return;
    }
    let [near, far] = &lan.nodes;
    let (client, server) = (near.pod(1), far.pod(1));
    for (v6, vip) in [(false, "10.96.0.10:80"), (true, "[fd53:6b65::10]:80")] {
        let place = Place::pod(1, server.tcp_server((server.addr(v6), 0).into()));
        let service = vip.parse().unwrap();
        lan.serve_in(scope::INTERNAL, service, TCP, 0, &[place]);
        let (mut conversation, seen) = client.connect(service).unwrap();
        assert_eq!(seen.ip(), client.addr(v6));
        begin(&mut conversation);
        let counters = [Counter::RedirectedOut, Counter::RedirectedToPod, Counter::RedirectedIn];
        let [out, to_pod, inward] = counted(near, counters, || go_on(&mut conversation));
        assert!(out >= MANY && to_pod >= MANY && inward == 0, "{out} {to_pod} {inward}");
    }
}

#[test]
fn packets_from_outside_of_the_cluster_go_into_their_pods_at_once() {
    let Some(lan) = Lan::new(MASQUERADE) else { return };
    if !is_there(&lan) {
        return;
    }
    let node = &lan.nodes[0];
    let pod = node.pod(1);
    let both = [Counter::RedirectedIn, Counter::RedirectedOut];
    for v6 in [false, true] {
        lan.serve(any(v6), TCP, 0, &[Place::pod(0, pod.tcp_server((pod.addr(v6), 0).into()))]);
        let (mut conversation, seen) = lan.client.connect(lan.node_port(0, v6)).unwrap();
        assert_eq!(seen.ip(), lan.client.addr(v6));
        begin(&mut conversation);
        let [inward, out] = counted(node, both, || go_on(&mut conversation));
        assert!(inward >= MANY && out == 0, "node port: {inward} {out}");
        // Answers to a pod that has the node's address outside.
        let server = lan.client.tcp_server((lan.client.addr(v6), 0).into());
        let (mut conversation, seen) = pod.connect(server).unwrap();
        assert_eq!(seen.ip(), node.machine.addr(v6));
        begin(&mut conversation);
        let [inward, out] = counted(node, both, || go_on(&mut conversation));
        assert!(inward >= MANY && out == 0, "masquerade: {inward} {out}");
    }
}

#[test]
fn what_no_longer_may_pass_does_not_pass_by_the_short_way() {
    let Some(lan) = Lan::new(MASQUERADE) else { return };
    if !is_there(&lan) {
        return;
    }
    let [near, far] = &lan.nodes;
    let (client, server) = (near.pod(1), far.pod(1));
    let list = RuleList { any_peer: Bits::default(), any_port: Bits::default(), flags: 0, pad: 0 };
    for node in [near, far] {
        node.dataplane.maps().rule_lists.set(&RuleListKey { list: 3, word: 0 }, &list).unwrap();
    }
    for v6 in [false, true] {
        let to = server.udp_server((server.addr(v6), 0).into());
        let known = socket(&client, v6);
        let talk = || exchange(&known, to, 1);
        let inward = |what: &dyn Fn()| counted(far, [Counter::RedirectedIn], what)[0];
        let out = |what: &dyn Fn()| counted(near, [Counter::RedirectedOut], what)[0];
        (0..5).for_each(|_| drop(talk().unwrap()));
        assert_eq!(inward(&|| drop(talk().unwrap())), 1);
        // The receiver is closed.
        far.change(1, |endpoint| endpoint.flags = endpoint_flags::CLOSED);
        let dropped = far.drops(Reason::EndpointClosed, Direction::Ingress);
        assert_eq!(inward(&|| drop(talk().unwrap_err())), 0);
        assert!(far.drops(Reason::EndpointClosed, Direction::Ingress) > dropped);
        far.change(1, |endpoint| endpoint.flags = 0);
        assert_eq!(inward(&|| drop(talk().unwrap())), 1);
        // A policy that lets nobody in: what is open stays so, as on the long way.
        far.change(1, |endpoint| (endpoint.rule_list[0], endpoint.words[0]) = (3, 1));
        assert_eq!(inward(&|| drop(talk().unwrap())), 1);
        let denied = far.drops(Reason::PolicyDenied, Direction::Ingress);
        assert_eq!(inward(&|| drop(exchange(&socket(&client, v6), to, 1).unwrap_err())), 0);
        assert_eq!(far.drops(Reason::PolicyDenied, Direction::Ingress), denied + 1);
        // The same policy for another pod that has the address now.
        far.change(1, |endpoint| endpoint.id += 700);
        assert_eq!(inward(&|| drop(talk().unwrap_err())), 0);
        assert_eq!(far.drops(Reason::PolicyDenied, Direction::Ingress), denied + 2);
        far.change(1, |endpoint| (endpoint.rule_list[0], endpoint.words[0]) = (0, 0));
        talk().unwrap();
        // The sender is closed, or another pod that may say nothing.
        near.change(1, |endpoint| endpoint.flags = endpoint_flags::CLOSED);
        assert_eq!(out(&|| drop(talk().unwrap_err())), 0);
        assert!(near.drops(Reason::EndpointClosed, Direction::Egress) > 0);
        let denied = near.drops(Reason::PolicyDenied, Direction::Egress);
        near.change(1, |endpoint| {
            endpoint.flags = 0;
            endpoint.id += 700;
            (endpoint.rule_list[1], endpoint.words[1]) = (3, 1);
        });
        assert_eq!(out(&|| drop(talk().unwrap_err())), 0);
        assert_eq!(near.drops(Reason::PolicyDenied, Direction::Egress), denied + 1);
        near.change(1, |endpoint| (endpoint.rule_list[1], endpoint.words[1]) = (0, 0));
        // And with a source that is not its own.
        let spoofed = near.drops(Reason::SpoofedSource, Direction::Egress);
        talk().unwrap();
        near.change(1, |endpoint| {
            (endpoint.addr4, endpoint.addr6) = (far.machine.addrs[0].into(), far.machine.addrs[1].into())
        });
        assert_eq!(out(&|| drop(talk().unwrap_err())), 0);
        assert!(near.drops(Reason::SpoofedSource, Direction::Egress) > spoofed);
        near.change(1, |endpoint| (endpoint.addr4, endpoint.addr6) = (client.addrs[0].into(), client.addrs[1].into()));
    }
}

#[test]
fn nobody_outside_passes_for_the_node_itself() {
    let Some(lan) = Lan::new(MASQUERADE) else { return };
    let node = &lan.nodes[0];
    let pod = node.pod(1);
    for v6 in [false, true] {
        let (own, family, len) = (node.machine.addr(v6), if v6 { "-6 " } else { "" }, if v6 { 128 } else { 32 });
        let server = pod.udp_server((pod.addr(v6), 0).into());
        let socket = node.machine.run(move || UdpSocket::bind((own, 40_000)).unwrap());
        for _ in 0..5 {
            exchange(&socket, server, 1).unwrap();
        }
        // The client takes the node's address and knows where the pod is.
        lan.client.ip(&format!("{family}addr add {own}/{len} dev lo"));
        lan.client.ip(&format!("neigh add {} lladdr 02:00:00:00:00:01 dev eth0 nud permanent", pod.addr(v6)));
        lan.client.ip(&format!("{family}route add {}/{len} dev eth0", pod.addr(v6)));
        let received = datagrams(&pod, v6);
        lan.client.run(move || {
            let forged = UdpSocket::bind((own, 40_000)).unwrap();
            for _ in 0..5 {
                forged.send_to(b"forged", server).unwrap();
            }
        });
        exchange(&socket, server, 1).unwrap();
        assert_eq!(datagrams(&pod, v6), received + 1, "IPv6 {v6}");
        lan.client.ip(&format!("{family}addr del {own}/{len} dev lo"));
    }
}

/// A figure of the kernel's about a machine's network: IPv4's are in lines of names and lines of values, IPv6's have a line
/// each.
fn figure(machine: &Machine, group: &'static str, name: &'static str) -> u64 {
    machine.run(move || {
        let read = |file| std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap();
        if group.is_empty() {
            let text = read("snmp6");
            let line = text.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap();
            return line.split_whitespace().nth(1).unwrap().parse().unwrap();
        }
        let text = read("snmp");
        let mut lines = text.lines().filter(|line| line.starts_with(group));
        let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
        let at = names.split_whitespace().position(|found| found == name).unwrap();
        values.split_whitespace().nth(at).unwrap().parse().unwrap()
    })
}

/// Datagrams that the machine's sockets have received.
fn datagrams(machine: &Machine, v6: bool) -> u64 {
    if v6 { figure(machine, "", "Udp6InDatagrams") } else { figure(machine, "Udp:", "InDatagrams") }
}

/// Times that the machine was told that a packet's hops were used up.
fn times_exceeded(machine: &Machine, v6: bool) -> u64 {
    if v6 { figure(machine, "", "Icmp6InTimeExcds") } else { figure(machine, "Icmp:", "InTimeExcds") }
}

#[test]
fn hops_are_counted_on_the_short_way_and_whose_are_used_up_is_told() {
    let Some(lan) = Lan::new(MASQUERADE) else { return };
    if !is_there(&lan) {
        return;
    }
    let [near, far] = &lan.nodes;
    let (client, server) = (near.pod(1), far.pod(1));
    for v6 in [false, true] {
        let to: SocketAddr = server.udp_server((server.addr(v6), 0).into());
        let socket = socket(&client, v6);
        let talk = |hops: i32| {
            if v6 {
                setsockopt(&socket, sockopt::Ipv6Ttl, &hops).unwrap();
            } else {
                setsockopt(&socket, sockopt::Ipv4Ttl, &hops).unwrap();
            }
            exchange(&socket, to, 1)
        };
        (0..5).for_each(|_| drop(talk(64).unwrap()));
        for (hops, passes_near, passes_far) in [(3, 1, 1), (2, 1, 0), (1, 0, 0)] {
            let told = times_exceeded(&client, v6);
            let mut at_far = [0];
            let at_near = counted(near, [Counter::RedirectedOut], || {
                at_far = counted(far, [Counter::RedirectedIn], || assert_eq!(talk(hops).is_ok(), hops == 3));
            });
            assert_eq!((at_near, at_far), ([passes_near], [passes_far]), "{hops} hops, IPv6 {v6}");
            assert_eq!(times_exceeded(&client, v6) - told, u64::from(hops < 3), "{hops} hops, IPv6 {v6}");
        }
    }
}

#[test]
fn a_pod_that_has_gone_elsewhere_is_not_looked_for_where_it_was() {
    let Some(lan) = Lan::new(MASQUERADE) else { return };
    if !is_there(&lan) {
        return;
    }
    let [near, far] = &lan.nodes;
    let (client, server, other) = (near.pod(1), far.pod(1), far.pod(2));
    let to = server.udp_server((server.addr(false), 0).into());
    let socket = socket(&client, false);
    (0..5).for_each(|_| drop(exchange(&socket, to, 1).unwrap()));
    // Another pod's interface has the number that was noted, and the pod another interface.
    let [first, second] = ["pod1", "pod2"].map(|name| far.machine.ifindex(name));
    let endpoints = &far.dataplane.maps().endpoints;
    let [one, two] = [first, second].map(|ifindex| endpoints.get(&ifindex).unwrap().unwrap());
    endpoints.set(&first, &two).unwrap();
    let [inward] = counted(far, [Counter::RedirectedIn], || drop(exchange(&socket, to, 1).unwrap_err()));
    assert_eq!(inward, 0);
    endpoints.set(&first, &one).unwrap();
    exchange(&socket, to, 1).unwrap();
    drop(other);
}
