//! The same packets of known flows through both programs: the same bytes out, the same entries afterwards.

use skep_abi::{ConnState, Counter, NatKey, NatValue, config_flags, nat_flags};
use skep_dataplane::{Action, Trial};
use skep_verdict::conn::SECOND;

use super::world::{Flow, World};
use crate::build::{self, ACK, Extra, SYN, TCP, UDP};

const FIN: u8 = 1;
const RST: u8 = 4;

const STATES: [ConnState; 4] = [ConnState::New, ConnState::Established, ConnState::Closing, ConnState::Closed];

/// Runs a packet through tc and through XDP, each time with the same entries before; the frame that XDP sends must be the one
/// that tc sends, and entries must be the same after both. Says whether XDP has sent it.
fn both(world: &World, entries: &[(NatKey, NatValue)], packet: &[u8]) -> bool {
    let run = |trial: &dyn Fn() -> Trial| {
        world.set(entries);
        let trial = trial();
        (trial, world.get(entries))
    };
    let (tc, after_tc) = run(&|| world.tc(packet));
    let (xdp, after_xdp) = run(&|| world.xdp(packet));
    if xdp.action == Action::Pass {
        assert_eq!(xdp.packet[14..], packet[14..], "a packet that is passed on is as it was");
        assert_eq!(after_xdp, entries.iter().map(|(_, value)| Some(*value)).collect::<Vec<_>>());
        return false;
    }
    assert_eq!((tc.action, xdp.action), (Action::SendBack, Action::SendBack));
    assert_eq!(xdp.packet[14..], tc.packet[14..]);
    for (tc, xdp) in after_tc.into_iter().zip(after_xdp) {
        let (Some(tc), Some(mut xdp)) = (tc, xdp) else { panic!("an entry is gone: {tc:?} {xdp:?}") };
        assert!(tc.expires.abs_diff(xdp.expires) < SECOND, "{tc:?} {xdp:?}");
        xdp.expires = tc.expires;
        assert_eq!(xdp, tc);
    }
    true
}

#[test]
fn each_segment_of_a_connection_in_each_state() {
    let Some(world) = World::new(0) else { return };
    for v6 in [false, true] {
        for reply in [false, true] {
            let flow = Flow { v6, proto: TCP };
            for states in STATES.into_iter().flat_map(|a| STATES.map(|b| [a, b])) {
                for flags in [SYN, SYN | ACK, ACK, FIN | ACK, RST, RST | ACK] {
                    let entries = flow.entries(&world, states);
                    let (from, to) = flow.ends(reply);
                    let packet = build::tcp(from, to, flags, b"some bytes", &Extra::default());
                    let state = states[usize::from(reply)];
                    let opens_anew = flags == SYN && state as u8 >= ConnState::Closing as u8;
                    let sent = both(&world, &entries, &packet);
                    assert_eq!(sent, !opens_anew, "{flow:?} {reply} {states:?} {flags}");
                }
            }
        }
    }
}

#[test]
fn datagrams_segments_options_and_odd_lengths() {
    let Some(world) = World::new(0) else { return };
    for v6 in [false, true] {
        for proto in [TCP, UDP] {
            for reply in [false, true] {
                let flow = Flow { v6, proto };
                let entries = flow.entries(&world, [ConnState::Established; 2]);
                let (from, to) = flow.ends(reply);
                for len in [0, 1, 2, 3, 100, 1401] {
                    for words in [0, 1, 10] {
                        let options = Extra { options: vec![1; words * 4], ..Extra::default() };
                        let payload: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
                        let mut packet = match proto {
                            TCP => build::tcp(from, to, ACK, &payload, &options),
                            _ => build::udp(from, to, &payload, &options),
                        };
                        assert!(both(&world, &entries, &packet), "{flow:?} {reply} {len} {words}");
                        // As it goes on, with every checksum right.
                        world.set(&entries);
                        let sent = world.xdp(&packet).packet;
                        let read = build::read(&sent);
                        let value = &entries[usize::from(reply)].1;
                        assert_eq!((read.src.ip(), read.dst.ip()), (value.src.into(), value.dst.into()));
                        assert_eq!(read.src.port().to_be(), value.src_port_be);
                        assert_eq!(read.dst.port().to_be(), value.dst_port_be);
                        let next = if reply { 100 } else { 2 };
                        assert_eq!(sent[..12], [2, 0, 0, 0, 0, next, 2, 0, 0, 0, 0, 1]);
                        // Type of service, or traffic class and flow label, are nothing to either.
                        packet[15] = if v6 { 0x12 } else { 0x10 };
                        assert!(both(&world, &entries, &packet));
                    }
                }
            }
        }
    }
    assert!(world.count(Counter::XdpForwarded) > 100);
}

#[test]
fn a_datagram_without_checksum_stays_without() {
    let Some(world) = World::new(0) else { return };
    let flow = Flow { v6: false, proto: UDP };
    let entries = flow.entries(&world, [ConnState::Established; 2]);
    for reply in [false, true] {
        let (from, to) = flow.ends(reply);
        let mut packet = build::udp(from, to, b"some bytes", &Extra::default());
        packet[40..42].fill(0);
        assert!(both(&world, &entries, &packet));
        world.set(&entries);
        assert_eq!(world.xdp(&packet).packet[40..42], [0, 0]);
    }
}

#[test]
fn direct_return_only_counts_the_hop() {
    let Some(world) = World::new(config_flags::DSR) else { return };
    for v6 in [false, true] {
        for proto in [TCP, UDP] {
            let flow = Flow { v6, proto };
            let (key, mut value) = flow.entries(&world, [ConnState::New; 2])[0];
            value.flags = nat_flags::FORWARD | nat_flags::DSR;
            value.dst = world.lan.nodes[1].machine.addr(v6).into();
            let (from, to) = flow.ends(false);
            let flags = if proto == TCP { vec![SYN, ACK, FIN | ACK, RST] } else { vec![0] };
            for flags in flags {
                let packet = match proto {
                    TCP => build::tcp(from, to, flags, b"bytes", &Extra::default()),
                    _ => build::udp(from, to, b"bytes", &Extra::default()),
                };
                let before = world.count(Counter::DirectReturn);
                assert!(both(&world, &[(key, value)], &packet), "{flow:?} {flags}");
                assert_eq!(world.count(Counter::DirectReturn), before + 2, "one by each program");
                world.set(&[(key, value)]);
                let sent = world.xdp(&packet).packet;
                let read = build::read(&sent);
                assert_eq!((read.src, read.dst), (from, to));
                assert_eq!(sent[..6], [2, 0, 0, 0, 0, 2]);
            }
        }
    }
}

/// Prints what a packet of a known flow costs in each program. Figures depend on the machine and its load: none is asserted.
#[test]
fn cost_of_a_packet() {
    const RUNS: u32 = 100_000;
    let Some(world) = World::new(0) else { return };
    for v6 in [false, true] {
        let flow = Flow { v6, proto: UDP };
        let entries = flow.entries(&world, [ConnState::Established; 2]);
        let (from, to) = flow.ends(false);
        let packet = build::udp(from, to, b"0123456789", &Extra::default());
        // Run again at once it would be another flow's: the kernel keeps what the program has made of it.
        let mean = |trial: &dyn Fn() -> Trial| {
            world.set(&entries);
            let runs = (0..2000).map(|_| trial().duration).collect::<Vec<_>>();
            runs.iter().sum::<std::time::Duration>() / 2000
        };
        let mut arp = packet.clone();
        arp[12..14].copy_from_slice(&[8, 6]);
        let empty = world.repeat(&arp, RUNS).duration;
        println!("v6 {v6}: XDP, no packet of IP: {empty:?}");
        println!("v6 {v6}: XDP, single runs: {:?}", mean(&|| world.xdp(&packet)));
        println!("v6 {v6}: tc, single runs: {:?}", mean(&|| world.tc(&packet)));
    }
}
