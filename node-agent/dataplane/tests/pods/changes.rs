//! Endpoints, Services and pods that come and go while sockets are in use.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use skep_abi::{BackendState, Bits, Counter, Direction, Reason, RuleList, RuleListKey};

use crate::world::{Node, TCP, UDP, VIPS, frontend_key, talk};

fn services(port: u16) -> [SocketAddr; 2] {
    VIPS.map(|vip| SocketAddr::new(vip.parse().unwrap(), port))
}

#[test]
fn a_connected_datagram_socket_leaves_a_backend_that_is_on_its_way_out_or_gone() {
    let Some(node) = Node::new() else { return };
    let (client, one, two) = (node.pod(1), node.pod(2), node.pod(3));
    for (i, service) in services(53).into_iter().enumerate() {
        let id = 10 * (i as u32 + 1);
        let (first, second) = (one.named_udp_server(one.addrs[i]), two.named_udp_server(two.addrs[i]));
        node.serve_set(service, UDP, &[(id, first)], 0, 0);
        let socket = client.connect(service);
        assert_eq!(talk(&socket).unwrap(), first.to_string());
        let moved = node.counter(Counter::Moved);
        node.set_state(id, BackendState::Terminating);
        // There is no other yet.
        assert_eq!(talk(&socket).unwrap(), first.to_string());
        assert_eq!(node.counter(Counter::Moved), moved);
        node.serve_set(service, UDP, &[(id, first), (id + 1, second)], 0, 0);
        node.set_state(id, BackendState::Terminating);
        assert_eq!(talk(&socket).unwrap(), second.to_string());
        assert_eq!(socket.peer_addr().unwrap(), service);
        assert_eq!(node.counter(Counter::Moved), moved + 1);
        // And back, because the second is gone altogether.
        node.serve_set(service, UDP, &[(id, first)], 0, 0);
        node.dataplane.maps().backends.remove(&(id + 1)).unwrap();
        assert_eq!(talk(&socket).unwrap(), first.to_string());
        assert_eq!(node.counter(Counter::Moved), moved + 2);
    }
}

#[test]
fn a_datagram_flow_follows_its_endpoint_set_and_not_only_its_backend() {
    let Some(node) = Node::new() else { return };
    let (client, one, two) = (node.pod(1), node.pod(2), node.pod(3));
    let [service, _] = services(53);
    let (first, second) = (one.named_udp_server(one.addrs[0]), two.named_udp_server(two.addrs[0]));
    node.serve_set(service, UDP, &[(1, first)], 0, 0);
    let socket = client.connect(service);
    assert_eq!(talk(&socket).unwrap(), first.to_string());
    // A larger set has it still, in another slot.
    node.serve_set(service, UDP, &[(2, second), (1, first), (3, second)], 0, 0);
    for _ in 0..20 {
        assert_eq!(talk(&socket).unwrap(), first.to_string());
    }
    assert_eq!(node.counter(Counter::Moved), 0);
    // Another Service's set has it, this one's has not.
    node.serve_set("10.96.0.99:53".parse().unwrap(), UDP, &[(1, first)], 0, 0);
    node.serve_set(service, UDP, &[(2, second)], 0, 0);
    assert_eq!(talk(&socket).unwrap(), second.to_string());
    assert_eq!(node.counter(Counter::Moved), 1);
}

#[test]
fn when_all_backends_are_on_their_way_out_a_flow_stays_with_its_own() {
    let Some(node) = Node::new() else { return };
    let (client, server) = (node.pod(1), node.pod(2));
    let [service, _] = services(53);
    let backends = [1, 2, 3, 4].map(|id| (id, server.named_udp_server(server.addrs[0])));
    node.serve_set(service, UDP, &backends, 0, 0);
    (1..=4).for_each(|id| node.set_state(id, BackendState::Terminating));
    let socket = client.connect(service);
    let first = talk(&socket).unwrap();
    for _ in 0..20 {
        assert_eq!(talk(&socket).unwrap(), first);
    }
    assert_eq!(node.counter(Counter::Moved), 0);
}

#[test]
fn a_connected_datagram_socket_from_before_the_first_endpoint_works_once_there_is_one() {
    let Some(node) = Node::new() else { return };
    let (client, server) = (node.pod(1), node.pod(2));
    for (i, service) in services(53).into_iter().enumerate() {
        node.serve_set(service, UDP, &[], 0, 0);
        let refused = node.drops(Reason::NoEndpoints, Direction::Egress);
        let socket = client.connect(service);
        assert_eq!(talk(&socket).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        assert_eq!(node.drops(Reason::NoEndpoints, Direction::Egress), refused + 1);
        let backend = server.named_udp_server(server.addrs[i]);
        node.serve_set(service, UDP, &[(1 + i as u32, backend)], 0, 0);
        assert_eq!(talk(&socket).unwrap(), backend.to_string());
        // And again when the last one has gone and another has come.
        node.serve_set(service, UDP, &[], 0, 0);
        assert_eq!(talk(&socket).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        node.serve_set(service, UDP, &[(1 + i as u32, backend)], 0, 0);
        assert_eq!(talk(&socket).unwrap(), backend.to_string());
    }
}

#[test]
fn a_connected_datagram_socket_from_before_the_service_itself_works_once_it_is_there() {
    let Some(node) = Node::new() else { return };
    let (client, server) = (node.pod(1), node.pod(2));
    for (i, service) in services(53).into_iter().enumerate() {
        let socket = client.connect(service);
        // Nobody answers: there is no such address.
        talk(&socket).unwrap_err();
        let backend = server.named_udp_server(server.addrs[i]);
        node.serve_set(service, UDP, &[(1 + i as u32, backend)], 0, 0);
        assert_eq!(talk(&socket).unwrap(), backend.to_string());
        assert_eq!(talk(&socket).unwrap(), backend.to_string());
    }
}

#[test]
fn a_removed_service_takes_no_datagrams_and_no_new_connections_and_open_ones_stay() {
    let Some(node) = Node::new() else { return };
    let (client, server) = (node.pod(1), node.pod(2));
    let [service, _] = services(53);
    let backend = server.named_udp_server(server.addrs[0]);
    let addr = server.addrs[0];
    let listener = server.run(move || TcpListener::bind((addr, 0)).unwrap());
    node.serve_set(service, UDP, &[(1, backend)], 0, 0);
    node.serve_set(service, TCP, &[(2, listener.local_addr().unwrap())], 0, 0);
    let socket = client.connect(service);
    assert_eq!(talk(&socket).unwrap(), backend.to_string());
    let mut stream = client.run(move || TcpStream::connect(service).unwrap());
    let (mut accepted, _) = listener.accept().unwrap();
    // The backends themselves stay, as those of another Service would.
    for proto in [TCP, UDP] {
        node.dataplane.maps().frontends.remove(&frontend_key(service, proto)).unwrap();
    }
    talk(&socket).unwrap_err();
    client.ask(service).unwrap_err();
    stream.write_all(b"ping").unwrap();
    let mut buffer = [0; 4];
    accepted.read_exact(&mut buffer).unwrap();
    accepted.write_all(b"pong").unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    stream.read_exact(&mut buffer).unwrap();
    assert_eq!(&buffer, b"pong");
    // The Service comes back: so does the datagram socket.
    node.serve_set(service, UDP, &[(1, backend)], 0, 0);
    assert_eq!(talk(&socket).unwrap(), backend.to_string());
}

#[test]
fn a_new_pod_with_a_deleted_pods_address_gets_none_of_its_flows() {
    let Some(node) = Node::new() else { return };
    let (client, old) = (node.pod(1), node.pod(2));
    let [service, _] = services(53);
    let backend = old.named_udp_server(old.addrs[0]);
    node.serve_set(service, UDP, &[(1, backend)], 0, 0);
    let socket = client.connect(service);
    assert_eq!(talk(&socket).unwrap(), backend.to_string());
    // The new pod lets nobody in: what the old one had been sent is no excuse.
    let list = RuleList { any_peer: Bits::default(), any_port: Bits::default(), flags: 0, pad: 0 };
    node.dataplane.maps().rule_lists.set(&RuleListKey { list: 3, word: 0 }, &list).unwrap();
    node.change(&old, |endpoint| {
        endpoint.rule_list[0] = 3;
        endpoint.words[0] = 1;
    });
    assert_eq!(talk(&socket).unwrap(), backend.to_string(), "the flow of the pod that is there stays");
    node.change(&old, |endpoint| endpoint.id = 777);
    talk(&socket).unwrap_err();
    assert_eq!(node.drops(Reason::PolicyDenied, Direction::Ingress), 1);
    // What it asks for itself begins anew, too: nothing is known of where the old one was sent.
    let other = client.named_udp_server(client.addrs[0]);
    node.serve_set("10.96.0.98:53".parse().unwrap(), UDP, &[(9, other)], 0, 0);
    let socket = old.connect("10.96.0.98:53".parse().unwrap());
    assert_eq!(talk(&socket).unwrap(), other.to_string());
    let entries = node.dataplane.maps().conntrack.iter().unwrap();
    assert!(entries.iter().any(|(key, _)| key.kind == 1 && key.endpoint == 777));
}
