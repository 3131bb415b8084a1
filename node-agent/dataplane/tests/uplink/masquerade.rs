use std::net::IpAddr;

use skep_abi::{Addr, Counter, Route, RouteKey, route_flags};

use crate::icmp::ping;
use crate::lan::{Lan, MASQUERADE};

#[test]
fn a_pod_speaks_to_the_world_with_the_address_of_its_node() {
    let Some(lan) = Lan::new(MASQUERADE) else { return };
    let pod = lan.nodes[0].pod(1);
    for v6 in [false, true] {
        let node = lan.nodes[0].machine.addr(v6);
        let server = lan.client.tcp_server((lan.client.addr(v6), 0).into());
        let (mut conversation, seen) = pod.connect(server).unwrap();
        assert_eq!(seen.ip(), node);
        conversation.go_on().unwrap();
        let server = lan.client.udp_server((lan.client.addr(v6), 0).into());
        assert_eq!(pod.send(server, 9).unwrap(), (node, server));
        assert_eq!(pod.send(server, 4000).unwrap(), (node, server), "fragments");
        // Two echoes with one number from two pods.
        let other = lan.nodes[0].pod(if v6 { 3 } else { 2 });
        for machine in [&pod, &other, &pod] {
            ping(machine, lan.client.addr(v6), 7).unwrap();
        }
    }
    assert_eq!(lan.nodes[0].count(Counter::Masqueraded), 10);
}

#[test]
fn within_the_cluster_and_to_spared_ranges_a_pod_keeps_its_address() {
    let Some(lan) = Lan::new(MASQUERADE) else { return };
    let (pod, other) = (lan.nodes[0].pod(1), lan.nodes[1].pod(1));
    let spare = |addr: IpAddr| {
        let route = Route { node: Addr::NONE, flags: route_flags::NO_MASQUERADE, pad: 0 };
        lan.nodes[0].dataplane.maps().routes.set(128, &RouteKey { addr: addr.into() }, &route).unwrap();
    };
    for v6 in [false, true] {
        let family = if v6 { "-6 " } else { "" };
        lan.client.ip(&format!("{family}route add {} via {}", pod.addr(v6), lan.nodes[0].machine.addr(v6)));
        for machine in [&other, &lan.nodes[1].machine] {
            let server = machine.tcp_server((machine.addr(v6), 0).into());
            assert_eq!(pod.ask(server).unwrap(), pod.addr(v6));
        }
        // Who opens a connection to the pod itself gets its answers from there.
        let server = pod.tcp_server((pod.addr(v6), 0).into());
        assert_eq!(lan.client.ask(server).unwrap(), lan.client.addr(v6));
        spare(lan.client.addr(v6));
        let server = lan.client.tcp_server((lan.client.addr(v6), 0).into());
        assert_eq!(pod.ask(server).unwrap(), pod.addr(v6));
    }
    assert_eq!(lan.nodes[0].count(Counter::Masqueraded), 0);
}

#[test]
fn without_the_setting_a_pod_keeps_its_address() {
    let Some(lan) = Lan::new(0) else { return };
    let pod = lan.nodes[0].pod(1);
    lan.client.ip(&format!("route add {} via {}", pod.addr(false), lan.nodes[0].machine.addr(false)));
    let server = lan.client.tcp_server((lan.client.addr(false), 0).into());
    assert_eq!(pod.ask(server).unwrap(), pod.addr(false));
}
