use std::net::{TcpListener, TcpStream};

use skep_abi::{Counter, Direction, Reason};

use crate::icmp::ping;
use crate::lan::{Lan, MASQUERADE, Place, TCP, UDP, any};
use crate::machine::datagram_error;

#[test]
fn pods_of_two_nodes_speak_by_the_overlay() {
    let Some(lan) = Lan::overlaid(MASQUERADE) else { return };
    let (here, there) = (lan.nodes[0].pod(1), lan.nodes[1].pod(1));
    for v6 in [false, true] {
        let server = there.tcp_server((there.addr(v6), 0).into());
        let (mut conversation, seen) = here.connect(server).unwrap();
        assert_eq!(seen.ip(), here.addr(v6));
        conversation.go_on().unwrap();
        let server = there.udp_server((there.addr(v6), 0).into());
        assert_eq!(here.send(server, 4000).unwrap(), (here.addr(v6), server));
        ping(&here, there.addr(v6), 7).unwrap();
        // A node and the pods of another.
        let server = there.tcp_server((there.addr(v6), 0).into());
        assert_eq!(lan.nodes[0].machine.ask(server).unwrap(), lan.nodes[0].machine.addr(v6));
        let machine = &lan.nodes[1].machine;
        let server = machine.tcp_server((machine.addr(v6), 0).into());
        assert_eq!(here.ask(server).unwrap(), here.addr(v6));
    }
    for node in &lan.nodes {
        assert!(node.count(Counter::Encapsulated) > 10 && node.count(Counter::Decapsulated) > 10);
        assert_eq!(node.count(Counter::Masqueraded), 0);
    }
}

#[test]
fn node_ports_lead_to_pods_elsewhere_by_the_overlay() {
    let Some(lan) = Lan::overlaid(MASQUERADE) else { return };
    let there = lan.nodes[1].pod(1);
    // The network between knows nothing of pods.
    for range in ["10.244.0.0/16", "fd00:244::/32"] {
        let family = if range.contains(':') { "-6 " } else { "" };
        lan.client.ip(&format!("{family}route add blackhole {range}"));
    }
    for v6 in [false, true] {
        let port = lan.node_port(0, v6);
        let node = lan.nodes[0].machine.addr(v6);
        lan.serve(any(v6), TCP, 0, &[Place::pod(1, there.tcp_server((there.addr(v6), 0).into()))]);
        lan.serve(any(v6), UDP, 0, &[Place::pod(1, there.udp_server((there.addr(v6), 0).into()))]);
        let (mut conversation, seen) = lan.client.connect(port).unwrap();
        assert_eq!(seen.ip(), node);
        conversation.go_on().unwrap();
        assert_eq!(lan.client.send(port, 9).unwrap(), (node, port));
        // Fragments that the client made for its own link are too long with what the overlay adds: between IPv4 nodes they
        // are cut once more, which IPv6 does not allow.
        if !v6 {
            assert_eq!(lan.client.send(port, 4000).unwrap(), (node, port));
        }
        let before = lan.nodes[0].count(Counter::Decapsulated);
        lan.serve(any(v6), UDP, 0, &[Place::pod(1, (there.addr(v6), 9).into())]);
        assert_eq!(datagram_error(&lan.client, port).kind(), std::io::ErrorKind::ConnectionRefused);
        assert!(lan.nodes[0].count(Counter::Decapsulated) > before);
    }
}

#[test]
fn a_long_stream_fits_into_the_overlay() {
    use std::io::{Read as _, Write as _};
    let Some(lan) = Lan::overlaid(0) else { return };
    let (here, there) = (lan.nodes[0].pod(1), lan.nodes[1].pod(1));
    for v6 in [false, true] {
        let addr = there.addr(v6);
        let listener = there.run(move || TcpListener::bind((addr, 0)).unwrap());
        let server = listener.local_addr().unwrap();
        lan.serve(any(v6), TCP, 0, &[Place::pod(1, server)]);
        let receiver = std::thread::spawn(move || {
            for _ in 0..2 {
                let mut received = Vec::new();
                listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
                assert_eq!(received.len(), 4_000_000);
            }
        });
        let port = lan.node_port(0, v6);
        for (client, server) in [(&here, server), (&lan.client, port)] {
            client.run(move || {
                let mut stream = TcpStream::connect(server).unwrap();
                stream.set_write_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
                stream.write_all(&vec![7; 4_000_000]).unwrap();
            });
        }
        receiver.join().unwrap();
    }
}

/// A VXLAN packet as it goes by UDP, with a datagram from one address to another in it.
fn encapsulated(from: std::net::Ipv4Addr, to: std::net::Ipv4Addr, port: u16) -> Vec<u8> {
    let mut packet = vec![8, 0, 0, 0, 0, 0, 0, 0];
    packet.extend([2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 8, 0]);
    let mut header = [0x45, 0, 0, 29, 0, 0, 0x40, 0, 64, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    header[12..16].copy_from_slice(&from.octets());
    header[16..].copy_from_slice(&to.octets());
    let sum: u32 = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    header[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    packet.extend(header);
    packet.extend(9_u16.to_be_bytes());
    packet.extend(port.to_be_bytes());
    packet.extend([0, 9, 0, 0, b'!']);
    packet
}

#[test]
fn nobody_but_nodes_sends_by_the_overlay() {
    let Some(lan) = Lan::overlaid(0) else { return };
    let (here, there) = (lan.nodes[0].pod(1), lan.nodes[1].pod(1));
    let listener = there.run(|| std::net::UdpSocket::bind("10.244.2.1:700").unwrap());
    listener.set_read_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
    let to: std::net::SocketAddr = (lan.nodes[1].machine.addr(false), skep_abi::OVERLAY_PORT).into();
    let sources = ["203.0.113.7", "10.244.1.1", "10.244.1.2", "10.244.2.2"].map(|addr| addr.parse().unwrap());
    for (who, machine) in [("a pod", &here), ("a machine outside", &lan.client)] {
        for from in sources {
            let before = lan.nodes[1].drops(Reason::SpoofedSource, Direction::Ingress);
            machine.run(move || {
                let packet = encapsulated(from, "10.244.2.1".parse().unwrap(), 700);
                std::net::UdpSocket::bind("0.0.0.0:0").unwrap().send_to(&packet, to).unwrap();
            });
            assert!(listener.recv_from(&mut [0]).is_err(), "{who} sends as {from}");
            assert_eq!(lan.nodes[1].drops(Reason::SpoofedSource, Direction::Ingress), before + 1, "{who} as {from}");
        }
    }
    // The node may, for itself and its pods.
    for (from, comes) in sources.into_iter().zip([true, true, true, false]) {
        lan.nodes[0].machine.run(move || {
            let packet = encapsulated(from, "10.244.2.1".parse().unwrap(), 700);
            std::net::UdpSocket::bind("0.0.0.0:0").unwrap().send_to(&packet, to).unwrap();
        });
        assert_eq!(listener.recv_from(&mut [0]).is_ok(), comes, "the node sends as {from}");
    }
}
