use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::process::Command;

use skep_abi::{Counter, Direction, Reason, nat_flags};

use crate::lan::{Lan, MASQUERADE, Place, TCP, UDP, any};
use crate::machine::{Machine, exchange};

#[test]
fn when_every_port_is_in_use_connections_fail_and_are_counted() {
    let Some(lan) = Lan::with(|config| (config.snat_port_first, config.snat_port_last) = (40_000, 40_003)) else {
        return;
    };
    let pod = lan.nodes[1].pod(1);
    for v6 in [false, true] {
        let server = pod.tcp_server((pod.addr(v6), 0).into());
        lan.serve(any(v6), TCP, 0, &[Place::pod(1, server)]);
        let port = lan.node_port(0, v6);
        let (mut held, mut ports): (Vec<_>, Vec<_>) = (0..4).map(|_| lan.client.connect(port).unwrap()).unzip();
        ports.sort_unstable_by_key(SocketAddr::port);
        assert_eq!(ports.iter().map(SocketAddr::port).collect::<Vec<_>>(), [40_000, 40_001, 40_002, 40_003]);
        let before = lan.nodes[0].count(Counter::SnatExhausted);
        assert_eq!(lan.client.ask(port).unwrap_err().kind(), ErrorKind::TimedOut);
        assert!(lan.nodes[0].count(Counter::SnatExhausted) > before);
        assert!(lan.nodes[0].drops(Reason::NatExhausted, Direction::Ingress) > before);
        for conversation in &mut held {
            conversation.go_on().unwrap();
        }
        // Another backend, another space of ports.
        let other = pod.tcp_server((pod.addr(v6), 0).into());
        lan.serve(any(v6), TCP, 0, &[Place::pod(1, other)]);
        lan.client.ask(port).unwrap();
    }
    assert_eq!(lan.nodes[0].count(Counter::SnatAllocated), 10);
    assert!(lan.nodes[0].count(Counter::SnatRetried) > 0);
}

#[test]
fn ports_of_sockets_of_the_host_are_not_allocated() {
    let Some(lan) = Lan::with(|config| {
        config.flags = MASQUERADE;
        (config.snat_port_first, config.snat_port_last) = (40_000, 40_001);
    }) else {
        return;
    };
    let (pod, node) = (lan.nodes[0].pod(1), &lan.nodes[0].machine);
    let server = lan.client.udp_server((lan.client.addr(false), 0).into());
    let own = node.run(move || UdpSocket::bind("192.0.2.1:40000").unwrap());
    let asked = pod.run(move || {
        let socket = UdpSocket::bind("10.244.1.1:0").unwrap();
        exchange(&socket, server, 1).unwrap().0
    });
    assert_eq!(asked, "192.0.2.1:40001 1");
    assert_eq!(node.run(move || exchange(&own, server, 1).unwrap().0), "192.0.2.1:40000 1");
    // Listeners, too.
    let _listener = node.run(|| TcpListener::bind("0.0.0.0:40001").unwrap());
    let server = lan.client.tcp_server((lan.client.addr(false), 0).into());
    assert_eq!(pod.connect(server).unwrap().1.port(), 40_000);
}

#[test]
fn a_socket_of_the_host_that_comes_later_gets_another_port() {
    let Some(lan) = Lan::with(|config| {
        config.flags = MASQUERADE;
        (config.snat_port_first, config.snat_port_last) = (40_000, 40_001);
    }) else {
        return;
    };
    let (pod, node) = (lan.nodes[0].pod(1), &lan.nodes[0].machine);
    let server = lan.client.udp_server((lan.client.addr(false), 0).into());
    let (socket, seen) = pod.run(move || {
        let socket = UdpSocket::bind("10.244.1.1:0").unwrap();
        let seen = exchange(&socket, server, 1).unwrap().0;
        (socket, seen.split_once(' ').unwrap().0.parse::<SocketAddr>().unwrap())
    });
    let other = if seen.port() == 40_000 { 40_001 } else { 40_000 };
    let of_host = node.run(move || {
        let socket = UdpSocket::bind(("192.0.2.1", seen.port())).unwrap();
        [(); 2].map(|()| exchange(&socket, server, 1).unwrap().0)
    });
    let wanted = format!("192.0.2.1:{other} 1");
    assert_eq!(of_host, [wanted.clone(), wanted]);
    assert_eq!(pod.run(move || exchange(&socket, server, 1).unwrap().0), format!("{seen} 1"));
}

#[test]
fn what_others_masquerade_on_the_node_gets_another_port_than_a_flow_has() {
    let Some(lan) = Lan::new(MASQUERADE) else { return };
    let (pod, node) = (lan.nodes[0].pod(1), &lan.nodes[0].machine);
    let guest = Machine::new(["10.99.0.2", "fd99::2"]);
    let thread = guest.thread();
    node.ip(&format!("link add guest type veth peer name eth0 netns {thread}"));
    node.ip("link set guest up");
    node.ip("addr add 10.99.0.1/24 dev guest");
    guest.ip("link set eth0 up");
    guest.ip("addr add 10.99.0.2/24 dev eth0");
    guest.ip("route add default via 10.99.0.1");
    let rules = "add table ip others; add chain ip others out { type nat hook postrouting priority 100; }; \
                 add rule ip others out ip saddr 10.99.0.0/24 masquerade";
    node.run(move || assert!(Command::new("nft").arg(rules).status().unwrap().success()));
    let server = lan.client.udp_server((lan.client.addr(false), 0).into());
    let (socket, seen) = pod.run(move || {
        let socket = UdpSocket::bind("10.244.1.1:0").unwrap();
        let seen = exchange(&socket, server, 1).unwrap().0;
        (socket, seen.split_once(' ').unwrap().0.parse::<SocketAddr>().unwrap())
    });
    // The rules keep the guest's own port where they can.
    let of_guest = guest.run(move || {
        let socket = UdpSocket::bind(("10.99.0.2", seen.port())).unwrap();
        [(); 2].map(|()| exchange(&socket, server, 1).unwrap().0)
    });
    assert!(of_guest[0].starts_with("192.0.2.1:"), "{of_guest:?}");
    assert!(!of_guest[0].starts_with(&seen.to_string()), "{of_guest:?}");
    assert_eq!(of_guest[0], of_guest[1]);
    assert_eq!(pod.run(move || exchange(&socket, server, 1).unwrap().0), format!("{seen} 1"));
}

#[test]
fn forty_thousand_connections_of_one_client_to_one_backend_have_each_a_port() {
    let Some(lan) = Lan::new(0) else { return };
    let pod = lan.nodes[1].pod(1);
    let backend = SocketAddr::new(pod.addr(false), 80);
    lan.serve(any(false), TCP, 0, &[Place::pod(1, backend)]);
    let dataplane = std::sync::Arc::clone(&lan.nodes[0].dataplane);
    lan.nodes[0].machine.run(move || {
        for port in 10_000_u16..50_000 {
            dataplane.try_uplink_packet(Direction::Ingress, &syn(port), 1).unwrap();
        }
    });
    let node = &lan.nodes[0];
    let entries = node.dataplane.maps().nat.iter().unwrap();
    let forward = entries.iter().filter(|(_, value)| value.flags == nat_flags::FORWARD | nat_flags::SNAT);
    let mut ports: Vec<u16> = forward.map(|(_, value)| u16::from_be(value.src_port_be)).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!((ports.len(), entries.len()), (40_000, 80_000));
    assert!(ports.iter().all(|port| *port >= 1024 && !(30_000..=32_767).contains(port)));
    assert_eq!([Counter::SnatAllocated, Counter::SnatExhausted].map(|counter| node.count(counter)), [40_000, 0]);
    assert_eq!(node.drops(Reason::NatExhausted, Direction::Ingress), 0);
}

/// The first segment of a connection from the client to the first node's port.
fn syn(port: u16) -> Vec<u8> {
    // Test runs happen on the loopback interface, whose address is zero.
    let mut frame = vec![0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 100, 8, 0];
    frame.extend([0x45, 0, 0, 40, 0, 7, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, 100, 192, 0, 2, 1]);
    frame.extend(port.to_be_bytes());
    frame.extend(crate::lan::NODE_PORT.to_be_bytes());
    frame.extend([0, 0, 0x10, 0, 0, 0, 0, 0, 5 << 4, 2, 0xff, 0xff, 0, 0, 0, 0]);
    frame
}

#[test]
fn datagrams_of_one_socket_stay_with_one_port() {
    let Some(lan) = Lan::new(0) else { return };
    let pod = lan.nodes[1].pod(1);
    let server = pod.udp_server((pod.addr(false), 0).into());
    lan.serve(any(false), UDP, 0, &[Place::pod(1, server)]);
    let port = lan.node_port(0, false);
    let seen = lan.client.run(move || {
        let socket = UdpSocket::bind("192.0.2.100:0").unwrap();
        [(); 5].map(|()| exchange(&socket, port, 1).unwrap().0)
    });
    assert!(seen.iter().all(|reply| *reply == seen[0]), "{seen:?}");
}
