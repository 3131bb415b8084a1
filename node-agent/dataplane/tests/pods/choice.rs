//! Which backend a pod's packets get.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};

use skep_abi::{Addr, AffinityKey, BackendState, Direction, NodeAddr, Reason, frontend_flags, node_addr_flags};

use crate::world::{NODE4, NODE6, Node, TCP, UDP, VIPS, talk};

fn services(port: u16) -> [SocketAddr; 2] {
    VIPS.map(|vip| SocketAddr::new(vip.parse().unwrap(), port))
}

#[test]
fn a_client_stays_with_its_backend_and_another_client_is_another() {
    let Some(node) = Node::new() else { return };
    let (client, other, server) = (node.pod(1), node.pod(2), node.pod(3));
    let affinity = &node.dataplane.maps().affinity;
    for (i, service) in services(53).into_iter().enumerate() {
        let ids = [1, 2, 3].map(|id| id + 10 * i as u32);
        let backends = ids.map(|id| (id, server.named_udp_server(server.addrs[i])));
        let number = node.serve_set(service, UDP, &backends, frontend_flags::AFFINITY, 600);
        let first = talk(&client.connect(service)).unwrap();
        assert!((0..10).all(|_| talk(&client.connect(service)).unwrap() == first));
        talk(&other.connect(service)).unwrap();
        let key = |addr: IpAddr| AffinityKey { client: addr.into(), service: number };
        let (mine, others) = (key(client.addrs[i]), key(other.addrs[i]));
        let remembered = affinity.get(&mine).unwrap().unwrap();
        assert!(affinity.get(&others).unwrap().is_some());
        // The memory decides.
        let elsewhere = ids.into_iter().find(|id| *id != remembered.backend).unwrap();
        affinity.set(&mine, &skep_abi::AffinityValue { backend: elsewhere, ..remembered }).unwrap();
        let second = talk(&client.connect(service)).unwrap();
        assert_ne!(second, first);
        // A changed set that has the backend still is no reason to leave it.
        let turned: Vec<_> = backends.iter().rev().copied().collect();
        node.serve_set(service, UDP, &turned, frontend_flags::AFFINITY, 600);
        assert!((0..10).all(|_| talk(&client.connect(service)).unwrap() == second));
        // Without it, or with it on its way out, there is another.
        node.set_state(elsewhere, BackendState::Terminating);
        assert_ne!(talk(&client.connect(service)).unwrap(), second);
        let left: Vec<_> = backends.iter().filter(|(_, addr)| addr.to_string() == second).copied().collect();
        node.serve_set(service, UDP, &left, frontend_flags::AFFINITY, 600);
        assert!((0..10).all(|_| talk(&client.connect(service)).unwrap() == second));
        // Long ago is forgotten.
        node.serve_set(service, UDP, &backends, frontend_flags::AFFINITY, 600);
        let reached: BTreeSet<String> = (0..60)
            .map(|_| {
                let mut value = affinity.get(&mine).unwrap().unwrap();
                value.last_used = value.last_used.saturating_sub(600_000_000_000);
                affinity.set(&mine, &value).unwrap();
                talk(&client.connect(service)).unwrap()
            })
            .collect();
        assert_eq!(reached.len(), 3);
    }
}

#[test]
fn a_service_of_this_node_alone_refuses_when_the_node_has_no_endpoint_and_says_why() {
    let Some(node) = Node::new() else { return };
    let client = node.pod(1);
    for service in services(80) {
        for proto in [TCP, UDP] {
            node.serve_set(service, proto, &[], frontend_flags::LOCAL, 0);
        }
        assert_eq!(client.ask(service).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        assert_eq!(talk(&client.connect(service)).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    }
    assert_eq!(node.drops(Reason::NoLocalEndpoints, Direction::Egress), 4);
    assert_eq!(node.drops(Reason::NoEndpoints, Direction::Egress), 0);
    assert_eq!(node.events()[0].reason, Reason::NoLocalEndpoints as u8);
}

#[test]
fn a_pod_reaches_node_ports_at_addresses_of_nodes() {
    let Some(node) = Node::new() else { return };
    let (client, server) = (node.pod(1), node.pod(2));
    let maps = node.dataplane.maps();
    let mut config = maps.config.get().unwrap();
    (config.node_port_first, config.node_port_last) = (30_000, 32_767);
    maps.config.set(&config).unwrap();
    for (i, (own, any)) in [(NODE4, "0.0.0.0"), (NODE6, "::")].into_iter().enumerate() {
        let at = |addr: &str, port| SocketAddr::new(addr.parse().unwrap(), port);
        let backend = server.tcp_server(server.addrs[i]);
        node.serve_set(at(any, 30_080), TCP, &[(1 + i as u32, backend)], 0, 0);
        // The node itself has nothing there, and is not asked as long as it is not known as a node.
        assert_eq!(client.ask(at(own, 30_080)).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let addr = Addr::from(own.parse::<IpAddr>().unwrap());
        maps.node_addrs.set(&addr, &NodeAddr { flags: node_addr_flags::LOCAL }).unwrap();
        let (_, _, peer) = client.ask(at(own, 30_080)).unwrap();
        assert_eq!(peer, at(own, 30_080));
        maps.node_addrs.set(&addr, &NodeAddr { flags: node_addr_flags::HOST_ONLY }).unwrap();
        assert_eq!(client.ask(at(own, 30_080)).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    }
}

#[test]
fn each_connection_is_counted_once() {
    let Some(node) = Node::new() else { return };
    let (client, server) = (node.pod(1), node.pod(2));
    let [stream, _] = services(80);
    let [datagram, _] = services(53);
    node.serve_set(stream, TCP, &[(1, server.tcp_server(server.addrs[0]))], 0, 0);
    node.serve_set(datagram, UDP, &[(2, server.udp_server(server.addrs[0]))], 0, 0);
    for _ in 0..5 {
        client.ask(stream).unwrap();
    }
    let socket = client.connect(datagram);
    for _ in 0..5 {
        talk(&socket).unwrap();
    }
    assert_eq!(node.dataplane.maps().service_hits.totals().unwrap(), [(1, 5), (2, 1)]);
}
