use std::collections::BTreeSet;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

fn frontend(flags: u32) -> Frontend {
    Frontend { service: 7, generation: 1, count: 4, flags, affinity_timeout: 10 }
}

fn packet(src: [u8; 16], dst: [u8; 16], src_port_be: u16, dst_port_be: u16, proto: u8) -> Packet {
    Packet { src: Addr(src), dst: Addr(dst), src_port_be, dst_port_be, proto, ..Packet::EMPTY }
}

proptest! {
    #[test]
    fn every_attempt_is_a_slot_and_no_slot_comes_twice(seed: u32, count in 1_u32..2000) {
        let tries: Vec<u32> = (0..ATTEMPTS.min(count)).map(|attempt| Seed(seed).index(attempt, count)).collect();
        prop_assert!(tries.iter().all(|index| *index < count));
        let distinct: BTreeSet<u32> = tries.iter().copied().collect();
        prop_assert_eq!(distinct.len(), tries.len());
    }

    #[test]
    fn a_search_looks_at_every_slot_once_and_begins_at_the_hint(hint: u32, count in 1_u32..2000) {
        let steps: Vec<u32> = (0..count).map(|step| around(hint, step, count)).collect();
        prop_assert_eq!(steps[0], hint.min(count - 1));
        prop_assert!(steps.iter().all(|index| *index < count));
        prop_assert_eq!(steps.iter().copied().collect::<BTreeSet<u32>>().len(), count as usize);
    }

    #[test]
    fn a_large_set_is_searched_on_both_sides_of_the_hint(hint in 1000_u32..5000, moved in -127_i32..=127) {
        let there = hint.saturating_add_signed(moved);
        prop_assert!((0..SEARCHED).any(|step| around(hint, step, 10_000) == there));
    }

    #[test]
    fn a_tuple_has_one_seed(src: [u8; 16], dst: [u8; 16], ports: (u16, u16), proto: u8) {
        let one = packet(src, dst, ports.0, ports.1, proto);
        let later = Packet { flags_or_type: 0x10, l4: 77, ..one };
        prop_assert_eq!(Seed::of_tuple(&one), Seed::of_tuple(&later));
    }

    #[test]
    fn a_node_port_is_within_the_range(first: u16, last: u16, port: u16) {
        let config = Config { node_port_first: first, node_port_last: last, ..Config::default() };
        prop_assert_eq!(is_node_port(&config, port.to_be()), (first..=last).contains(&port));
    }
}

#[test]
fn attempts_beyond_the_count_stay_within_it_when_the_count_is_small() {
    for count in 1..4 {
        for attempt in 0..count {
            assert!(Seed(u32::MAX).index(attempt, count) < count);
        }
    }
}

/// Counts which of 4 slots seeds lead to.
fn spread(seeds: impl Iterator<Item = Seed>) -> [u32; 4] {
    let mut hits = [0; 4];
    seeds.for_each(|seed| hits[seed.index(0, 4) as usize] += 1);
    hits
}

#[test]
fn seeds_spread_clients_sockets_and_connections() {
    let clients = (0..4000_u16).map(|n| {
        let [high, low] = n.to_be_bytes();
        Seed::of_client(&frontend(0), &Addr::v4([10, 244, high, low]))
    });
    let sockets = (0..4000).map(|cookie| Seed::of_socket(7, 4_026_531_840, cookie));
    let from = Addr::v4([10, 244, 1, 1]);
    let to = Addr::v4([10, 96, 0, 10]);
    let ports = (0..4000_u16).map(|n| Seed::of_tuple(&packet(from.0, to.0, (30_000 + n).to_be(), 80_u16.to_be(), 6)));
    let hosts = (0..4000_u16).map(|n| {
        let [high, low] = n.to_be_bytes();
        Seed::of_tuple(&packet(Addr::v4([10, 244, high, low]).0, to.0, 40_000_u16.to_be(), 80_u16.to_be(), 6))
    });
    for hits in [spread(clients), spread(sockets), spread(ports), spread(hosts)] {
        assert!(hits.iter().all(|n| (800..1200).contains(n)), "{hits:?}");
    }
}

#[test]
fn a_client_is_remembered_until_the_timeout_after_its_last_connection() {
    let value = AffinityValue { last_used: 5 * SECOND, backend: 1, slot: 0 };
    let frontend = frontend(frontend_flags::AFFINITY);
    assert!(is_remembered(&value, &frontend, 15 * SECOND - 1));
    assert!(!is_remembered(&value, &frontend, 15 * SECOND));
    // Another CPU has refreshed it after this one read the clock.
    assert!(is_remembered(&value, &frontend, 4 * SECOND));
    assert!(!is_remembered(&value, &Frontend { affinity_timeout: 0, ..frontend }, 5 * SECOND));
}

#[test]
fn loopback_addresses_have_node_ports_for_the_host_only() {
    let node = |flags| NodeAddr { flags };
    for host in [false, true] {
        assert!(has_node_ports(&node(node_addr_flags::LOCAL), host));
        assert_eq!(has_node_ports(&node(node_addr_flags::LOCAL | node_addr_flags::HOST_ONLY), host), host);
    }
    assert_eq!(wildcard(&Addr::v4([192, 0, 2, 1])), FrontendKey::ANY4);
    assert_eq!(wildcard(&Addr([0xfd; 16])), FrontendKey::ANY6);
}

#[test]
fn connected_datagram_sockets_of_pods_are_left_to_packet_programs_that_translate() {
    let config = Config { host_netns: 5, ..Config::default() };
    assert!(leaves_datagrams(&config, 6) && !leaves_datagrams(&config, 5));
    assert!(is_host(&config, 5) && !is_host(&config, 6));
    let off = Config { flags: config_flags::NO_TC_SERVICES, ..config };
    assert!(!leaves_datagrams(&off, 6));
    // Who is who is not known: everything is translated, nobody is the host.
    let unknown = Config { host_netns: 0, ..config };
    assert!(!leaves_datagrams(&unknown, 6) && !is_host(&unknown, 0));
}

#[test]
fn a_service_of_this_node_alone_says_so_when_it_refuses() {
    assert_eq!(refusal(&frontend(0)), Reason::NoEndpoints);
    assert_eq!(refusal(&frontend(frontend_flags::LOCAL)), Reason::NoLocalEndpoints);
}

#[test]
fn sets_differ_by_service_and_by_generation() {
    let one = frontend(0);
    let sets = [one, Frontend { service: 8, ..one }, Frontend { generation: 2, ..one }].map(|f| set_of(&f));
    assert_eq!(sets.into_iter().collect::<BTreeSet<u64>>().len(), 3);
}
