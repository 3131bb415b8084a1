use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use crate::world::{UDP, World, mapped, pending_error, serve};

const V4: &str = "10.96.0.53:53";
const V6: &str = "[fd53:6b65::53]:53";

/// A server that answers each datagram with the address that it listens on.
pub(crate) fn echo_server(bind: &str) -> SocketAddr {
    let socket = UdpSocket::bind(bind).unwrap();
    let addr = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 64];
        while let Ok((_, from)) = socket.recv_from(&mut buffer) {
            socket.send_to(addr.to_string().as_bytes(), from).unwrap();
        }
    });
    addr
}

pub(crate) fn client(bind: &str) -> UdpSocket {
    let socket = UdpSocket::bind(bind).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    socket
}

pub(crate) fn receive(socket: &UdpSocket) -> (String, SocketAddr) {
    let mut buffer = [0; 64];
    let (len, from) = socket.recv_from(&mut buffer).unwrap();
    (String::from_utf8(buffer[..len].to_vec()).unwrap(), from)
}

/// Service, where its backend binds, where the client binds.
const FAMILIES: [(&str, &str, &str); 2] = [(V4, "10.244.1.2:0", "0.0.0.0:0"), (V6, "[fd00:244::2]:0", "[::]:0")];

#[test]
fn an_unconnected_socket_is_answered_by_the_service() {
    let Some(world) = World::new() else { return };
    let dataplane = world.open();
    for (service, backend, local) in FAMILIES {
        let (service, backend): (SocketAddr, _) = (service.parse().unwrap(), echo_server(backend));
        serve(&dataplane, service, UDP, &[backend]);
        let socket = client(local);
        socket.send_to(b"?", service).unwrap();
        assert_eq!(receive(&socket), (backend.to_string(), service));
    }
}

#[test]
fn a_connected_socket_is_answered_by_the_service() {
    let Some(world) = World::new() else { return };
    let dataplane = world.open();
    for (service, backend, local) in FAMILIES {
        let (service, backend): (SocketAddr, _) = (service.parse().unwrap(), echo_server(backend));
        serve(&dataplane, service, UDP, &[backend]);
        let socket = client(local);
        socket.connect(service).unwrap();
        assert_eq!(socket.peer_addr().unwrap(), service);
        socket.send(b"?").unwrap();
        assert_eq!(receive(&socket), (backend.to_string(), service));
    }
}

#[test]
fn an_ipv6_socket_talks_to_an_ipv4_service_by_its_mapped_address() {
    let Some(world) = World::new() else { return };
    let dataplane = world.open();
    let (service, backend): (SocketAddr, _) = (V4.parse().unwrap(), echo_server("10.244.1.2:0"));
    serve(&dataplane, service, UDP, &[backend]);
    let socket = client("[::]:0");
    socket.send_to(b"?", mapped(service)).unwrap();
    assert_eq!(receive(&socket), (backend.to_string(), mapped(service)));
    socket.connect(mapped(service)).unwrap();
    assert_eq!(socket.peer_addr().unwrap(), mapped(service));
    socket.send(b"?").unwrap();
    assert_eq!(receive(&socket), (backend.to_string(), mapped(service)));
}

#[test]
fn all_datagrams_of_a_socket_go_to_one_backend_and_sockets_spread() {
    let Some(world) = World::new() else { return };
    let dataplane = world.open();
    let service: SocketAddr = V4.parse().unwrap();
    let backends = [(); 3].map(|()| echo_server("10.244.1.2:0"));
    serve(&dataplane, service, UDP, &backends);
    let mut reached = std::collections::BTreeSet::new();
    for _ in 0..40 {
        let socket = client("0.0.0.0:0");
        let replies = [(); 5].map(|()| {
            socket.send_to(b"?", service).unwrap();
            receive(&socket).0
        });
        assert!(replies.iter().all(|reply| *reply == replies[0]), "{replies:?}");
        reached.insert(replies[0].clone());
    }
    assert_eq!(reached.len(), 3);
}

#[test]
fn a_service_without_endpoints_refuses_at_once() {
    let Some(world) = World::new() else { return };
    let dataplane = world.open();
    for (service, _, local) in FAMILIES {
        let service: SocketAddr = service.parse().unwrap();
        serve(&dataplane, service, UDP, &[]);
        let socket = client(local);
        assert_eq!(socket.send_to(b"?", service).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        assert_eq!(socket.connect(service).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        assert_eq!(pending_error(&socket), None);
    }
}

#[test]
fn a_socket_used_before_the_first_endpoint_works_once_there_is_one() {
    let Some(world) = World::new() else { return };
    let dataplane = world.open();
    let service: SocketAddr = V4.parse().unwrap();
    serve(&dataplane, service, UDP, &[]);
    let socket = client("0.0.0.0:0");
    socket.send_to(b"?", service).unwrap_err();
    let backend = echo_server("10.244.1.2:0");
    serve(&dataplane, service, UDP, &[backend]);
    socket.send_to(b"?", service).unwrap();
    assert_eq!(receive(&socket), (backend.to_string(), service));
}

#[test]
fn datagrams_from_a_backend_that_was_not_reached_through_a_service_keep_their_address() {
    let Some(world) = World::new() else { return };
    let dataplane = world.open();
    let (service, backend): (SocketAddr, _) = (V4.parse().unwrap(), echo_server("10.244.1.2:0"));
    serve(&dataplane, service, UDP, &[backend]);
    let socket = client("0.0.0.0:0");
    socket.send_to(b"?", backend).unwrap();
    assert_eq!(receive(&socket), (backend.to_string(), backend));
}
