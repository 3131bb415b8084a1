use skep_abi::{Bits, Direction, PeerKey, PortKey, RuleList, RuleListKey, rule_list_flags};

use crate::build::{ACK, Extra, SYN, TCP, tcp};
use crate::world::{OTHER, POD, VIP, World, at};

const RUNS: u32 = 200_000;

/// Prints what a packet costs in each program. Figures depend on the machine and its load: none is asserted.
#[test]
fn cost_of_a_packet() {
    let Some(world) = World::new() else { return };
    let maps = world.dataplane.maps();
    let cost = |what: &str, direction: Direction, packet: &[u8]| {
        let runs = [(); 3].map(|()| world.dataplane.try_packet(direction, packet, RUNS).unwrap());
        let best = runs.iter().map(|trial| trial.duration).min().unwrap();
        println!("{what}: {} ns ({:?})", best.as_nanos(), runs[0].action);
    };
    let mut arp = vec![0; 60];
    arp[12..14].copy_from_slice(&[8, 6]);
    cost("ARP, only the program's entry", Direction::Egress, &arp);
    for i in 0..2 {
        let family = ["IPv4", "IPv6"][i];
        let (pod, other) = (at(POD[i], 40000), at(OTHER[i], 80));
        let service = at(VIP[i], 80);
        world.serve(service, TCP, Some(at(OTHER[i], 8080)));
        world.egress(&tcp(pod, other, SYN, b"", &Extra::default()));
        cost(
            &format!("{family}, established, from pod"),
            Direction::Egress,
            &tcp(pod, other, ACK, b"", &Extra::default()),
        );
        cost(
            &format!("{family}, established, to pod"),
            Direction::Ingress,
            &tcp(other, pod, ACK, b"", &Extra::default()),
        );
        let list = 1 + i as u32;
        let flags = rule_list_flags::PEERS | rule_list_flags::PORTS;
        let rules = RuleList { any_peer: Bits::default(), any_port: Bits::default(), flags, pad: 0 };
        maps.rule_lists.set(&RuleListKey { list, word: 0 }, &rules).unwrap();
        maps.identities.set(&other.ip().into(), &99).unwrap();
        maps.peer_rules.set(&PeerKey { identity: 99, list, word: 0 }, &Bits([1, 0, 0, 0])).unwrap();
        let key = PortKey { list, word: 0, proto: TCP, pad: 0, port_be: 5000_u16.to_be(), tail: [0; 6] };
        maps.port_rules.set(PortKey::BASE_BITS + 16, &key, &Bits([2, 0, 0, 0])).unwrap();
        world.change(|endpoint| {
            endpoint.rule_list[0] = list;
            endpoint.words[0] = 1;
        });
        let denied = tcp(at(OTHER[i], 81), at(POD[i], 5000), SYN, b"", &Extra::default());
        cost(&format!("{family}, new, denied by policy, to pod"), Direction::Ingress, &denied);
        world.change(|_| {});
    }
}
