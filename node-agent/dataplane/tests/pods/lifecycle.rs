use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use skep_abi::{Direction, Reason};

use crate::world::{Node, TCP, ip, open, pretend_other_object};

#[test]
fn pods_keep_their_connections_when_programs_are_adopted_and_when_they_are_exchanged() {
    let Some(node) = Node::new() else { return };
    let (client, server) = (node.pod(1), node.pod(2));
    let service = "10.96.0.10:80".parse().unwrap();
    let addr = server.addrs[0];
    let listener = server.run(move || TcpListener::bind((addr, 0)).unwrap());
    node.serve(service, TCP, &[listener.local_addr().unwrap()]);
    let other = "10.96.0.11:80".parse().unwrap();
    node.serve(other, TCP, &[server.tcp_server(addr)]);
    let mut stream = client.run(move || TcpStream::connect(service).unwrap());
    let (mut accepted, _) = listener.accept().unwrap();
    let ids = |dataplane: &skep_dataplane::Dataplane| -> Vec<u32> {
        dataplane.programs().iter().map(|program| program.id).collect()
    };
    let before = ids(&node.dataplane);
    for same_object in [true, false] {
        if !same_object {
            pretend_other_object(&node.bpf_dir);
        }
        let again = open(&node.bpf_dir, 0);
        assert_eq!(ids(&again) == before, same_object);
        assert_eq!(again.attached_pods().unwrap(), [client.ifindex(), server.ifindex()]);
        for pod in [&client, &server] {
            again.attach_pod(&pod.host, pod.ifindex()).unwrap();
        }
        stream.write_all(b"hello").unwrap();
        let mut buffer = [0; 5];
        accepted.read_exact(&mut buffer).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), service);
        // What comes later is attached to these programs, too.
        again.detach_pod(client.ifindex()).unwrap();
        client.ask(other).unwrap_err();
        again.attach_pod(&client.host, client.ifindex()).unwrap();
        client.ask(other).unwrap();
    }
}

#[test]
fn a_detached_pod_is_no_longer_looked_at() {
    let Some(node) = Node::new() else { return };
    let (client, server) = (node.pod(1), node.pod(2));
    let addr = server.tcp_server(server.addrs[0]);
    node.dataplane.maps().endpoints.remove(&client.ifindex()).unwrap();
    client.ask(addr).unwrap_err();
    assert!(node.drops(Reason::UnknownEndpoint, Direction::Egress) > 0);
    node.dataplane.detach_pod(client.ifindex()).unwrap();
    client.ask(addr).unwrap();
    node.dataplane.detach_pod(client.ifindex()).unwrap();
}

#[test]
fn links_of_interfaces_that_are_gone_are_cleared_at_the_next_start() {
    let Some(node) = Node::new() else { return };
    let (gone, stays) = (node.pod(1), node.pod(2));
    let index = gone.ifindex();
    ip("link del pod1");
    assert_eq!(node.dataplane.attached_pods().unwrap(), [index, stays.ifindex()]);
    let again = open(&node.bpf_dir, 0);
    assert_eq!(again.attached_pods().unwrap(), [stays.ifindex()]);
}

#[test]
fn a_new_pod_with_a_deleted_pods_address_inherits_no_flow() {
    let Some(node) = Node::new() else { return };
    let (client, old) = (node.pod(1), node.pod(2));
    client.ask(old.tcp_server(old.addrs[0])).unwrap();
    let of = |endpoint: u32| {
        let entries = node.dataplane.maps().conntrack.iter().unwrap();
        entries.into_iter().filter(|(key, _)| key.endpoint == endpoint).count()
    };
    assert_eq!(of(102), 1);
    node.change(&old, |endpoint| endpoint.id = 555);
    client.ask(old.tcp_server(old.addrs[0])).unwrap();
    assert_eq!((of(102), of(555)), (1, 1));
}
