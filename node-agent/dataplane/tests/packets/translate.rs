use skep_dataplane::Action;

use crate::build::{ACK, Extra, SYN, TCP, UDP, frame, read, tcp, udp};
use crate::world::{OTHER, POD, VIP, World, at};

/// With and without what moves the transport header.
fn extras() -> [Extra; 2] {
    [Extra::default(), Extra::some()]
}

#[test]
fn tcp_is_translated_and_translated_back() {
    let Some(world) = World::new() else { return };
    for i in 0..2 {
        let (service, backend) = (at(VIP[i], 80), at(OTHER[i], 8080));
        world.serve(service, TCP, Some(backend));
        for (extra, port) in extras().into_iter().zip([40000, 40001]) {
            let pod = at(POD[i], port);
            let sent = world.egress(&tcp(pod, service, SYN, b"", &extra));
            assert_eq!(sent.action, Action::Pass);
            let there = read(&sent.packet);
            assert_eq!((there.src, there.dst), (pod, backend));
            let answer = world.ingress(&tcp(backend, pod, SYN | ACK, b"data", &extra));
            assert_eq!(answer.action, Action::Pass);
            let back = read(&answer.packet);
            assert_eq!((back.src, back.dst), (service, pod));
            assert_eq!(&back.l4[20..], b"data");
        }
    }
    assert_eq!(world.drops(), []);
}

#[test]
fn udp_is_translated_and_translated_back() {
    let Some(world) = World::new() else { return };
    for i in 0..2 {
        let (service, backend) = (at(VIP[i], 53), at(OTHER[i], 5353));
        world.serve(service, UDP, Some(backend));
        for (extra, port) in extras().into_iter().zip([40000, 40001]) {
            let pod = at(POD[i], port);
            let there = read(&world.egress(&udp(pod, service, b"question", &extra)).packet);
            assert_eq!((there.src, there.dst, &there.l4[8..]), (pod, backend, &b"question"[..]));
            let back = read(&world.ingress(&udp(backend, pod, b"an answer", &extra)).packet);
            assert_eq!((back.src, back.dst, &back.l4[8..]), (service, pod, &b"an answer"[..]));
        }
    }
    assert_eq!(world.drops(), []);
}

#[test]
fn a_datagram_without_checksum_stays_without() {
    let Some(world) = World::new() else { return };
    let (pod, service, backend) = (at(POD[0], 40000), at(VIP[0], 53), at(OTHER[0], 5353));
    world.serve(service, UDP, Some(backend));
    let mut packet = udp(pod, service, b"question", &Extra::default());
    packet[40..42].copy_from_slice(&[0, 0]);
    let sent = world.egress(&packet);
    assert_eq!(sent.packet[40..42], [0, 0]);
    assert_eq!(read(&sent.packet).dst, backend);
}

#[test]
fn an_icmp_error_is_translated_with_the_packet_that_it_quotes() {
    let Some(world) = World::new() else { return };
    let routers = ["192.0.2.254", "2001:db8::254"];
    for i in 0..2 {
        let (pod, service, backend) = (at(POD[i], 40000), at(VIP[i], 53), at(OTHER[i], 5353));
        world.serve(service, UDP, Some(backend));
        for extra in extras() {
            let sent = world.egress(&udp(pod, service, b"question", &extra)).packet;
            // Packet too big, with an MTU of 1300.
            let mut error = if i == 0 { vec![3, 4, 0, 0, 0, 0, 5, 20] } else { vec![2, 0, 0, 0, 0, 0, 5, 20] };
            error.extend(&sent[14..]);
            for from in [routers[i], OTHER[i]] {
                let from = from.parse().unwrap();
                let packet = frame(from, pod.ip(), if i == 0 { 1 } else { 58 }, error.clone(), &Extra::default());
                let seen = world.ingress(&packet);
                assert_eq!(seen.action, Action::Pass);
                // Checks the checksums too: the outer one, and the quoted IPv4 header's own.
                let outer = read(&seen.packet);
                assert_eq!(outer.src.ip(), if from == backend.ip() { service.ip() } else { from });
                let quoted = [&seen.packet[..14], &outer.l4[8..]].concat();
                let quoted = read_quoted(&quoted);
                assert_eq!(quoted, (pod, service));
            }
        }
    }
    assert_eq!(world.drops(), []);
}

/// Source and destination of a quoted packet, whose transport checksum nobody can check.
fn read_quoted(frame: &[u8]) -> (std::net::SocketAddr, std::net::SocketAddr) {
    let mut copy = frame.to_vec();
    // A zero checksum is none, which the reader accepts.
    let len = copy.len();
    let l4 = len - 8 - b"question".len();
    copy[l4 + 6..l4 + 8].copy_from_slice(&[0, 0]);
    let read = read(&copy);
    (read.src, read.dst)
}

#[test]
fn a_later_fragment_goes_with_its_first_one_and_no_port_is_read_from_it() {
    let Some(world) = World::new() else { return };
    let (pod, service, backend) = (at(POD[0], 40000), at(VIP[0], 53), at(OTHER[0], 5353));
    world.serve(service, UDP, Some(backend));
    let fragment = |flags_and_offset: u16, l4: Vec<u8>| {
        let mut packet = frame(pod.ip(), service.ip(), 200, l4, &Extra::default());
        packet[20..22].copy_from_slice(&flags_and_offset.to_be_bytes());
        packet[23] = UDP;
        packet[24..26].copy_from_slice(&[0, 0]);
        let sum = crate::build::checksum(&packet[14..34]);
        packet[24..26].copy_from_slice(&sum.to_be_bytes());
        packet
    };
    // What would be ports in a whole datagram are those of another Service.
    let later = fragment(1, [&[0, 1, 0, 2][..], &[9; 12]].concat());
    assert_eq!(world.egress(&later).action, Action::Drop);
    assert_eq!(world.drops(), [(skep_abi::Reason::UnknownFragment, 1)]);
    let first = fragment(0x2000, vec![0x9c, 0x40, 0, 53, 0, 24, 0, 0]);
    assert_eq!(world.egress(&first).packet[30..34], [10, 244, 2, 9]);
    let sent = world.egress(&later);
    assert_eq!((sent.action, &sent.packet[30..34]), (Action::Pass, &[10, 244, 2, 9][..]));
    assert_eq!(sent.packet[34..], later[34..], "nothing after the IP header is touched");
    assert_eq!(crate::build::checksum(&sent.packet[14..34]), 0);
}

#[test]
fn with_tc_services_off_addresses_are_left_alone() {
    let Some(world) = World::new() else { return };
    world.serve(at(VIP[0], 80), TCP, Some(at(OTHER[0], 8080)));
    let config = &world.dataplane.maps().config;
    let mut off = config.get().unwrap();
    off.flags |= skep_abi::config_flags::NO_TC_SERVICES;
    config.set(&off).unwrap();
    let packet = tcp(at(POD[0], 40000), at(VIP[0], 80), SYN, b"", &Extra::default());
    assert_eq!(world.egress(&packet).packet, packet);
}
