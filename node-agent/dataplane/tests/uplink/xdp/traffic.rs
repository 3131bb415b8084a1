//! Real connections through nodes with XDP on one side of a veth pair.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use skep_abi::{ConnState, Counter, config_flags};
use skep_dataplane::{Dataplane, XdpMode, XdpState};

use crate::lan::{Lan, MASQUERADE, NODE_PORT, Node, Place, TCP, UDP, VIPS, any};
use crate::machine::Machine;

/// A server that sends back what it gets of one connection.
fn mirror(machine: &Machine, v6: bool, len: usize) -> (SocketAddr, std::thread::JoinHandle<()>) {
    let addr = machine.addr(v6);
    let listener = machine.run(move || TcpListener::bind((addr, 0)).unwrap());
    let addr = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut received = vec![0; len];
        stream.read_exact(&mut received).unwrap();
        stream.write_all(&received).unwrap();
        // Kept until the client has ended, too: what answers for a socket that is gone finishes its checksum itself (IPv4).
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    });
    (addr, server)
}

/// Sends a long stream and checks what comes back, to the end of the connection.
fn stream(client: &Machine, server: SocketAddr, len: usize) {
    client.run(move || {
        let sent: Vec<u8> = (0..len as u32).map(|i| (i ^ (i >> 9)) as u8).collect();
        let mut stream = TcpStream::connect(server).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        stream.write_all(&sent).unwrap();
        let mut back = vec![0; sent.len()];
        stream.read_exact(&mut back).unwrap();
        assert!(back == sent, "{server}");
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    });
}

fn forwarded(node: &Node) -> u64 {
    node.count(Counter::XdpForwarded)
}

#[test]
fn streams_and_datagrams_pass_through_whole() {
    const LEN: usize = 4_000_000;
    let Some(lan) = Lan::with_xdp(false, 0) else { return };
    let pod = lan.nodes[1].pod(1);
    for v6 in [false, true] {
        let port = lan.node_port(0, v6);
        let before = forwarded(&lan.nodes[0]);
        let (server, thread) = mirror(&pod, v6, LEN);
        lan.serve(any(v6), TCP, 0, &[Place::pod(1, server)]);
        stream(&lan.client, port, LEN);
        thread.join().unwrap();
        // At 1448 bytes a segment there are some 2,700 each way, and as many acknowledgements or a part of that.
        assert!(forwarded(&lan.nodes[0]) - before > 5000, "{}", forwarded(&lan.nodes[0]) - before);
        // Nothing is left of the connection but two entries that end soon.
        let states = || {
            let entries = lan.nodes[0].dataplane.maps().nat.iter().unwrap();
            let of_family = entries.into_iter().filter(|(key, _)| key.src.is_v4() != v6);
            of_family.map(|(_, value)| value.state).collect::<Vec<_>>()
        };
        let begin = Instant::now();
        while states() != [ConnState::Closed as u8; 2] {
            assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", states());
            std::thread::sleep(Duration::from_millis(5));
        }

        lan.serve(any(v6), UDP, 0, &[Place::pod(1, pod.udp_server((pod.addr(v6), 0).into()))]);
        let before = forwarded(&lan.nodes[0]);
        lan.client.run(move || {
            let socket = std::net::UdpSocket::bind(if v6 { "[::]:0" } else { "0.0.0.0:0" }).unwrap();
            for len in [0, 1, 2, 3, 1000, 1400, 4000, 1, 0] {
                let (reply, from) = crate::machine::exchange(&socket, port, len).unwrap();
                assert_eq!((reply.split_once(' ').unwrap().1, from), (len.to_string().as_str(), port));
            }
        });
        // The first datagram, its answer, and fragments are tc's.
        assert!(forwarded(&lan.nodes[0]) - before >= 12, "{}", forwarded(&lan.nodes[0]) - before);
    }
    assert_eq!(forwarded(&lan.nodes[1]), 0, "the other node only serves");
}

#[test]
fn direct_return_passes_through_too() {
    const LEN: usize = 1_000_000;
    let Some(lan) = Lan::with_xdp(false, config_flags::DSR) else { return };
    let pod = lan.nodes[1].pod(1);
    lan.announce();
    for v6 in [false, true] {
        let vip: SocketAddr = (VIPS[usize::from(v6)].parse::<std::net::IpAddr>().unwrap(), 80).into();
        for (at, port) in [(vip, vip), (any(v6), lan.node_port(0, v6))] {
            let before = forwarded(&lan.nodes[0]);
            let (server, thread) = mirror(&pod, v6, LEN);
            lan.serve(at, TCP, 0, &[Place::pod(1, server)]);
            stream(&lan.client, port, LEN);
            thread.join().unwrap();
            assert!(forwarded(&lan.nodes[0]) - before > 600, "{}", forwarded(&lan.nodes[0]) - before);
        }
    }
}

#[test]
fn what_stays_or_leaves_is_untouched() {
    let Some(lan) = Lan::with_xdp(false, MASQUERADE) else { return };
    let (here, there) = (lan.nodes[0].pod(1), lan.nodes[1].pod(1));
    for v6 in [false, true] {
        // To a pod here, from pod to pod, and out of the cluster.
        lan.serve(any(v6), TCP, 0, &[Place::pod(0, here.tcp_server((here.addr(v6), 0).into()))]);
        assert_eq!(lan.client.ask(lan.node_port(0, v6)).unwrap(), lan.client.addr(v6));
        let server = there.tcp_server((there.addr(v6), 0).into());
        assert_eq!(here.ask(server).unwrap(), here.addr(v6));
        let server = lan.client.tcp_server((lan.client.addr(v6), 0).into());
        assert_eq!(here.ask(server).unwrap(), lan.nodes[0].machine.addr(v6));
        let server = lan.client.udp_server((lan.client.addr(v6), 0).into());
        assert_eq!(here.send(server, 9).unwrap().0, lan.nodes[0].machine.addr(v6));
    }
    assert_eq!(forwarded(&lan.nodes[0]), 0);
}

#[test]
fn unfinished_checksums_go_by_tc_and_arrive_whole() {
    const LEN: usize = 1_000_000;
    let Some(lan) = Lan::with_xdp(false, 0) else { return };
    lan.leave_checksums(true);
    let pod = lan.nodes[1].pod(1);
    for v6 in [false, true] {
        let (server, thread) = mirror(&pod, v6, LEN);
        lan.serve(any(v6), TCP, 0, &[Place::pod(1, server)]);
        stream(&lan.client, lan.node_port(0, v6), LEN);
        thread.join().unwrap();
        lan.serve(any(v6), UDP, 0, &[Place::pod(1, pod.udp_server((pod.addr(v6), 0).into()))]);
        let port = lan.node_port(0, v6);
        lan.client.run(move || {
            let socket = std::net::UdpSocket::bind(if v6 { "[::]:0" } else { "0.0.0.0:0" }).unwrap();
            for len in [0, 1, 1000, 1400] {
                crate::machine::exchange(&socket, port, len).unwrap();
            }
        });
    }
    assert_eq!(forwarded(&lan.nodes[0]), 0);
}

#[test]
fn other_sides_that_take_no_frames_get_none() {
    let Some(mut lan) = Lan::with(|_| {}) else { return };
    let pod = lan.nodes[1].pod(1);
    lan.serve(any(false), UDP, 0, &[Place::pod(1, pod.udp_server((pod.addr(false), 0).into()))]);
    let port = lan.node_port(0, false);
    lan.leave_checksums(false);
    let exchange = |lan: &Lan, times: usize| {
        lan.client.run(move || {
            let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
            for _ in 0..times {
                crate::machine::exchange(&socket, port, 9).unwrap();
            }
        });
    };
    lan.nodes[0].options.xdp = XdpMode::Auto;
    lan.nodes[0].restart();
    let XdpState::Unavailable(reason) = lan.nodes[0].settle_xdp() else { panic!("frames would be lost") };
    assert!(reason.contains("GRO"), "{reason}");
    exchange(&lan, 3);
    assert_eq!(forwarded(&lan.nodes[0]), 0);

    let demanding = skep_dataplane::Options { xdp: XdpMode::Native, ..lan.nodes[0].options.clone() };
    let refused = lan.nodes[0].machine.run(move || Dataplane::open(&demanding).map(drop).unwrap_err().to_string());
    assert!(refused.contains("GRO"), "{refused}");

    lan.take_frames(true);
    assert_eq!(lan.nodes[0].settle_xdp(), XdpState::On);
    exchange(&lan, 3);
    let before = forwarded(&lan.nodes[0]);
    assert!(before >= 3, "{before}");

    lan.take_frames(false);
    assert!(matches!(lan.nodes[0].settle_xdp(), XdpState::Unavailable(_)));
    exchange(&lan, 3);
    assert_eq!(forwarded(&lan.nodes[0]), before);
}

#[test]
fn a_restart_keeps_the_program_and_turning_it_off_removes_it() {
    let Some(mut lan) = Lan::with_xdp(false, 0) else { return };
    let pod = lan.nodes[1].pod(1);
    lan.serve(any(false), TCP, 0, &[Place::pod(1, pod.tcp_server((pod.addr(false), 0).into()))]);
    let (mut conversation, _) = lan.client.connect((lan.nodes[0].machine.addr(false), NODE_PORT).into()).unwrap();
    let link = |node: &Node| {
        let links = node.options.bpf_dir.join(format!("v{}/links", skep_abi::VERSION));
        links.join(format!("xdp-{}", node.options.uplink.unwrap()))
    };
    let mut go_on = |node: &Node, xdp: bool| {
        let before = forwarded(node);
        for _ in 0..3 {
            conversation.go_on().unwrap();
        }
        assert_eq!(forwarded(node) > before, xdp);
        assert_eq!(link(node).exists(), xdp);
        assert_eq!(node.settle_xdp(), if xdp { XdpState::On } else { XdpState::Off });
    };
    go_on(&lan.nodes[0], true);
    lan.nodes[0].restart();
    go_on(&lan.nodes[0], true);
    assert!(lan.nodes[0].dataplane.programs().iter().any(|program| program.name == "skep_xdp_uplink"));
    lan.nodes[0].options.xdp = XdpMode::Off;
    lan.nodes[0].restart();
    go_on(&lan.nodes[0], false);
    lan.nodes[0].options.xdp = XdpMode::Auto;
    lan.nodes[0].restart();
    go_on(&lan.nodes[0], true);
    lan.nodes[0].options.uplink = None;
    let dir = lan.nodes[0].options.bpf_dir.join(format!("v{}/links", skep_abi::VERSION));
    lan.nodes[0].restart();
    let left = std::fs::read_dir(dir).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().starts_with("xdp-")
    });
    assert_eq!(left.count(), 0);
}
