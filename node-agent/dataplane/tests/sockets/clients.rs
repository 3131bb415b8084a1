//! Who the client is makes a difference: the host, or a pod.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream, UdpSocket};

use skep_abi::{Addr, FrontendKey, NodeAddr, config_flags, node_addr_flags};
use skep_dataplane::Dataplane;

use crate::datagram::{client, echo_server as datagram_server, receive};
use crate::stream::{ask, echo_server};
use crate::world::{TCP, UDP, World, configure, frontend_key, netns_cookie, serve};

/// Makes this namespace the host's, or another's.
fn play_host(dataplane: &Dataplane, host: bool) {
    configure(dataplane, |config| config.host_netns = if host { netns_cookie() } else { netns_cookie() + 1 });
}

#[test]
fn a_pods_connected_datagram_socket_is_left_to_the_packet_programs_and_the_hosts_is_not() {
    let Some(world) = World::new() else { return };
    let dataplane = world.open();
    let service: SocketAddr = "10.96.0.53:53".parse().unwrap();
    let backend = datagram_server("10.244.1.2:0");
    serve(&dataplane, service, UDP, &[backend]);
    let origins = || dataplane.maps().origins.iter().unwrap();
    play_host(&dataplane, false);
    // There has to be a way to the Service's address, as there is in a pod.
    crate::world::ip("route add default dev lo");
    let socket = client("0.0.0.0:0");
    socket.connect(service).unwrap();
    assert_eq!((socket.peer_addr().unwrap(), origins()), (service, vec![]));
    // What is not connected is translated for pods, too.
    let socket = client("0.0.0.0:0");
    socket.send_to(b"?", service).unwrap();
    assert_eq!(receive(&socket), (backend.to_string(), service));
    // And TCP.
    let stream: SocketAddr = "10.96.0.54:80".parse().unwrap();
    let server = echo_server("10.244.1.2:0");
    serve(&dataplane, stream, TCP, &[server]);
    assert_eq!(ask(stream).1, server.to_string());
    let connected = || {
        let socket = client("0.0.0.0:0");
        socket.connect(service).unwrap();
        assert_eq!(socket.peer_addr().unwrap(), service);
        socket.send(b"?").unwrap();
        assert_eq!(receive(&socket), (backend.to_string(), service));
    };
    // Packet programs that do not translate leave it to the sockets.
    configure(&dataplane, |config| config.flags |= config_flags::NO_TC_SERVICES);
    connected();
    configure(&dataplane, |config| config.flags = 0);
    play_host(&dataplane, true);
    connected();
}

#[test]
fn translations_name_the_network_namespace_of_their_socket() {
    let Some(world) = World::new() else { return };
    let dataplane = world.open();
    let service: SocketAddr = "10.96.0.53:53".parse().unwrap();
    serve(&dataplane, service, UDP, &[datagram_server("10.244.1.2:0")]);
    let socket = client("0.0.0.0:0");
    socket.send_to(b"?", service).unwrap();
    let origins = dataplane.maps().origins.iter().unwrap();
    assert_eq!(origins.iter().map(|(_, origin)| origin.netns).collect::<Vec<_>>(), [netns_cookie()]);
}

/// Makes a port a node port with one backend, and gives the backend.
fn node_port(dataplane: &Dataplane, port: u16, any: &str, backend: &str) -> SocketAddr {
    configure(dataplane, |config| (config.node_port_first, config.node_port_last) = (30_000, 32_767));
    let backend = echo_server(backend);
    serve(dataplane, SocketAddr::new(any.parse().unwrap(), port), TCP, &[backend]);
    backend
}

#[test]
fn node_ports_are_on_every_address_of_a_node_and_on_loopback_for_the_host_only() {
    let Some(world) = World::new() else { return };
    let dataplane = world.open();
    let families = [
        ("0.0.0.0", "10.244.1.2:0", "192.0.2.7", "127.0.0.1", FrontendKey::ANY4),
        ("::", "[fd00:244::2]:0", "2001:db8::7", "::1", FrontendKey::ANY6),
    ];
    for (any, backend, node, loopback, key) in families {
        assert_eq!(Addr::from(any.parse::<std::net::IpAddr>().unwrap()), key);
        let backend = node_port(&dataplane, 30_080, any, backend).to_string();
        let addrs = &dataplane.maps().node_addrs;
        let at = |addr: &str| -> (SocketAddr, Addr) {
            let ip: std::net::IpAddr = addr.parse().unwrap();
            (SocketAddr::new(ip, 30_080), ip.into())
        };
        let ((node, node_key), (loopback, loopback_key)) = (at(node), at(loopback));
        addrs.set(&node_key, &NodeAddr { flags: 0 }).unwrap();
        let flags = node_addr_flags::LOCAL | node_addr_flags::HOST_ONLY;
        addrs.set(&loopback_key, &NodeAddr { flags }).unwrap();
        for host in [true, false] {
            play_host(&dataplane, host);
            assert_eq!(ask(node).1, backend);
            if host {
                assert_eq!(ask(loopback).1, backend);
            } else {
                assert_eq!(TcpStream::connect(loopback).unwrap_err().kind(), ErrorKind::ConnectionRefused);
            }
        }
        // The peer is the address that was asked for, and other addresses have no node ports.
        assert_eq!(ask(node).0.peer_addr().unwrap(), node);
        let stranger = if node.is_ipv4() { "203.0.113.1:30080" } else { "[2001:db8:1::1]:30080" };
        assert_eq!(TcpStream::connect(stranger).unwrap_err().kind(), ErrorKind::NetworkUnreachable);
    }
}

#[test]
fn an_entry_for_the_very_address_comes_before_the_node_port_and_ports_out_of_the_range_are_none() {
    let Some(world) = World::new() else { return };
    let dataplane = world.open();
    node_port(&dataplane, 30_080, "0.0.0.0", "10.244.1.2:0");
    let node: SocketAddr = "192.0.2.7:30080".parse().unwrap();
    dataplane.maps().node_addrs.set(&node.ip().into(), &NodeAddr { flags: node_addr_flags::LOCAL }).unwrap();
    let exact = echo_server("10.244.1.2:0");
    serve(&dataplane, node, TCP, &[exact]);
    assert_eq!(ask(node).1, exact.to_string());
    dataplane.maps().frontends.remove(&frontend_key(node, TCP)).unwrap();
    assert_ne!(ask(node).1, exact.to_string());
    configure(&dataplane, |config| config.node_port_first = 30_081);
    assert_eq!(TcpStream::connect(node).unwrap_err().kind(), ErrorKind::NetworkUnreachable);
    // A datagram socket is not taken by a port of TCP.
    configure(&dataplane, |config| config.node_port_first = 30_000);
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    assert_eq!(socket.connect(node).unwrap_err().kind(), ErrorKind::NetworkUnreachable);
}
