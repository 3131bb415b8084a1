//! The short way between pods of one node.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use skep_abi::{Bits, ConnState, Direction, Reason, RuleList, RuleListKey, conn_flags, endpoint_flags};

use crate::world::{Node, Pod, TCP, UDP, VIPS, talk};

/// Packets that the node has put into a pod's interface: those of the short way are not among them.
fn sent_to(pod: &Pod) -> u64 {
    let devices = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let line = devices.lines().find_map(|line| line.trim().strip_prefix(&format!("{}:", pod.host))).unwrap();
    // Eight figures about what is received come first, then bytes and packets sent.
    line.split_whitespace().nth(9).unwrap().parse().unwrap()
}

/// A connection whose server sends back what it gets.
fn open_echo(client: &Pod, server: &Pod, node: &Node, service: Option<SocketAddr>, i: usize) -> TcpStream {
    let addr = server.addrs[i];
    let listener = server.run(move || TcpListener::bind((addr, 0)).unwrap());
    let backend = listener.local_addr().unwrap();
    if let Some(service) = service {
        node.serve(service, TCP, &[backend]);
    }
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 64];
        while let Ok(len @ 1..) = stream.read(&mut buffer) {
            let _ = stream.write_all(&buffer[..len]);
        }
    });
    let stream = client.run(move || TcpStream::connect(service.unwrap_or(backend)).unwrap());
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    stream
}

fn echo(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"ping")?;
    stream.read_exact(&mut [0; 4])
}

#[test]
fn known_flows_between_pods_of_one_node_go_past_its_routing_and_are_tracked_all_the_same() {
    let Some(node) = Node::new() else { return };
    if !node.dataplane.features().redirect_peer {
        return println!("skipped: this kernel has no bpf_redirect_peer or no bpf_check_mtu");
    }
    let (client, server) = (node.pod(1), node.pod(2));
    for (i, vip) in VIPS.into_iter().enumerate() {
        for service in [None, Some(SocketAddr::new(vip.parse().unwrap(), 80))] {
            let mut stream = open_echo(&client, &server, &node, service, i);
            for _ in 0..5 {
                echo(&mut stream).unwrap();
            }
            let before = sent_to(&server);
            let port = stream.local_addr().unwrap().port().to_be();
            let flow = || {
                let entries = node.dataplane.maps().conntrack.iter().unwrap();
                let mut of_server =
                    entries.into_iter().filter(|(key, _)| key.endpoint == 102 && key.remote_port_be == port);
                of_server.next().unwrap().1
            };
            let known = flow();
            assert_eq!(known.state, ConnState::Established as u8);
            assert_eq!(known.flags & conn_flags::OUTBOUND, 0);
            for _ in 0..100 {
                echo(&mut stream).unwrap();
            }
            assert!(sent_to(&server) < before + 20, "{} packets on the long way", sent_to(&server) - before);
            let after = flow();
            assert!(after.rx_packets >= known.rx_packets + 100 && after.tx_packets >= known.tx_packets + 100);
            assert!(after.expires > known.expires);
            if let Some(service) = service {
                assert_eq!(stream.peer_addr().unwrap(), service);
            }
        }
    }
}

#[test]
fn what_no_longer_may_pass_does_not_pass_by_the_short_way() {
    let Some(node) = Node::new() else { return };
    let (client, server) = (node.pod(1), node.pod(2));
    let service: SocketAddr = "10.96.0.10:53".parse().unwrap();
    let backend = server.named_udp_server(server.addrs[0]);
    node.serve(service, UDP, &[backend]);
    let socket = client.connect(service);
    for _ in 0..5 {
        talk(&socket).unwrap();
    }
    node.change(&server, |endpoint| endpoint.flags = endpoint_flags::CLOSED);
    talk(&socket).unwrap_err();
    assert!(node.drops(Reason::EndpointClosed, Direction::Ingress) > 0);
    node.change(&server, |endpoint| endpoint.flags = 0);
    talk(&socket).unwrap();
    // Another pod with the same address, which lets nobody in.
    let list = RuleList { any_peer: Bits::default(), any_port: Bits::default(), flags: 0, pad: 0 };
    node.dataplane.maps().rule_lists.set(&RuleListKey { list: 3, word: 0 }, &list).unwrap();
    node.change(&server, |endpoint| {
        endpoint.id = 888;
        endpoint.rule_list[0] = 3;
        endpoint.words[0] = 1;
    });
    talk(&socket).unwrap_err();
    assert!(node.drops(Reason::PolicyDenied, Direction::Ingress) > 0);
}
