use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use skep_abi::{Counter, Direction, Reason, SourceRangeKey, frontend_flags};

use crate::lan::{Lan, NODE_PORT, Place, TCP, UDP, any};
use crate::machine::datagram_error;

#[test]
fn a_node_port_leads_to_a_pod_here_and_the_pod_sees_the_client() {
    let Some(lan) = Lan::new(0) else { return };
    let pod = lan.nodes[0].pod(1);
    for v6 in [false, true] {
        let port = lan.node_port(0, v6);
        lan.serve(any(v6), TCP, 0, &[Place::pod(0, pod.tcp_server((pod.addr(v6), 0).into()))]);
        lan.serve(any(v6), UDP, 0, &[Place::pod(0, pod.udp_server((pod.addr(v6), 0).into()))]);
        let (mut conversation, seen) = lan.client.connect(port).unwrap();
        assert_eq!(seen.ip(), lan.client.addr(v6));
        conversation.go_on().unwrap();
        assert_eq!(lan.client.send(port, 9).unwrap(), (lan.client.addr(v6), port));
    }
    assert_eq!(lan.nodes[0].count(Counter::ExternalConnections), 4);
    assert_eq!(lan.nodes[0].count(Counter::SnatAllocated), 0);
    let hits: u64 = lan.nodes[0].dataplane.maps().service_hits.totals().unwrap().iter().map(|(_, hits)| hits).sum();
    assert_eq!(hits, 4);
}

#[test]
fn a_node_port_leads_to_a_pod_elsewhere_and_the_pod_sees_the_node() {
    let Some(lan) = Lan::new(0) else { return };
    let pod = lan.nodes[1].pod(1);
    for v6 in [false, true] {
        let port = lan.node_port(0, v6);
        lan.serve(any(v6), TCP, 0, &[Place::pod(1, pod.tcp_server((pod.addr(v6), 0).into()))]);
        lan.serve(any(v6), UDP, 0, &[Place::pod(1, pod.udp_server((pod.addr(v6), 0).into()))]);
        let (mut conversation, seen) = lan.client.connect(port).unwrap();
        assert_eq!(seen.ip(), lan.nodes[0].machine.addr(v6));
        conversation.go_on().unwrap();
        assert_eq!(lan.client.send(port, 9).unwrap(), (lan.nodes[0].machine.addr(v6), port));
        // Fragments, of which only the first has the ports.
        assert_eq!(lan.client.send(port, 4000).unwrap(), (lan.nodes[0].machine.addr(v6), port));
    }
    assert_eq!(lan.nodes[0].count(Counter::SnatAllocated), 6);
}

#[test]
fn processes_of_the_host_serve_here_and_elsewhere() {
    let Some(lan) = Lan::new(0) else { return };
    for v6 in [false, true] {
        for node in [0, 1] {
            let machine = &lan.nodes[node].machine;
            let port = lan.node_port(0, v6);
            let place = |addr| Place { addr, node, host: true };
            lan.serve(any(v6), TCP, 0, &[place(machine.tcp_server((machine.addr(v6), 0).into()))]);
            lan.serve(any(v6), UDP, 0, &[place(machine.udp_server((machine.addr(v6), 0).into()))]);
            let seen = if node == 0 { lan.client.addr(v6) } else { lan.nodes[0].machine.addr(v6) };
            assert_eq!(lan.client.ask(port).unwrap(), seen);
            assert_eq!(lan.client.send(port, 9).unwrap(), (seen, port));
        }
    }
}

#[test]
fn only_clients_of_the_source_ranges_get_in() {
    let Some(lan) = Lan::new(0) else { return };
    let pod = lan.nodes[0].pod(1);
    for (v6, range) in [(false, "192.0.2.96"), (true, "2001:db8::100")] {
        let server = pod.tcp_server((pod.addr(v6), 0).into());
        let service = lan.serve(any(v6), TCP, frontend_flags::SOURCE_RANGES, &[Place::pod(0, server)]);
        let ranges = &lan.nodes[0].dataplane.maps().source_ranges;
        let before = lan.nodes[0].drops(Reason::SourceRange, Direction::Ingress);
        assert_eq!(lan.client.ask(lan.node_port(0, v6)).unwrap_err().kind(), ErrorKind::TimedOut);
        assert!(lan.nodes[0].drops(Reason::SourceRange, Direction::Ingress) > before);
        let key = SourceRangeKey { service, addr: range.parse::<std::net::IpAddr>().unwrap().into() };
        ranges.set(SourceRangeKey::BASE_BITS + if v6 { 120 } else { 96 + 29 }, &key, &1).unwrap();
        assert_eq!(lan.client.ask(lan.node_port(0, v6)).unwrap(), lan.client.addr(v6));
    }
}

#[test]
fn a_service_without_endpoints_refuses_at_once() {
    let Some(lan) = Lan::new(0) else { return };
    for v6 in [false, true] {
        lan.serve(any(v6), TCP, 0, &[]);
        lan.serve(any(v6), UDP, 0, &[]);
        let port = lan.node_port(0, v6);
        assert_eq!(lan.client.ask(port).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        assert_eq!(datagram_error(&lan.client, port).kind(), ErrorKind::ConnectionRefused);
    }
    assert_eq!(lan.nodes[0].drops(Reason::NoEndpoints, Direction::Ingress), 4);
}

#[test]
fn one_client_port_reaches_one_backend_by_two_addresses_only_when_answers_can_be_told_apart() {
    let Some(lan) = Lan::new(0) else { return };
    let (here, there) = (lan.nodes[0].pod(1), lan.nodes[1].pod(1));
    let ports: [SocketAddr; 2] = [30_081, 30_082].map(|port| (lan.nodes[0].machine.addr(false), port).into());
    let two_from_one = |ports: [SocketAddr; 2]| {
        lan.client.run(move || {
            let socket = std::net::UdpSocket::bind("192.0.2.100:0").unwrap();
            ports.map(|port| crate::machine::exchange(&socket, port, 1).map(|(_, from)| from).ok())
        })
    };
    let remote = there.udp_server((there.addr(false), 0).into());
    for port in ports {
        lan.serve(SocketAddr::new("0.0.0.0".parse().unwrap(), port.port()), UDP, 0, &[Place::pod(1, remote)]);
    }
    assert_eq!(two_from_one(ports), ports.map(Some));
    let local = here.udp_server((here.addr(false), 0).into());
    for port in ports {
        lan.serve(SocketAddr::new("0.0.0.0".parse().unwrap(), port.port()), UDP, 0, &[Place::pod(0, local)]);
    }
    assert_eq!(two_from_one(ports), [Some(ports[0]), None]);
    assert_eq!(lan.nodes[0].drops(Reason::SourceCollision, Direction::Ingress), 1);
    // With another backend there is a way.
    let other = here.udp_server((here.addr(false), 0).into());
    for port in ports {
        let places = [Place::pod(0, local), Place::pod(0, other)];
        lan.serve(SocketAddr::new("0.0.0.0".parse().unwrap(), port.port()), UDP, 0, &places);
    }
    for _ in 0..5 {
        assert_eq!(two_from_one(ports), ports.map(Some));
    }
}

#[test]
fn a_client_port_is_used_again_after_the_end_of_a_connection() {
    let Some(lan) = Lan::new(0) else { return };
    let (here, there) = (lan.nodes[0].pod(1), lan.nodes[1].pod(1));
    for (node, pod) in [(0, &here), (1, &there)] {
        let server = pod.tcp_server((pod.addr(false), 0).into());
        lan.serve(any(false), TCP, 0, &[Place::pod(node, server)]);
        for port in [NODE_PORT, NODE_PORT] {
            let server: SocketAddr = (lan.nodes[0].machine.addr(false), port).into();
            lan.client.run(move || {
                let socket = bound_stream(40_000 + node as u16);
                let stream = connect(socket, server);
                let (mut conversation, _) = crate::machine::Conversation::begin(stream).unwrap();
                conversation.go_on().unwrap();
            });
        }
    }
}

/// A TCP socket with a port of its own, which is free again at once.
fn bound_stream(port: u16) -> std::os::fd::OwnedFd {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, setsockopt, socket, sockopt};
    use std::os::fd::AsRawFd as _;
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::empty(), None).unwrap();
    setsockopt(&socket, sockopt::ReuseAddr, &true).unwrap();
    // Closing resets the connection: no TIME_WAIT holds the port.
    setsockopt(&socket, sockopt::Linger, &nix::libc::linger { l_onoff: 1, l_linger: 0 }).unwrap();
    bind(socket.as_raw_fd(), &SockaddrIn::new(192, 0, 2, 100, port)).unwrap();
    socket
}

fn connect(socket: std::os::fd::OwnedFd, server: SocketAddr) -> TcpStream {
    use std::os::fd::AsRawFd as _;
    let SocketAddr::V4(server) = server else { panic!("IPv4 is wanted") };
    nix::sys::socket::connect(socket.as_raw_fd(), &nix::sys::socket::SockaddrIn::from(server)).unwrap();
    TcpStream::from(socket)
}

#[test]
fn a_long_stream_arrives_whole_and_back() {
    use std::io::{Read as _, Write as _};
    let Some(lan) = Lan::new(0) else { return };
    let (here, there) = (lan.nodes[0].pod(1), lan.nodes[1].pod(1));
    // The path to the pods is narrower than the client knows.
    lan.nodes[0].machine.ip("link set pod1 mtu 1300");
    lan.nodes[1].machine.ip("link set pod1 mtu 1300");
    for v6 in [false, true] {
        for (node, pod) in [(0, &here), (1, &there)] {
            let addr = pod.addr(v6);
            let listener = pod.run(move || TcpListener::bind((addr, 0)).unwrap());
            lan.serve(any(v6), TCP, 0, &[Place::pod(node, listener.local_addr().unwrap())]);
            let receiver = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut received = vec![0; 4_000_000];
                stream.read_exact(&mut received).unwrap();
                stream.write_all(&received).unwrap();
            });
            let server = lan.node_port(0, v6);
            lan.client.run(move || {
                let sent: Vec<u8> = (0..4_000_000_u32).map(|i| (i ^ (i >> 9)) as u8).collect();
                let mut stream = TcpStream::connect(server).unwrap();
                stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
                stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                stream.write_all(&sent).unwrap();
                let mut back = vec![0; sent.len()];
                stream.read_exact(&mut back).unwrap();
                assert!(back == sent, "{server}");
            });
            receiver.join().unwrap();
        }
    }
}
