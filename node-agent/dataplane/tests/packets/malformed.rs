use skep_abi::Reason;
use skep_dataplane::Action;
use skep_verdict::packet::{Extent, Icmp, Packet, parse};

use crate::build::{Extra, SYN, frame, tcp, udp};
use crate::world::{OTHER, POD, World, at};

fn packet(i: usize) -> Vec<u8> {
    tcp(at(POD[i], 40000), at(OTHER[i], 80), SYN, b"payload", &Extra::some())
}

/// Sends one packet each way and says why it was dropped, if it was.
fn dropped(world: &World, packet: &[u8]) -> Option<Reason> {
    let before = world.drops();
    let action = world.egress(packet).action;
    let after = world.drops();
    let reason = after.iter().find(|(reason, n)| !before.contains(&(*reason, *n))).map(|(reason, _)| *reason);
    assert_eq!(reason.is_some(), action == Action::Drop, "counted but not dropped, or the other way round");
    reason
}

#[test]
fn packets_that_end_early_or_contradict_themselves_are_dropped_and_counted() {
    let Some(world) = World::new() else { return };
    let changed = |i: usize, at: usize, byte: u8| {
        let mut packet = packet(i);
        packet[at] = byte;
        packet
    };
    let cases = [
        // The kernel takes no test packet that ends within the fixed IP header.
        ("IPv4 cut in its options", packet(0)[..40].to_vec()),
        ("IPv4 cut before its end", packet(0)[..70].to_vec()),
        ("IPv4 version", changed(0, 14, 0x58)),
        ("IPv4 header length of 16", changed(0, 14, 0x44)),
        ("IPv4 total length below the header's", changed(0, 17, 8)),
        ("TCP header length of 16", changed(0, 58, 4 << 4)),
        ("TCP header longer than the packet", changed(0, 58, 15 << 4)),
        ("IPv6 cut in an extension header", packet(1)[..54].to_vec()),
        ("IPv6 payload length beyond the packet", changed(1, 18, 0xff)),
        ("IPv6 version", changed(1, 14, 0x40)),
        ("IPv6 extension header beyond the packet", changed(1, 55, 200)),
    ];
    for (what, packet) in cases {
        assert_eq!(dropped(&world, &packet), Some(Reason::Malformed), "{what}");
    }
    let short = |i: usize| {
        let mut packet = udp(at(POD[i], 40000), at(OTHER[i], 80), b"payload", &Extra::default());
        let at = if i == 0 { 38 } else { 58 };
        packet[at..at + 2].copy_from_slice(&[0, 7]);
        packet
    };
    assert_eq!(dropped(&world, &short(0)), Some(Reason::Malformed), "UDP length of 7");
    assert_eq!(dropped(&world, &short(1)), Some(Reason::Malformed), "UDP length of 7");
    let chain = Extra { extensions: vec![(60, vec![0, 0, 1, 4, 0, 0, 0, 0]); 20], ..Extra::default() };
    let endless = udp(at(POD[1], 40000), at(OTHER[1], 80), b"", &chain);
    assert_eq!(dropped(&world, &endless), Some(Reason::Malformed), "20 extension headers");
}

#[test]
fn what_is_not_supported_is_dropped_and_arp_passes() {
    let Some(world) = World::new() else { return };
    let mut other = packet(0);
    other[12..14].copy_from_slice(&[0x88, 0xcc]);
    assert_eq!(dropped(&world, &other), Some(Reason::UnsupportedProtocol));
    // A routing header with segments left: the destination field is not where the packet goes.
    let routed = Extra {
        extensions: vec![(43, vec![0, 2, 4, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])],
        ..Extra::default()
    };
    let routed = udp(at(POD[1], 40000), at(OTHER[1], 80), b"", &routed);
    assert_eq!(dropped(&world, &routed), Some(Reason::UnsupportedProtocol));
    let mut arp = vec![0; 60];
    arp[12..14].copy_from_slice(&[8, 6]);
    assert_eq!(world.egress(&arp).action, Action::Pass);
    assert_eq!(world.ingress(&arp).action, Action::Pass);
}

#[test]
fn neighbour_discovery_passes_on_the_link_only() {
    let Some(world) = World::new() else { return };
    // A neighbour solicitation from the unspecified address, as for duplicate address detection.
    let solicitation = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &[0xfd; 16]].concat();
    let nd = |from: &str, to: &str| {
        frame(from.parse().unwrap(), to.parse().unwrap(), 58, solicitation.clone(), &Extra::default())
    };
    assert_eq!(dropped(&world, &nd("::", "ff02::1:ff00:1")), None);
    assert_eq!(dropped(&world, &nd("fe80::5", "fe80::1")), None);
    assert_eq!(dropped(&world, &nd(POD[1], "fe80::1")), None);
    assert_eq!(dropped(&world, &nd("fe80::5", OTHER[1])), Some(Reason::SpoofedSource));
    assert_eq!(world.ingress(&nd("fe80::1", POD[1])).action, Action::Pass);
}

#[test]
fn kernel_and_userspace_read_every_packet_alike() {
    let Some(world) = World::new() else { return };
    let mut random = 0x1234_5678_9abc_def0_u64;
    let mut next = |below: usize| {
        // Knuth's linear congruential generator: the same packets each time.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    let kinds: Vec<Vec<u8>> = (0..2)
        .flat_map(|i| {
            let (pod, other) = (at(POD[i], 40000), at(OTHER[i], 80));
            [packet(i), udp(pod, other, b"payload", &Extra::some()), udp(pod, other, b"", &Extra::default())]
        })
        .collect();
    let (mut refused, mut read) = (0, 0);
    for _ in 0..6000 {
        let mut packet = kinds[next(kinds.len())].clone();
        for _ in 0..next(4) {
            // Not the EtherType, and not the source address: what is read comes before the spoof check.
            let at = 14 + next(packet.len() - 14);
            packet[at] = next(256) as u8;
        }
        let v6 = packet[12] == 0x86;
        packet.truncate(14 + if v6 { 40 } else { 20 } + next(packet.len()));
        let mut parsed = Packet::EMPTY;
        let expected = parse(&packet.as_slice(), 14, v6, Extent::Whole, &mut parsed);
        if expected.is_ok() && parsed.icmp() == Icmp::Error {
            continue;
        }
        let got = dropped(&world, &packet);
        match expected {
            Err(reason) => {
                refused += 1;
                assert_eq!(got, Some(reason), "{packet:02x?}");
            }
            Ok(()) => {
                read += 1;
                let parse_reasons = [Some(Reason::Malformed), Some(Reason::UnsupportedProtocol)];
                assert!(!parse_reasons.contains(&got), "{got:?} {packet:02x?}");
                let own = POD.map(|addr| skep_abi::Addr::from(addr.parse::<std::net::IpAddr>().unwrap()));
                assert_eq!(got == Some(Reason::SpoofedSource), parsed.src != own[usize::from(v6)], "{packet:02x?}");
            }
        }
    }
    println!("{read} packets read, {refused} refused, by both alike");
    assert!(refused > 500 && read > 500);
}
