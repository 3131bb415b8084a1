//! Packets as they are: with options and extension headers, in fragments, joined for the hardware to cut.
#![allow(unsafe_code, reason = "socket options that have no safe form")]

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use nix::libc;
use skep_abi::{Bits, Direction, Reason, RuleList, RuleListKey, rule_list_flags};

use crate::world::{Node, TCP, UDP, VIPS, talk};

fn services(port: u16) -> [SocketAddr; 2] {
    VIPS.map(|vip| SocketAddr::new(vip.parse().unwrap(), port))
}

fn set_option(socket: &impl AsRawFd, level: libc::c_int, name: libc::c_int, value: &[u8]) {
    let (value, len) = (value.as_ptr().cast(), value.len() as libc::socklen_t);
    // SAFETY: the kernel reads the bytes given.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, len) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

/// Puts something between the IP header and the next one: no-operation options, or padding in a header of destination options.
fn with_options(socket: &impl AsRawFd, v6: bool) {
    if v6 {
        // Linux takes no more than 7 bytes of padding (RFC 4942, 2.1.9.5).
        set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_DSTOPTS, &[0, 0, 1, 4, 0, 0, 0, 0]);
    } else {
        set_option(socket, libc::IPPROTO_IP, libc::IP_OPTIONS, &[1; 12]);
    }
}

#[test]
fn options_and_extension_headers_are_no_obstacle_to_a_service() {
    let Some(node) = Node::new() else { return };
    let (client, server) = (node.pod(1), node.pod(2));
    for (i, service) in services(80).into_iter().enumerate() {
        let backend = server.named_udp_server(server.addrs[i]);
        node.serve(service, UDP, &[backend]);
        let socket = client.connect(service);
        with_options(&socket, service.is_ipv6());
        assert_eq!(talk(&socket).unwrap(), backend.to_string());
        // TCP whose every segment has them.
        let addr = server.addrs[i];
        let listener = server.run(move || TcpListener::bind((addr, 0)).unwrap());
        node.serve(service, TCP, &[listener.local_addr().unwrap()]);
        let mut stream = client.run(move || TcpStream::connect(service).unwrap());
        let (mut accepted, _) = listener.accept().unwrap();
        with_options(&stream, service.is_ipv6());
        with_options(&accepted, service.is_ipv6());
        for stream in [&stream, &accepted] {
            stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        }
        let mut buffer = [0; 4];
        stream.write_all(b"ping").unwrap();
        accepted.read_exact(&mut buffer).unwrap();
        accepted.write_all(b"pong").unwrap();
        stream.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"pong");
    }
}

#[test]
fn what_has_options_or_extension_headers_is_refused_so_that_its_socket_knows() {
    let Some(node) = Node::new() else { return };
    let client = node.pod(1);
    for service in services(53) {
        node.serve(service, UDP, &[]);
        let socket = client.connect(service);
        with_options(&socket, service.is_ipv6());
        assert_eq!(talk(&socket).unwrap_err().kind(), ErrorKind::ConnectionRefused, "{service}");
    }
    assert_eq!(node.drops(Reason::NoEndpoints, Direction::Egress), 2);
}

#[test]
fn datagrams_that_are_sent_as_one_and_cut_by_the_hardware_arrive_one_by_one() {
    let Some(node) = Node::new() else { return };
    let (client, server) = (node.pod(1), node.pod(2));
    for (i, service) in services(53).into_iter().enumerate() {
        let addr = server.addrs[i];
        let receiver = server.run(move || UdpSocket::bind((addr, 0)).unwrap());
        receiver.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        node.serve(service, UDP, &[receiver.local_addr().unwrap()]);
        let socket = client.connect(service);
        set_option(&socket, libc::IPPROTO_UDP, libc::UDP_SEGMENT, &1000_i32.to_ne_bytes());
        // The first send is not yet a known flow, the second is.
        for _ in 0..2 {
            let sent: Vec<u8> = (0..8500_u32).map(|i| (i ^ (i >> 8)) as u8).collect();
            assert_eq!(socket.send(&sent).unwrap(), sent.len());
            let mut received: Vec<u8> = Vec::new();
            let mut sizes = Vec::new();
            while received.len() < sent.len() {
                let mut buffer = [0; 2000];
                let len = receiver.recv(&mut buffer).unwrap();
                sizes.push(len);
                received.extend(&buffer[..len]);
            }
            assert!(received == sent);
            assert_eq!(sizes, [&[1000; 8][..], &[500]].concat());
        }
    }
}

/// A raw socket of the node whose packets have their IP header in them.
fn raw_socket() -> OwnedFd {
    // SAFETY: plain values; the descriptor is new and nobody else's.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_RAW);
        assert!(fd >= 0, "{}", io::Error::last_os_error());
        OwnedFd::from_raw_fd(fd)
    }
}

/// A fragment of a UDP datagram. `at` is in units of 8 bytes.
struct Fragment {
    from: Ipv4Addr,
    to: Ipv4Addr,
    id: u16,
    at: u16,
    more: bool,
    bytes: Vec<u8>,
}

impl Fragment {
    fn send(&self, socket: &OwnedFd) {
        let mut packet = vec![0x45, 0];
        packet.extend((20 + self.bytes.len() as u16).to_be_bytes());
        packet.extend(self.id.to_be_bytes());
        packet.extend((self.at | if self.more { 0x2000 } else { 0 }).to_be_bytes());
        // The kernel fills in the header's checksum.
        packet.extend([64, UDP, 0, 0]);
        packet.extend(self.from.octets());
        packet.extend(self.to.octets());
        packet.extend(&self.bytes);
        let to = libc::sockaddr_in {
            sin_family: libc::AF_INET as u16,
            sin_port: 0,
            sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(self.to.octets()) },
            sin_zero: [0; 8],
        };
        let len = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        // SAFETY: the kernel reads packet and address as long as they are said to be.
        let sent = unsafe {
            let to = (&raw const to).cast();
            libc::sendto(socket.as_raw_fd(), packet.as_ptr().cast(), packet.len(), 0, to, len)
        };
        assert_eq!(sent, packet.len() as isize, "{}", io::Error::last_os_error());
    }
}

/// The two fragments of a datagram without a checksum, the later one first.
fn out_of_order(from: (Ipv4Addr, u16), to: (Ipv4Addr, u16), id: u16) -> [Fragment; 2] {
    let mut first = [from.1.to_be_bytes(), to.1.to_be_bytes(), 24_u16.to_be_bytes(), [0, 0]].concat();
    first.extend(b"abcdefgh");
    let later = b"ijklmnop".to_vec();
    let fragment = |at, more, bytes| Fragment { from: from.0, to: to.0, id, at, more, bytes };
    [fragment(2, false, later), fragment(0, true, first)]
}

#[test]
fn a_first_fragment_that_is_late_is_waited_for_by_the_pod_unless_a_policy_or_a_service_needs_it() {
    let Some(node) = Node::new() else { return };
    let (client, server) = (node.pod(1), node.pod(2));
    let [std::net::IpAddr::V4(pod), _] = client.addrs else { panic!("not IPv4") };
    let stranger = (Ipv4Addr::new(198, 51, 100, 7), 5000);
    let bind = client.addrs[0];
    let receiver = client.run(move || UdpSocket::bind((bind, 0)).unwrap());
    receiver.set_read_timeout(Some(Duration::from_millis(700))).unwrap();
    let port = receiver.local_addr().unwrap().port();
    let receive = || {
        let mut buffer = [0; 100];
        receiver.recv_from(&mut buffer).map(|(len, from)| (buffer[..len].to_vec(), from))
    };
    let raw = raw_socket();
    let unknown = || node.drops(Reason::UnknownFragment, Direction::Ingress);
    // No policy, no Service: it is the pod's own business.
    out_of_order(stranger, (pod, port), 1).iter().for_each(|fragment| fragment.send(&raw));
    assert_eq!(receive().unwrap(), (b"abcdefghijklmnop".to_vec(), SocketAddr::from(stranger)));
    assert_eq!(unknown(), 0);
    // The answer of a Service's backend has to be translated as a whole, which it cannot be any more.
    let service: SocketAddr = "10.96.0.10:53".parse().unwrap();
    let backend: SocketAddr = "198.51.100.8:53".parse().unwrap();
    node.serve(service, UDP, &[backend]);
    receiver.send_to(b"?", service).unwrap();
    let SocketAddr::V4(from) = backend else { panic!("not IPv4") };
    let answer = |id| out_of_order((*from.ip(), from.port()), (pod, port), id);
    answer(2).iter().for_each(|fragment| fragment.send(&raw));
    receive().unwrap_err();
    assert_eq!(unknown(), 1);
    answer(3).iter().rev().for_each(|fragment| fragment.send(&raw));
    assert_eq!(receive().unwrap(), (b"abcdefghijklmnop".to_vec(), service));
    assert_eq!(unknown(), 1);
    // A policy, be it one that allows everything, has to see the ports.
    let all = Bits([u64::MAX; 4]);
    let list = RuleList { any_peer: all, any_port: all, flags: 0, pad: 0 };
    assert_eq!(list.flags & rule_list_flags::PORTS, 0);
    node.dataplane.maps().rule_lists.set(&RuleListKey { list: 4, word: 0 }, &list).unwrap();
    node.change(&client, |endpoint| {
        endpoint.rule_list[0] = 4;
        endpoint.words[0] = 1;
    });
    out_of_order(stranger, (pod, port), 4).iter().for_each(|fragment| fragment.send(&raw));
    receive().unwrap_err();
    assert_eq!(unknown(), 2);
    out_of_order(stranger, (pod, port), 5).iter().rev().for_each(|fragment| fragment.send(&raw));
    assert_eq!(receive().unwrap().0, b"abcdefghijklmnop");
    // Nothing here was to reach the other pod.
    assert_eq!(node.drops(Reason::UnknownFragment, Direction::Egress), 0);
    drop(server);
}
