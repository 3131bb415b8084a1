use std::collections::BTreeSet;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::conn::SECOND;

fn addr(n: u8) -> Addr {
    Addr::v4([192, 0, 2, n])
}

fn packet(protocol: u8, flags: u8) -> Packet {
    Packet {
        src: addr(1),
        dst: addr(2),
        src_port_be: 11,
        dst_port_be: 22,
        proto: protocol,
        flags_or_type: flags,
        ..Packet::EMPTY
    }
}

fn forward(flags: u8) -> NatValue {
    NatValue {
        expires: 0,
        packets: 0,
        src: addr(3),
        dst: addr(4),
        src_port_be: 33,
        dst_port_be: 44,
        state: ConnState::New as u8,
        flags: nat_flags::FORWARD | flags,
        pad: 0,
        backend: 7,
        service: 9,
    }
}

fn ports(first: u16, last: u16, node_first: u16, node_last: u16) -> Ports {
    Ports::new(&Config {
        snat_port_first: first,
        snat_port_last: last,
        node_port_first: node_first,
        node_port_last: node_last,
        ..Config::default()
    })
}

#[test]
fn each_entry_of_a_pair_leads_to_the_other() {
    for protocol in [proto::TCP, proto::UDP, proto::ICMP] {
        let mut packet = packet(protocol, 0);
        let mut there = forward(nat_flags::SNAT);
        if !proto::has_ports(protocol) {
            (packet.dst_port_be, there.dst_port_be) = (0, 0);
        }
        let key = key(&packet);
        let back = reply(&key, &there);
        let back_key = other_key(&key, &there);
        assert_eq!((back_key.src, back_key.dst), (addr(4), addr(3)));
        assert_eq!(other_key(&back_key, &back), key);
        assert_eq!(back.flags, nat_flags::SNAT);
    }
}

#[test]
fn an_error_is_about_the_entry_that_translates_answers() {
    // What a router between node and backend quotes.
    let quoted = Packet { src: addr(3), dst: addr(4), src_port_be: 33, dst_port_be: 44, ..packet(proto::UDP, 0) };
    assert_eq!(answer_key(&quoted), other_key(&key(&packet(proto::UDP, 0)), &forward(0)));
    let echo = Packet { src_port_be: 33, dst_port_be: 0, ..quoted };
    assert_eq!(answer_key(&Packet { proto: proto::ICMP, ..echo }).src_port_be, 33);
}

#[test]
fn the_first_answer_establishes_both_directions() {
    let mut there = forward(0);
    advance(&mut there, None, &packet(proto::TCP, tcp_flags::SYN), 5);
    assert_eq!((there.state, there.expires), (ConnState::New as u8, 5 + 120 * SECOND));
    let mut back = reply(&key(&packet(proto::TCP, 0)), &there);
    let answer = packet(proto::TCP, tcp_flags::SYN | tcp_flags::ACK);
    assert!(concerns_both(&back, &answer));
    advance(&mut back, Some(&mut there), &answer, 6);
    assert_eq!([back.state, there.state], [ConnState::Established as u8; 2]);
    assert_eq!([back.expires, there.expires], [6 + 86_400 * SECOND; 2]);
    assert!(!concerns_both(&back, &packet(proto::TCP, tcp_flags::ACK)));
}

#[test]
fn packets_one_way_do_not_establish() {
    let mut there = forward(0);
    for now in 0..9 {
        advance(&mut there, None, &packet(proto::TCP, tcp_flags::ACK), now);
    }
    assert_eq!((there.state, there.packets), (ConnState::New as u8, 9));
    let mut direct = forward(nat_flags::DSR);
    advance(&mut direct, None, &packet(proto::TCP, tcp_flags::SYN), 0);
    assert_eq!(direct.state, ConnState::New as u8);
    advance(&mut direct, None, &packet(proto::TCP, tcp_flags::ACK), 0);
    assert_eq!(direct.state, ConnState::Established as u8);
}

#[test]
fn a_connection_closes_when_both_sides_have() {
    let (mut there, mut back) = (forward(0), reply(&key(&packet(proto::TCP, 0)), &forward(0)));
    there.state = ConnState::Established as u8;
    back.state = ConnState::Established as u8;
    let fin = packet(proto::TCP, tcp_flags::FIN | tcp_flags::ACK);
    assert!(concerns_both(&there, &fin));
    advance(&mut there, Some(&mut back), &fin, 0);
    assert_eq!([there.state, back.state], [ConnState::Closing as u8, ConnState::Established as u8]);
    // A client that has nothing more to say can listen for long.
    advance(&mut back, None, &packet(proto::TCP, tcp_flags::ACK), 1);
    assert_eq!(back.expires, 1 + 86_400 * SECOND);
    advance(&mut back, Some(&mut there), &fin, 2);
    assert_eq!([there.state, back.state], [ConnState::Closed as u8; 2]);
    assert_eq!([there.expires, back.expires], [2 + 10 * SECOND; 2]);
    let syn = packet(proto::TCP, tcp_flags::SYN);
    assert!(is_over(&there, &syn, 3) && !is_over(&there, &packet(proto::TCP, tcp_flags::ACK), 3));
    assert!(is_over(&there, &packet(proto::TCP, tcp_flags::ACK), 2 + 10 * SECOND));
}

#[test]
fn a_reset_closes_both_directions() {
    let (mut there, mut back) = (forward(0), reply(&key(&packet(proto::TCP, 0)), &forward(0)));
    there.state = ConnState::Established as u8;
    advance(&mut back, Some(&mut there), &packet(proto::TCP, tcp_flags::RST), 0);
    assert_eq!([there.state, back.state], [ConnState::Closed as u8; 2]);
    assert_eq!([there.expires, back.expires], [10 * SECOND; 2]);
}

#[test]
fn steps_are_primes_above_any_range() {
    for step in STEPS {
        assert!(step > 65_536);
        assert!((2..).take_while(|d| d * d <= step).all(|d| step % d != 0), "{step}");
    }
}

#[test]
fn node_ports_are_left_out() {
    assert_eq!(ports(1024, 65_535, 30_000, 32_767).len(), 64_512 - 2768);
    assert_eq!(ports(30_000, 32_767, 30_000, 32_767).len(), 0);
    assert_eq!(ports(30_000, 32_768, 30_000, 32_767).nth(1, 0), 32_768);
    assert_eq!(ports(29_999, 32_767, 30_000, 32_767).nth(77, 3), 29_999);
    assert!(ports(0, 0, 30_000, 32_767).is_empty());
    assert_eq!(ports(40_000, 40_003, 30_000, 32_767).len(), 4);
}

#[test]
fn masquerade_spares_what_keeps_its_source() {
    let route = |flags| Route { node: Addr::NONE, flags, pad: 0 };
    assert!(
        is_local_pod(Some(&route(route_flags::LOCAL_PODS))) && !is_local_pod(Some(&route(route_flags::REMOTE_PODS)))
    );
    assert!(!is_local_pod(None) && !keeps_source(None) && !keeps_source(Some(&route(0))));
    for flag in [route_flags::LOCAL_PODS, route_flags::REMOTE_PODS, route_flags::NO_MASQUERADE] {
        assert!(keeps_source(Some(&route(flag))));
    }
}

proptest! {
    #[test]
    fn tries_pass_every_port_of_a_small_range_once(hash: u32, first in 1_u16.., len in 1_u16..=128, hole: u16, hole_len in 0_u16..200) {
        let last = first.saturating_add(len - 1);
        let hole_last = hole.saturating_add(hole_len);
        let ports = ports(first, last, hole, hole_last);
        let tried: Vec<u16> =
            (0..ports.len()).map(|attempt| ports.nth(hash, attempt)).collect();
        let wanted: BTreeSet<u16> = (first..=last).filter(|port| !(hole..=hole_last).contains(port)).collect();
        prop_assert_eq!(tried.len(), wanted.len());
        prop_assert_eq!(tried.into_iter().collect::<BTreeSet<_>>(), wanted);
    }

    #[test]
    fn no_port_is_tried_twice(hash: u32) {
        let ports = ports(1024, 65_535, 30_000, 32_767);
        let tried: BTreeSet<u16> = (0..PORT_TRIES).map(|attempt| ports.nth(hash, attempt)).collect();
        prop_assert_eq!(tried.len(), PORT_TRIES as usize);
    }
}

#[test]
fn forty_thousand_connections_to_one_backend_all_find_a_port() {
    let ports = ports(1024, 65_535, 30_000, 32_767);
    let mut used = BTreeSet::new();
    for n in 0..40_000_u16 {
        let key = NatKey { src_port_be: n.to_be(), ..key(&packet(proto::TCP, 0)) };
        let hash = tuple_hash(&key);
        let found = (0..PORT_TRIES).find(|attempt| used.insert(ports.nth(hash, *attempt)));
        assert!(found.is_some(), "no port for connection {n}");
    }
}

#[test]
fn one_packet_in_some_seconds_begins_a_stretch() {
    let start = 1 << 40;
    for (protocol, port) in [(proto::UDP, 1_u16), (proto::TCP, 40_000), (proto::TCP, 7)] {
        let packet = Packet { src_port_be: port, ..packet(protocol, 0) };
        let key = key(&packet);
        let mut value = forward(nat_flags::SNAT);
        advance(&mut value, None, &packet, start);
        // A packet each millisecond, for a minute.
        let mut begun = 0;
        for now in (start..start + 60 * SECOND).step_by(1_000_000) {
            begun += u32::from(begins_stretch(&value, &key, now));
            advance(&mut value, None, &packet, now);
        }
        assert!((6..=7).contains(&begun), "{begun}");
        // After a while in which nothing came.
        assert!(begins_stretch(&value, &key, start + 75 * SECOND));
    }
}
