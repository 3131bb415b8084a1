//! What XDP leaves to tc.

use std::net::IpAddr;

use skep_abi::{Addr, ConnState, NatKey, NatValue, OVERLAY_PORT, nat_flags};
use skep_dataplane::Action;
use skep_verdict::conn::SECOND;

use super::world::{BACKEND, Flow, World, boot_time};
use crate::build::{self, ACK, Extra, TCP, UDP};

fn packet(flow: Flow, extra: &Extra) -> Vec<u8> {
    let (from, to) = flow.ends(false);
    match flow.proto {
        TCP => build::tcp(from, to, ACK, b"some bytes", extra),
        _ => build::udp(from, to, b"some bytes", extra),
    }
}

#[test]
fn packets_out_of_the_ordinary() {
    let Some(world) = World::new(0) else { return };
    for (v6, proto) in [(false, TCP), (false, UDP), (true, TCP), (true, UDP)] {
        let flow = Flow { v6, proto };
        let entries = flow.entries(&world, [ConnState::Established; 2]);
        let good = packet(flow, &Extra::default());
        let with = |at: usize, value: u8| {
            let mut packet = good.clone();
            packet[at] = value;
            packet
        };
        world.set(&entries);
        assert_eq!(world.xdp(&good).action, Action::SendBack, "{flow:?}");
        let passes = |what: &str, packet: &[u8]| world.passes(&format!("{what} of {flow:?}"), &entries, packet);
        passes("another port", &with(if v6 { 55 } else { 35 }, 1));
        passes("the last hop", &with(if v6 { 21 } else { 22 }, 1));
        passes("no hop", &with(if v6 { 21 } else { 22 }, 0));
        passes("ARP", &with(13, 6));
        passes("a tag", &with(12, 0x81));
        if v6 {
            passes("extension headers", &packet(flow, &Extra::some()));
            passes("a fragment", &with(20, 44));
            passes("ICMPv6", &with(20, 58));
        } else {
            passes("the first fragment", &with(20, 0x20));
            passes("a later fragment", &with(21, 1));
            passes("ICMP", &with(23, 1));
        }
        for len in 14..good.len() {
            passes("a part", &good[..len]);
        }
        // Another machine's.
        world.set(&entries);
        assert_eq!(world.at(&good, [2, 0, 0, 0, 0, 9], 1).action, Action::Pass);
        assert_eq!(world.at(&good, [0xff; 6], 1).action, Action::Pass);
    }
}

#[test]
fn a_checksum_that_is_yet_to_be_finished() {
    let Some(world) = World::new(0) else { return };
    for (v6, proto) in [(false, TCP), (false, UDP), (true, TCP), (true, UDP)] {
        let flow = Flow { v6, proto };
        let entries = flow.entries(&world, [ConnState::Established; 2]);
        let mut packet = packet(flow, &Extra::default());
        let l4 = if v6 { 54 } else { 34 };
        let at = l4 + if proto == TCP { 16 } else { 6 };
        // The whole checksum is the pseudo header's sum and the segment's, the latter without the checksum itself.
        packet[at..at + 2].fill(0);
        let (from, to) = flow.ends(false);
        let addrs = match (from.ip(), to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => [from.octets(), to.octets()].concat(),
            (IpAddr::V6(from), IpAddr::V6(to)) => [from.octets(), to.octets()].concat(),
            _ => panic!("families differ"),
        };
        let pseudo = [&addrs[..], &[0, proto], &((packet.len() - l4) as u16).to_be_bytes()].concat();
        packet[at..at + 2].copy_from_slice(&(!build::checksum(&pseudo)).to_be_bytes());
        world.passes("an unfinished checksum", &entries, &packet);
    }
}

#[test]
fn flows_that_tc_has_to_look_at() {
    let Some(world) = World::new(0) else { return };
    let maps = world.lan.nodes[0].dataplane.maps();
    for (v6, proto) in [(false, TCP), (false, UDP), (true, TCP), (true, UDP)] {
        let flow = Flow { v6, proto };
        let packet = packet(flow, &Extra::default());
        let entries = flow.entries(&world, [ConnState::Established; 2]);
        let with = |change: &dyn Fn(&mut NatValue)| {
            let mut entry = entries[0];
            change(&mut entry.1);
            [entry]
        };
        let now = boot_time();
        world.passes("one that has expired", &with(&|value| value.expires = now), &packet);
        let quiet = |value: &mut NatValue| value.expires -= 10 * SECOND;
        world.passes("one that was quiet for a while", &with(&quiet), &packet);
        world.passes("one to a backend here", &with(&|value| value.flags = nat_flags::FORWARD), &packet);
        world.passes("a masqueraded one", &with(&|value| value.service = 0), &packet);
        let nowhere: Addr = if v6 { "2001:db8:1::1" } else { "198.51.100.1" }.parse::<IpAddr>().unwrap().into();
        world.passes("one without a way", &with(&|value| value.dst = nowhere), &packet);
        let silent: Addr = if v6 { "2001:db8::77" } else { "192.0.2.77" }.parse::<IpAddr>().unwrap().into();
        world.passes("one to a neighbour that is not known", &with(&|value| value.dst = silent), &packet);
        let behind = |value: &mut NatValue| {
            value.flags = nat_flags::FORWARD | nat_flags::DSR;
            value.dst = flow.backend().ip().into();
        };
        world.passes("direct return to what is no neighbour", &with(&behind), &packet);
        if proto == UDP {
            maps.backends.remove(&BACKEND).unwrap();
            world.passes("one whose backend is gone", &entries, &packet);
        }
    }
}

#[test]
fn packets_that_are_too_long_for_their_way() {
    let Some(world) = World::new(0) else { return };
    world.lan.nodes[0].machine.ip("link set eth0 mtu 1300");
    for v6 in [false, true] {
        let flow = Flow { v6, proto: UDP };
        let (from, to) = flow.ends(false);
        let headers = if v6 { 48 } else { 28 };
        let packet = |len: usize| build::udp(from, to, &vec![1; len - headers], &Extra::default());
        let entries = flow.entries(&world, [ConnState::Established; 2]);
        world.set(&entries);
        assert_eq!(world.xdp(&packet(1300)).action, Action::SendBack);
        world.passes("one byte too many", &entries, &packet(1301));
    }
}

#[test]
fn ways_by_the_overlay() {
    let Some(world) = World::with(true, 0) else { return };
    for v6 in [false, true] {
        let flow = Flow { v6, proto: UDP };
        let entries = flow.entries(&world, [ConnState::Established; 2]);
        world.passes("one to a pod elsewhere", &entries, &packet(flow, &Extra::default()));
        // A process of the other node has the node's own address.
        let (key, mut value) = entries[0];
        value.dst = world.lan.nodes[1].machine.addr(v6).into();
        world.set(&[(key, value)]);
        assert_eq!(world.xdp(&packet(flow, &Extra::default())).action, Action::SendBack);
        // What the overlay itself sends is never taken for a flow's.
        let outer = NatKey { dst_port_be: OVERLAY_PORT.to_be(), ..key };
        let (from, to) = flow.ends(false);
        let packet = build::udp(from, (to.ip(), OVERLAY_PORT).into(), b"inner", &Extra::default());
        world.passes("one of the overlay's own", &[(outer, value)], &packet);
    }
}
