use skep_abi::map;

use crate::lan::{Lan, MASQUERADE, Place, TCP, any};
use crate::machine::{Conversation, Machine};

/// Conversations from outside with pods of both nodes, and of a pod with somebody outside.
fn converse(lan: &Lan) -> ([Machine; 2], Vec<Conversation>) {
    let (here, there) = (lan.nodes[0].pod(1), lan.nodes[1].pod(1));
    let mut held = Vec::new();
    for v6 in [false, true] {
        for (node, pod) in [(0, &here), (1, &there)] {
            let server = pod.tcp_server((pod.addr(v6), 0).into());
            lan.serve(any(v6), TCP, 0, &[Place::pod(node, server)]);
            held.push(lan.client.connect(lan.node_port(0, v6)).unwrap().0);
        }
        let server = lan.client.tcp_server((lan.client.addr(v6), 0).into());
        held.push(here.connect(server).unwrap().0);
    }
    ([here, there], held)
}

#[test]
fn a_restart_is_invisible() {
    let Some(mut lan) = Lan::new(MASQUERADE) else { return };
    let (_pods, mut held) = converse(&lan);
    let programs = lan.nodes[0].dataplane.programs();
    lan.nodes[0].restart();
    assert_eq!(lan.nodes[0].dataplane.programs(), programs);
    for conversation in &mut held {
        conversation.go_on().unwrap();
    }
    // Another object's programs take the place of these in the links.
    let dir = lan.nodes[0].options.bpf_dir.join(format!("v{}", skep_abi::VERSION));
    let names = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let [name] = names.filter(|name| name.starts_with("programs-")).collect::<Vec<_>>().try_into().unwrap();
    std::fs::rename(dir.join(name), dir.join("programs-0")).unwrap();
    lan.nodes[0].restart();
    assert_ne!(lan.nodes[0].dataplane.programs(), programs);
    for conversation in &mut held {
        conversation.go_on().unwrap();
    }
    lan.client.ask(lan.node_port(0, false)).unwrap();
}

#[test]
fn without_an_uplink_the_programs_of_an_earlier_one_go() {
    let Some(mut lan) = Lan::new(0) else { return };
    let pod = lan.nodes[0].pod(1);
    lan.serve(any(false), TCP, 0, &[Place::pod(0, pod.tcp_server((pod.addr(false), 0).into()))]);
    lan.client.ask(lan.node_port(0, false)).unwrap();
    lan.nodes[0].options.uplink = None;
    lan.nodes[0].restart();
    lan.client.ask(lan.node_port(0, false)).unwrap_err();
    lan.nodes[0].options.uplink = Some(lan.nodes[0].machine.ifindex("eth0"));
    lan.nodes[0].restart();
    lan.client.ask(lan.node_port(0, false)).unwrap();
}

#[test]
fn connections_from_outside_and_to_it_go_on_when_their_maps_take_other_sizes() {
    let Some(mut lan) = Lan::new(MASQUERADE) else { return };
    let (_pods, mut held) = converse(&lan);
    for (nat, conntrack) in [(1_000_000, 200_000), (4_000, 4_000), (524_288, 524_288)] {
        lan.nodes[0].options.capacities = [(map::NAT, nat), (map::CONNTRACK, conntrack)].into();
        lan.nodes[0].restart();
        for conversation in &mut held {
            conversation.go_on().unwrap();
        }
        held.push(lan.client.connect(lan.node_port(0, false)).unwrap().0);
        let capacities = lan.nodes[0].dataplane.maps().capacities().unwrap();
        for (name, capacity) in [(map::NAT, nat), (map::CONNTRACK, conntrack)] {
            assert!(capacities.iter().any(|map| map.name == name && map.capacity == capacity), "{capacities:?}");
        }
    }
}
