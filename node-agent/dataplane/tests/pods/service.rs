use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use skep_abi::{Direction, Reason};

use crate::world::{Node, TCP, UDP, VIPS, exchange};

fn services(port: u16) -> [SocketAddr; 2] {
    VIPS.map(|vip| SocketAddr::new(vip.parse().unwrap(), port))
}

#[test]
fn a_tcp_connection_is_translated_both_ways_and_the_server_sees_the_client() {
    let Some(node) = Node::new() else { return };
    let (client, server) = (node.pod(1), node.pod(2));
    for (i, service) in services(80).into_iter().enumerate() {
        node.serve(service, TCP, &[server.tcp_server(server.addrs[i])]);
        let (seen, local, peer) = client.ask(service).unwrap();
        assert_eq!(seen, local.to_string());
        assert_eq!((local.ip(), peer), (client.addrs[i], service));
    }
}

#[test]
fn datagrams_are_translated_both_ways_and_the_server_sees_the_client() {
    let Some(node) = Node::new() else { return };
    let (client, server) = (node.pod(1), node.pod(2));
    for (i, service) in services(53).into_iter().enumerate() {
        node.serve(service, UDP, &[server.udp_server(server.addrs[i])]);
        let (reply, from, port) = client.send(service, 3).unwrap();
        assert_eq!(reply, format!("{} 3", SocketAddr::new(client.addrs[i], port)));
        assert_eq!(from, service);
    }
}

#[test]
fn connections_spread_and_a_datagram_socket_stays_with_its_backend_while_it_is_there() {
    let Some(node) = Node::new() else { return };
    let (client, one, two) = (node.pod(1), node.pod(2), node.pod(3));
    let [service, _] = services(53);
    let backends = [one.udp_server(one.addrs[0]), two.udp_server(two.addrs[0])];
    node.serve(service, UDP, &backends);
    let flows = |local: IpAddr| {
        let entries = node.dataplane.maps().conntrack.iter().unwrap();
        let reached = entries.into_iter().filter(|(key, _)| key.kind == 0 && key.local == local.into());
        reached.map(|(key, _)| IpAddr::from(key.remote)).collect::<BTreeSet<_>>()
    };
    let socket = client.run(move || {
        let socket = UdpSocket::bind("10.244.1.1:0").unwrap();
        for _ in 0..20 {
            exchange(&socket, service, 1).unwrap();
        }
        socket
    });
    let first: Vec<IpAddr> = flows(client.addrs[0]).into_iter().collect();
    assert_eq!(first.len(), 1, "one socket, one backend");
    // Its backend goes: the very socket moves on.
    let rest: Vec<SocketAddr> = backends.into_iter().filter(|backend| backend.ip() != first[0]).collect();
    node.serve(service, UDP, &rest);
    client.run(move || exchange(&socket, service, 1).unwrap());
    assert_eq!(flows(client.addrs[0]).len(), 2);
    node.serve(service, UDP, &backends);
    for _ in 0..30 {
        client.send(service, 1).unwrap();
    }
    assert!(flows(one.addrs[0]).contains(&client.addrs[0]) && flows(two.addrs[0]).contains(&client.addrs[0]));
}

#[test]
fn a_service_without_endpoints_refuses_at_once() {
    let Some(node) = Node::new() else { return };
    let client = node.pod(1);
    for service in services(80) {
        node.serve(service, TCP, &[]);
        node.serve(service, UDP, &[]);
        let start = Instant::now();
        assert_eq!(client.ask(service).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let error = client.run(move || {
            let socket = UdpSocket::bind(if service.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            socket.connect(service).unwrap();
            socket.send(b"?").unwrap();
            socket.recv(&mut [0; 10]).unwrap_err()
        });
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{service}");
        assert!(start.elapsed() < Duration::from_millis(500));
    }
    assert_eq!(node.drops(Reason::NoEndpoints, Direction::Egress), 4);
    let event = node.events()[0];
    assert_eq!((event.reason, event.endpoint, event.local), (Reason::NoEndpoints as u8, 101, client.addrs[0].into()));
}

#[test]
fn a_pod_reaches_itself_through_its_service() {
    let Some(node) = Node::new() else { return };
    let pod = node.pod(1);
    for (i, service) in services(80).into_iter().enumerate() {
        node.serve(service, TCP, &[pod.tcp_server(pod.addrs[i])]);
        node.serve(service, UDP, &[pod.udp_server(pod.addrs[i])]);
        let (seen, local, peer) = pod.ask(service).unwrap();
        // The Service's address stands in for the pod's own, which the pod would not accept from outside.
        assert_eq!(seen, SocketAddr::new(service.ip(), local.port()).to_string());
        assert_eq!((local.ip(), peer), (pod.addrs[i], service));
        let (reply, from, port) = pod.send(service, 5).unwrap();
        assert_eq!(reply, format!("{} 5", SocketAddr::new(service.ip(), port)));
        assert_eq!(from, service);
    }
}

#[test]
fn one_socket_reaches_two_services_with_one_backend_in_turn() {
    let Some(node) = Node::new() else { return };
    let (client, server) = (node.pod(1), node.pod(2));
    let backend = server.udp_server(server.addrs[0]);
    let (one, two) = ("10.96.0.1:53".parse().unwrap(), "10.96.0.2:53".parse().unwrap());
    node.serve(one, UDP, &[backend]);
    node.serve(two, UDP, &[backend]);
    client.run(move || {
        let socket = UdpSocket::bind("10.244.1.1:0").unwrap();
        assert_eq!(exchange(&socket, one, 1).unwrap().1, one);
        // One source port towards one backend: the answers belong to what was asked last.
        assert_eq!(exchange(&socket, two, 1).unwrap().1, two);
        assert_eq!(exchange(&socket, one, 1).unwrap().1, one);
    });
    assert_eq!(node.drops(Reason::SourceCollision, Direction::Egress), 0);
    // With another backend both are known at once.
    let other = server.udp_server(server.addrs[0]);
    node.serve(two, UDP, &[backend, other]);
    client.run(move || {
        let socket = UdpSocket::bind("10.244.1.1:0").unwrap();
        for _ in 0..5 {
            assert_eq!(exchange(&socket, one, 1).unwrap().1, one);
        }
    });
}

#[test]
fn a_long_stream_arrives_whole() {
    let Some(node) = Node::new() else { return };
    let (client, server) = (node.pod(1), node.pod(2));
    // The path to the server is narrower than the client knows: it has to learn that from an ICMP error that quotes what
    // was translated.
    crate::world::ip("link set pod2 mtu 1300");
    for (i, service) in services(80).into_iter().enumerate() {
        let addr = server.addrs[i];
        let (listener, backend) = server.run(move || {
            let listener = TcpListener::bind((addr, 0)).unwrap();
            let local = listener.local_addr().unwrap();
            (listener, local)
        });
        node.serve(service, TCP, &[backend]);
        let receiver = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut received = Vec::new();
            stream.read_to_end(&mut received).unwrap();
            received
        });
        let sent: Vec<u8> = (0..8_000_000_u32).map(|i| (i ^ (i >> 9)) as u8).collect();
        let copy = sent.clone();
        client.run(move || {
            let mut stream = TcpStream::connect(service).unwrap();
            stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
            stream.write_all(&copy).unwrap();
        });
        assert!(receiver.join().unwrap() == sent, "{service}");
    }
}
