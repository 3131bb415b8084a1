//! What is too big for the overlay, whose packets have less room than the network between the nodes.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use skep_abi::Counter;

use crate::lan::{Lan, MASQUERADE, Place, TCP, UDP, any};
use crate::machine::{Machine, exchange};

/// The overlay's MTU in these tests.
const OVERLAY_MTU: &str = "mtu 1430";

/// Makes the interface of the first pod of a node as wide as the network between the nodes, as those are that were made before
/// there was an overlay.
fn widen(lan: &Lan, node: usize, pod: &Machine) {
    lan.nodes[node].machine.ip("link set pod1 mtu 1500");
    pod.ip("link set eth0 mtu 1500");
}

/// Sends datagrams that fill a link with an MTU of 1500 until one is answered.
fn fill(machine: &Machine, server: std::net::SocketAddr) {
    let v6 = server.is_ipv6();
    let local = machine.addr(v6);
    let len = 1500 - 8 - if v6 { 40 } else { 20 };
    machine.run(move || {
        let socket = UdpSocket::bind((local, 0)).unwrap();
        let answered = (0..3).any(|_| exchange(&socket, server, len).is_ok());
        assert!(answered, "{server} has never got a datagram");
    });
}

/// Has the machines of a connection send much to each other.
fn stream(
    client: &Machine,
    server: &Machine,
    at: IpAddr,
    listens: impl FnOnce(std::net::SocketAddr) -> std::net::SocketAddr,
) {
    const LEN: usize = 2_000_000;
    let patience = |stream: &TcpStream| {
        stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    };
    let listener = server.run(move || TcpListener::bind((at, 0)).unwrap());
    let addr = listens(listener.local_addr().unwrap());
    let receiver = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        patience(&stream);
        let mut received = vec![0; LEN];
        stream.read_exact(&mut received).unwrap();
        stream.write_all(&received).unwrap();
    });
    client.run(move || {
        let sent: Vec<u8> = (0..LEN as u32).map(|i| (i ^ (i >> 9)) as u8).collect();
        let mut stream = TcpStream::connect(addr).unwrap();
        patience(&stream);
        stream.write_all(&sent).unwrap();
        let mut back = vec![0; LEN];
        stream.read_exact(&mut back).unwrap();
        assert!(back == sent, "{addr}");
    });
    receiver.join().unwrap();
}

#[test]
fn pods_whose_interfaces_are_wider_learn_how_much_fits_into_the_overlay() {
    let Some(lan) = Lan::overlaid(MASQUERADE) else { return };
    let (here, there) = (lan.nodes[0].pod(1), lan.nodes[1].pod(1));
    widen(&lan, 0, &here);
    widen(&lan, 1, &there);
    for v6 in [false, true] {
        fill(&here, there.udp_server((there.addr(v6), 0).into()));
        assert!(here.route_to(there.addr(v6)).contains(OVERLAY_MTU), "{}", here.route_to(there.addr(v6)));
        stream(&here, &there, there.addr(v6), |server| server);
    }
}

#[test]
fn clients_outside_learn_how_much_fits_into_the_overlay_that_leads_to_their_backend() {
    let Some(lan) = Lan::overlaid(MASQUERADE) else { return };
    if !lan.nodes[0].dataplane.features().check_mtu {
        return println!("skipped: this kernel has no bpf_check_mtu");
    }
    let there = lan.nodes[1].pod(1);
    widen(&lan, 1, &there);
    for v6 in [false, true] {
        let port = lan.node_port(0, v6);
        lan.serve(any(v6), UDP, 0, &[Place::pod(1, there.udp_server((there.addr(v6), 0).into()))]);
        let told = lan.nodes[0].count(Counter::TooBig);
        fill(&lan.client, port);
        assert!(lan.nodes[0].count(Counter::TooBig) > told, "IPv6 {v6}");
        assert!(lan.client.route_to(port.ip()).contains(OVERLAY_MTU), "{}", lan.client.route_to(port.ip()));
    }
}

#[test]
fn a_long_stream_goes_both_ways_between_a_client_outside_and_a_pod_behind_the_overlay() {
    let Some(lan) = Lan::overlaid(MASQUERADE) else { return };
    if !lan.nodes[0].dataplane.features().check_mtu {
        return println!("skipped: this kernel has no bpf_check_mtu");
    }
    let there = lan.nodes[1].pod(1);
    widen(&lan, 1, &there);
    for v6 in [false, true] {
        stream(&lan.client, &there, there.addr(v6), |server| {
            lan.serve(any(v6), TCP, 0, &[Place::pod(1, server)]);
            lan.node_port(0, v6)
        });
        // Each end was told: the client by the first node, the pod by its own.
        let node = lan.nodes[0].machine.addr(v6);
        for (machine, way) in [("client", lan.client.route_to(node)), ("pod", there.route_to(node))] {
            assert!(way.contains(OVERLAY_MTU), "{machine}: {way}");
        }
    }
    for node in &lan.nodes {
        assert!(node.count(Counter::TooBig) >= 2);
    }
}

#[test]
fn a_pod_learns_how_much_fits_into_the_interface_of_one_behind_the_overlay() {
    let Some(lan) = Lan::overlaid(MASQUERADE) else { return };
    let (here, there) = (lan.nodes[0].pod(1), lan.nodes[1].pod(1));
    lan.nodes[1].machine.ip("link set pod1 mtu 1320");
    for v6 in [false, true] {
        let addr = there.addr(v6);
        let server = there.udp_server((addr, 0).into());
        let socket = here.run({
            let local = here.addr(v6);
            move || UdpSocket::bind((local, 0)).unwrap()
        });
        // Small ones first: the flow is known then.
        (0..5).for_each(|_| drop(exchange(&socket, server, 1).unwrap()));
        let answered = (0..3).any(|_| exchange(&socket, server, 1350).is_ok());
        assert!(answered, "{server} has never got a datagram");
        assert!(here.route_to(addr).contains("mtu 1320"), "{}", here.route_to(addr));
    }
}
