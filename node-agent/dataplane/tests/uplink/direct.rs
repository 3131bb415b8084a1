use std::net::SocketAddr;

use skep_abi::{Counter, config_flags};

use crate::lan::{Lan, Place, TCP, UDP, VIPS, any};

#[test]
fn with_direct_return_the_backends_node_answers_the_client_itself() {
    let Some(lan) = Lan::new(config_flags::DSR) else { return };
    let (here, there) = (lan.nodes[0].pod(1), lan.nodes[1].pod(1));
    lan.announce();
    for v6 in [false, true] {
        let vip: SocketAddr = (VIPS[usize::from(v6)].parse::<std::net::IpAddr>().unwrap(), 80).into();
        for (node, pod) in [(0, &here), (1, &there)] {
            for addr in [any(v6), vip] {
                lan.serve(addr, TCP, 0, &[Place::pod(node, pod.tcp_server((pod.addr(v6), 0).into()))]);
                lan.serve(addr, UDP, 0, &[Place::pod(node, pod.udp_server((pod.addr(v6), 0).into()))]);
            }
            for server in [lan.node_port(0, v6), vip] {
                let (mut conversation, seen) = lan.client.connect(server).unwrap();
                assert_eq!(seen.ip(), lan.client.addr(v6), "{server} on node {node}");
                conversation.go_on().unwrap();
                assert_eq!(lan.client.send(server, 9).unwrap(), (lan.client.addr(v6), server));
            }
        }
    }
    assert_eq!(lan.nodes[0].count(Counter::SnatAllocated), 0);
    assert!(lan.nodes[0].count(Counter::DirectReturn) > 0);
    assert_eq!(lan.nodes[1].count(Counter::DirectReturn), 0);
}

#[test]
fn with_direct_return_both_nodes_choose_alike() {
    let Some(lan) = Lan::new(config_flags::DSR) else { return };
    let pods = [lan.nodes[0].pod(1), lan.nodes[1].pod(1), lan.nodes[1].pod(2)];
    let places = [0, 1, 1].into_iter().zip(&pods);
    let places: Vec<Place> =
        places.map(|(node, pod)| Place::pod(node, pod.udp_server((pod.addr(false), 0).into()))).collect();
    lan.serve(any(false), UDP, 0, &places);
    for _ in 0..40 {
        assert_eq!(lan.client.send(lan.node_port(0, false), 1).unwrap().0, lan.client.addr(false));
    }
    // What the first node did not keep arrived at the second, and each connection at one backend only.
    let nat = |node: usize| lan.nodes[node].dataplane.maps().nat.iter().unwrap();
    let sent = nat(0).iter().filter(|(_, value)| value.flags & skep_abi::nat_flags::DSR != 0).count();
    let received: Vec<_> =
        nat(1).into_iter().filter(|(_, value)| value.flags & skep_abi::nat_flags::FORWARD != 0).collect();
    assert_eq!(sent, received.len());
    assert!(sent > 10 && sent < 40, "{sent}");
    for place in &places[1..] {
        assert!(received.iter().any(|(_, value)| value.dst == place.addr.ip().into()));
    }
}
