use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use skep_abi::{Direction, Reason};

use crate::world::{TCP, World, mapped, serve};

const V4: &str = "10.96.0.10:80";
const V6: &str = "[fd53:6b65::10]:80";

/// A server that tells each client which address it was reached at.
pub(crate) fn echo_server(bind: &str) -> SocketAddr {
    let listener = TcpListener::bind(bind).unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let reply = stream.local_addr().unwrap().to_string();
            // The client may be gone; then nobody waits for the reply.
            let _ = stream.write_all(reply.as_bytes());
        }
    });
    addr
}

pub(crate) fn ask(service: SocketAddr) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(service).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    (stream, reply)
}

#[test]
fn connect_reaches_a_backend_and_the_peer_is_the_service() {
    let Some(world) = World::new() else { return };
    let dataplane = world.open();
    for (service, backend) in [(V4, "10.244.1.2:0"), (V6, "[fd00:244::2]:0")] {
        let (service, backend) = (service.parse().unwrap(), echo_server(backend));
        serve(&dataplane, service, TCP, &[backend]);
        let (stream, reply) = ask(service);
        assert_eq!(reply, backend.to_string());
        assert_eq!(stream.peer_addr().unwrap(), service);
    }
}

#[test]
fn an_ipv6_socket_reaches_an_ipv4_service_by_its_mapped_address() {
    let Some(world) = World::new() else { return };
    let dataplane = world.open();
    let (service, backend) = (V4.parse().unwrap(), echo_server("10.244.1.2:0"));
    serve(&dataplane, service, TCP, &[backend]);
    let (stream, reply) = ask(mapped(service));
    assert_eq!(reply, backend.to_string());
    assert_eq!(stream.peer_addr().unwrap(), mapped(service));
}

#[test]
fn connections_spread_over_all_backends() {
    let Some(world) = World::new() else { return };
    let dataplane = world.open();
    let service = V4.parse().unwrap();
    let backends = [(); 3].map(|()| echo_server("10.244.1.2:0"));
    serve(&dataplane, service, TCP, &backends);
    let reached: BTreeSet<String> = (0..60).map(|_| ask(service).1).collect();
    assert_eq!(reached, backends.iter().map(ToString::to_string).collect());
}

#[test]
fn a_service_without_endpoints_refuses_at_once() {
    let Some(world) = World::new() else { return };
    let dataplane = world.open();
    for service in [V4.parse().unwrap(), V6.parse().unwrap(), mapped("10.96.0.11:80".parse().unwrap())] {
        let key: SocketAddr = SocketAddr::new(service.ip().to_canonical(), service.port());
        serve(&dataplane, key, TCP, &[]);
        let error = TcpStream::connect(service).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{service}: {error}");
    }
    let totals = dataplane.maps().drops.totals().unwrap();
    let refused = totals.iter().find(|t| t.reason == Reason::NoEndpoints && t.direction == Direction::Egress).unwrap();
    assert_eq!(refused.packets, 3);
    let event = dataplane.events().unwrap().next().unwrap();
    assert_eq!(event.reason, Reason::NoEndpoints as u8);
    assert_eq!(
        (event.service, u16::from_be(event.service_port_be)),
        ("10.96.0.10".parse::<std::net::IpAddr>().unwrap().into(), 80)
    );
}

#[test]
fn other_addresses_are_left_alone() {
    let Some(world) = World::new() else { return };
    let dataplane = world.open();
    let backend = echo_server("10.244.1.2:0");
    serve(&dataplane, V4.parse().unwrap(), TCP, &[]);
    let (stream, reply) = ask(backend);
    assert_eq!(reply, backend.to_string());
    assert_eq!(stream.peer_addr().unwrap(), backend);
}

#[test]
fn without_a_cgroup_nothing_is_translated_and_earlier_hooks_go() {
    let Some(world) = World::new() else { return };
    let dataplane = world.open();
    serve(&dataplane, V4.parse().unwrap(), TCP, &[]);
    assert!(TcpStream::connect(V4).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused));
    drop(dataplane);
    let options = skep_dataplane::Options { cgroup: None, ..world.options() };
    let _dataplane = skep_dataplane::Dataplane::open(&options).unwrap();
    let error = TcpStream::connect(V4).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NetworkUnreachable, "{error}");
}

#[test]
fn what_a_closed_socket_asked_for_is_forgotten() {
    let Some(world) = World::new() else { return };
    let dataplane = world.open();
    let origins = &dataplane.maps().origins;
    for (service, backend) in [(V4, "10.244.1.2:0"), (V6, "[fd00:244::2]:0")] {
        let service: SocketAddr = service.parse().unwrap();
        serve(&dataplane, service, TCP, &[echo_server(backend)]);
        let (stream, _) = ask(service);
        let kept = origins.iter().unwrap();
        assert_eq!(kept.len(), 1);
        assert_eq!(std::net::IpAddr::from(kept[0].1.addr), service.ip());
        drop(stream);
        assert_eq!(origins.iter().unwrap(), []);
    }
    let service = V4.parse().unwrap();
    drop(ask(mapped(service)));
    assert_eq!(origins.iter().unwrap(), []);
}
