//! Which backend a socket gets.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};

use skep_abi::{AffinityKey, BackendState, Direction, Reason, frontend_flags};
use skep_dataplane::Dataplane;
use skep_verdict::service::netns_client;

use crate::datagram::{client, echo_server as datagram_server, receive};
use crate::stream::{ask, echo_server};
use crate::world::{TCP, UDP, World, change, frontend_key, netns_cookie, serve};

const SERVICE: &str = "10.96.0.10:80";

/// A Service with three backends and session affinity.
fn with_affinity(dataplane: &Dataplane) -> (SocketAddr, [SocketAddr; 3]) {
    let service: SocketAddr = SERVICE.parse().unwrap();
    let backends = [(); 3].map(|()| echo_server("10.244.1.2:0"));
    serve(dataplane, service, TCP, &backends);
    change(dataplane, &frontend_key(service, TCP), |frontend| {
        frontend.flags = frontend_flags::AFFINITY;
        frontend.affinity_timeout = 600;
    });
    (service, backends)
}

#[test]
fn a_network_namespace_stays_with_its_backend_until_it_is_forgotten_or_gone() {
    let Some(world) = World::new() else { return };
    let dataplane = world.open();
    let (service, _) = with_affinity(&dataplane);
    let maps = dataplane.maps();
    let key = AffinityKey { client: netns_client(netns_cookie()), service: 1 };
    let first = ask(service).1;
    assert!((0..20).all(|_| ask(service).1 == first));
    let remembered = maps.affinity.get(&key).unwrap().unwrap();
    assert_eq!(maps.affinity.iter().unwrap().len(), 1);
    ask(service);
    let refreshed = maps.affinity.get(&key).unwrap().unwrap();
    assert!(refreshed.last_used > remembered.last_used && refreshed.backend == remembered.backend);
    // It is the memory that decides, wherever the hint says that the backend is.
    let other = maps.backends.iter().unwrap().iter().map(|(id, _)| *id).find(|id| *id != refreshed.backend).unwrap();
    maps.affinity.set(&key, &skep_abi::AffinityValue { backend: other, slot: 77, ..refreshed }).unwrap();
    let second = ask(service).1;
    assert!(second != first && (0..20).all(|_| ask(service).1 == second));
    // A backend on its way out takes no new connections.
    let mut leaving = maps.backends.get(&other).unwrap().unwrap();
    leaving.state = BackendState::Terminating as u8;
    maps.backends.set(&other, &leaving).unwrap();
    let third = ask(service).1;
    assert!(third != second && (0..20).all(|_| ask(service).1 == third));
    // One that is in no set any more does not, either, though it is known for another Service.
    leaving.state = BackendState::Active as u8;
    maps.backends.set(&other, &leaving).unwrap();
    let now = maps.affinity.get(&key).unwrap().unwrap();
    maps.affinity.set(&key, &skep_abi::AffinityValue { backend: other, ..now }).unwrap();
    assert_eq!(ask(service).1, second);
    let frontend = maps.frontends.get(&frontend_key(service, TCP)).unwrap().unwrap();
    for index in 0..3 {
        let slot = skep_abi::SlotKey { service: 1, generation: frontend.generation, index };
        if maps.slots.get(&slot).unwrap() == Some(other) {
            maps.slots.set(&slot, &now.backend).unwrap();
        }
    }
    assert_ne!(ask(service).1, second);
}

#[test]
fn after_the_timeout_the_choice_is_free_again() {
    let Some(world) = World::new() else { return };
    let dataplane = world.open();
    let (service, _) = with_affinity(&dataplane);
    let affinity = &dataplane.maps().affinity;
    let mut reached = BTreeSet::new();
    for _ in 0..60 {
        reached.insert(ask(service).1);
        let [(key, mut value)] = affinity.iter().unwrap().try_into().unwrap();
        value.last_used = value.last_used.saturating_sub(600_000_000_000);
        affinity.set(&key, &value).unwrap();
    }
    assert_eq!(reached.len(), 3);
}

#[test]
fn sockets_that_send_datagrams_stay_with_the_client_too() {
    let Some(world) = World::new() else { return };
    let dataplane = world.open();
    let service: SocketAddr = SERVICE.parse().unwrap();
    serve(&dataplane, service, UDP, &[(); 3].map(|()| datagram_server("10.244.1.2:0")));
    change(&dataplane, &frontend_key(service, UDP), |frontend| {
        frontend.flags = frontend_flags::AFFINITY;
        frontend.affinity_timeout = 600;
    });
    let replies: BTreeSet<String> = (0..20)
        .map(|_| {
            let socket = client("0.0.0.0:0");
            socket.send_to(b"?", service).unwrap();
            receive(&socket).0
        })
        .collect();
    assert_eq!(replies.len(), 1, "{replies:?}");
}

#[test]
fn connections_by_a_maglev_table_spread_over_all_backends() {
    let Some(world) = World::new() else { return };
    let dataplane = world.open();
    let service = SERVICE.parse().unwrap();
    let backends = [(); 3].map(|()| echo_server("10.244.1.2:0"));
    serve(&dataplane, service, TCP, &backends);
    change(&dataplane, &frontend_key(service, TCP), |frontend| frontend.flags = frontend_flags::MAGLEV);
    let reached: BTreeSet<String> = (0..60).map(|_| ask(service).1).collect();
    assert_eq!(reached, backends.iter().map(ToString::to_string).collect());
}

#[test]
fn a_service_of_this_node_alone_refuses_when_the_node_has_no_endpoint_and_says_why() {
    let Some(world) = World::new() else { return };
    let dataplane = world.open();
    let service: SocketAddr = SERVICE.parse().unwrap();
    let count = |reason| {
        let totals = dataplane.maps().drops.totals().unwrap();
        totals.iter().find(|t| t.reason == reason && t.direction == Direction::Egress).unwrap().packets
    };
    for proto in [TCP, UDP] {
        serve(&dataplane, service, proto, &[]);
        change(&dataplane, &frontend_key(service, proto), |frontend| frontend.flags = frontend_flags::LOCAL);
    }
    assert_eq!(TcpStream::connect(service).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    let socket = client("0.0.0.0:0");
    assert_eq!(socket.send_to(b"?", service).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert_eq!((count(Reason::NoLocalEndpoints), count(Reason::NoEndpoints)), (2, 0));
}

#[test]
fn each_connection_is_counted_once() {
    let Some(world) = World::new() else { return };
    let dataplane = world.open();
    let (stream, datagram) = (SERVICE.parse().unwrap(), "10.96.0.53:53".parse().unwrap());
    serve(&dataplane, stream, TCP, &[echo_server("10.244.1.2:0")]);
    serve(&dataplane, datagram, UDP, &[datagram_server("10.244.1.2:0")]);
    for _ in 0..5 {
        ask(stream);
    }
    let socket = client("0.0.0.0:0");
    for _ in 0..5 {
        socket.send_to(b"?", datagram).unwrap();
        receive(&socket);
    }
    assert_eq!(dataplane.maps().service_hits.totals().unwrap(), [(1, 5), (2, 1)]);
}
