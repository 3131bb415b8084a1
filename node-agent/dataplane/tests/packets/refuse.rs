use skep_abi::Reason;
use skep_dataplane::Action;

use crate::build::{ACK, Extra, RST, SYN, TCP, UDP, read, tcp, udp};
use crate::world::{POD, VIP, World, at};

#[test]
fn a_connection_to_a_service_without_endpoints_is_reset() {
    let Some(world) = World::new() else { return };
    for i in 0..2 {
        let (pod, service) = (at(POD[i], 40000), at(VIP[i], 80));
        world.serve(service, TCP, None);
        for extra in [Extra::default(), Extra::some()] {
            let asked = tcp(pod, service, SYN, b"early", &extra);
            let trial = world.egress(&asked);
            assert_eq!(trial.action, Action::SendBack);
            // Link-layer addresses have changed places.
            assert_eq!((&trial.packet[..6], &trial.packet[6..12]), (&asked[6..12], &asked[..6]));
            let reset = read(&trial.packet);
            assert_eq!((reset.src, reset.dst, reset.l4.len()), (service, pod, 20));
            assert_eq!(reset.l4[13], RST | ACK);
            // Sequence number 0, acknowledging SYN and 5 bytes after 0x1000.
            assert_eq!(reset.l4[4..12], [0, 0, 0, 0, 0, 0, 0x10, 6]);
        }
        // What acknowledges something is reset at that place (RFC 9293, 3.10.7.1).
        let reset = read(&world.egress(&tcp(pod, service, ACK, b"", &Extra::default())).packet);
        assert_eq!((reset.l4[13], &reset.l4[4..8]), (RST, &[0, 0, 0x20, 0][..]));
        // A reset is not answered.
        assert_eq!(world.egress(&tcp(pod, service, RST, b"", &Extra::default())).action, Action::Drop);
    }
    assert_eq!(world.drops(), [(Reason::NoEndpoints, 8)]);
}

#[test]
fn a_datagram_to_a_service_without_endpoints_is_answered_by_port_unreachable() {
    let Some(world) = World::new() else { return };
    for i in 0..2 {
        let (pod, service) = (at(POD[i], 40000), at(VIP[i], 53));
        world.serve(service, UDP, None);
        for payload in [&b""[..], &[b'x'; 400]] {
            let asked = udp(pod, service, payload, &Extra::default());
            let trial = world.egress(&asked);
            assert_eq!(trial.action, Action::SendBack);
            let error = read(&trial.packet);
            assert_eq!((error.src.ip(), error.dst.ip()), (service.ip(), pod.ip()));
            assert_eq!(error.l4[..2], if i == 0 { [3, 3] } else { [1, 4] });
            let quoted = if i == 0 { 28 } else { 48 };
            assert_eq!(error.l4[8..], asked[14..14 + quoted]);
        }
    }
    assert_eq!(world.drops(), [(Reason::NoEndpoints, 4)]);
}
