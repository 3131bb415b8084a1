//! What is over goes from `conntrack`, and what is in use stays, also when there is hardly any room.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use skep_abi::{ConnKey, ConnState, ConnValue};

use crate::world::{Node, Pod, TCP};

const SECOND: u64 = 1_000_000_000;

fn now() -> u64 {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).unwrap();
    time.tv_sec() as u64 * SECOND + time.tv_nsec() as u64
}

/// A connection through a Service that stays open.
struct Held {
    client: TcpStream,
    server: TcpStream,
}

impl Held {
    fn open(node: &Node, client: &Pod, server: &Pod) -> Self {
        let service = "10.96.0.10:80".parse().unwrap();
        let addr = server.addrs[0];
        let listener = server.run(move || TcpListener::bind((addr, 0)).unwrap());
        node.serve(service, TCP, &[listener.local_addr().unwrap()]);
        let client = client.run(move || TcpStream::connect(service).unwrap());
        Self { client, server: listener.accept().unwrap().0 }
    }

    fn go_on(&mut self) {
        let mut buffer = [0; 5];
        self.client.write_all(b"hello").unwrap();
        self.server.read_exact(&mut buffer).unwrap();
        self.server.write_all(b"again").unwrap();
        self.client.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"again");
    }
}

#[test]
fn what_is_over_goes_and_an_idle_connection_stays() {
    let Some(node) = Node::new() else { return };
    let (client, server) = (node.pod(1), node.pod(2));
    let mut held = Held::open(&node, &client, &server);
    client.ask(server.tcp_server(server.addrs[0])).unwrap();
    client.send(server.udp_server(server.addrs[1]), 1).unwrap();
    let mut sweeper = node.dataplane.conntrack_sweeper().unwrap();
    let swept = sweeper.sweep(now()).unwrap();
    // Two entries for each connection, and one that leads to the Service's backend.
    assert_eq!((swept.entries, swept.removed, swept.capacity), (7, 0, 524_288));
    // A question that was answered is over long before a conversation is.
    assert_eq!(sweeper.sweep(now() + 31 * SECOND).unwrap(), skep_dataplane::Swept { entries: 3, removed: 4, ..swept });
    held.go_on();
    assert_eq!(sweeper.sweep(now() + 86_000 * SECOND).unwrap().entries, 3);
    held.go_on();
    assert_eq!(sweeper.sweep(now() + 86_401 * SECOND).unwrap().entries, 0);
}

#[test]
fn connections_that_nobody_completes_give_way_when_the_map_is_nearly_full() {
    let Some(node) = Node::new() else { return };
    let (client, server) = (node.pod(1), node.pod(2));
    let mut held = Held::open(&node, &client, &server);
    let conntrack = &node.dataplane.maps().conntrack;
    let (key, value) = conntrack.iter().unwrap()[0];
    // Ten seconds old of 120 that the first packet gives.
    let flood = ConnValue { expires: now() + 110 * SECOND, state: ConnState::New as u8, ..value };
    let keys: Vec<ConnKey> =
        (0..470_000_u32).map(|n| ConnKey { endpoint: 1000 + (n >> 16), local_port_be: n as u16, ..key }).collect();
    assert!(conntrack.set_all(&keys, &vec![flood; keys.len()]).is_empty());
    let mut sweeper = node.dataplane.conntrack_sweeper().unwrap();
    let swept = sweeper.sweep(now()).unwrap();
    assert_eq!((swept.entries, swept.removed), (470_003, 0));
    assert!(swept.is_nearly_full());
    let swept = sweeper.sweep(now()).unwrap();
    assert_eq!((swept.entries, swept.removed), (3, 470_000));
    held.go_on();
}
