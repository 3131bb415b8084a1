use skep_abi::{Backend, BackendState, SlotKey, frontend_flags};
use skep_verdict::packet::Packet;
use skep_verdict::service::Seed;

use crate::build::{ACK, Extra, RST, SYN, TCP, UDP, read, tcp, udp};
use crate::world::{OTHER, POD, VIP, World, at};

/// Size of the table; a prime, as Maglev wants it.
const TABLE: u32 = 251;

#[test]
fn a_maglev_table_is_entered_where_userspace_says_that_the_tuple_leads() {
    let Some(world) = World::new() else { return };
    let maps = world.dataplane.maps();
    for i in 0..2 {
        let service = at(VIP[i], 53);
        world.serve(service, UDP, None);
        let number = 1 + i as u32;
        world.change_frontend(service, UDP, |frontend| {
            frontend.count = TABLE;
            frontend.flags = frontend_flags::MAGLEV;
        });
        // Each slot has a backend of its own, whose port names it.
        for index in 0..TABLE {
            let id = number * 1000 + index;
            let addr = at(OTHER[i], 1000 + index as u16);
            let (addr, port_be) = (addr.ip().into(), addr.port().to_be());
            let state = BackendState::Active as u8;
            let backend = Backend { addr, node: skep_abi::Addr::NONE, port_be, proto: UDP, state, flags: 0 };
            maps.backends.set(&id, &backend).unwrap();
            maps.slots.set(&SlotKey { service: number, generation: 1, index }, &id).unwrap();
        }
        for port in 40_000..40_200 {
            let pod = at(POD[i], port);
            let packet = Packet {
                src: pod.ip().into(),
                dst: service.ip().into(),
                src_port_be: port.to_be(),
                dst_port_be: 53_u16.to_be(),
                proto: UDP,
                ..Packet::EMPTY
            };
            let expected = 1000 + Seed::of_tuple(&packet).index(0, TABLE) as u16;
            let sent = read(&world.egress(&udp(pod, service, b"?", &Extra::default())).packet);
            assert_eq!(sent.dst, at(OTHER[i], expected));
        }
    }
}

#[test]
fn segments_out_of_the_window_are_translated_like_any_other() {
    let Some(world) = World::new() else { return };
    for i in 0..2 {
        let (pod, service, backend) = (at(POD[i], 40000), at(VIP[i], 80), at(OTHER[i], 8080));
        world.serve(service, TCP, Some(backend));
        world.egress(&tcp(pod, service, SYN, b"", &Extra::default()));
        world.ingress(&tcp(backend, pod, SYN | ACK, b"", &Extra::default()));
        // The builder's segments all have the same numbers: far from those of the handshake once these are changed, and
        // long acknowledged.
        for flags in [ACK, SYN | ACK, RST, RST | ACK, ACK] {
            for numbers in [[0xff; 8], [0; 8], [0x80; 8]] {
                let wild = |from, to, payload: &[u8]| {
                    let mut frame = tcp(from, to, flags, payload, &Extra::default());
                    let at = if i == 0 { 34 } else { 54 };
                    let mut segment = frame[at..].to_vec();
                    segment[4..12].copy_from_slice(&numbers);
                    segment[16..18].copy_from_slice(&[0, 0]);
                    frame = crate::build::frame(from.ip(), to.ip(), TCP, segment, &Extra::default());
                    frame
                };
                let there = read(&world.egress(&wild(pod, service, b"late")).packet);
                assert_eq!((there.src, there.dst, &there.l4[4..12]), (pod, backend, &numbers[..]));
                let back = read(&world.ingress(&wild(backend, pod, b"later")).packet);
                assert_eq!((back.src, back.dst, &back.l4[4..12]), (service, pod, &numbers[..]));
            }
        }
    }
    assert_eq!(world.drops(), []);
}
