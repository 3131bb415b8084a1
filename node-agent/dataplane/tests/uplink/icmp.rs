use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::os::fd::AsRawFd as _;

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, recvfrom, sendto, setsockopt, socket,
    sockopt,
};
use nix::sys::time::TimeVal;

use crate::lan::{Lan, MASQUERADE, Place, UDP, any};
use crate::machine::{Machine, datagram_error};

/// Sends an ICMP echo with this number and waits for its answer.
pub(crate) fn ping(machine: &Machine, to: IpAddr, id: u16) -> io::Result<()> {
    machine.run(move || {
        let (family, protocol, request, answer) = match to {
            IpAddr::V4(_) => (AddressFamily::Inet, SockProtocol::Icmp, 8, 0),
            IpAddr::V6(_) => (AddressFamily::Inet6, SockProtocol::IcmpV6, 128, 129),
        };
        let socket = socket(family, SockType::Raw, SockFlag::empty(), protocol)?;
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(1, 0))?;
        let mut echo = [[request, 0, 0, 0], [0; 4], [1, 2, 3, 4]].concat();
        echo[4..6].copy_from_slice(&id.to_be_bytes());
        if to.is_ipv4() {
            let sum: u32 = echo.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
            echo[2..4].copy_from_slice(&(!(sum as u16 + (sum >> 16) as u16)).to_be_bytes());
        }
        let to_socket = SockaddrStorage::from(std::net::SocketAddr::from((to, 0)));
        sendto(socket.as_raw_fd(), &echo, &to_socket, MsgFlags::empty())?;
        loop {
            let mut buffer = [0; 200];
            let (len, _) = recvfrom::<SockaddrStorage>(socket.as_raw_fd(), &mut buffer)?;
            let message = if to.is_ipv4() { &buffer[20..len] } else { &buffer[..len] };
            if message[0] == answer && message[4..6] == id.to_be_bytes() {
                assert_eq!(&message[8..], [1, 2, 3, 4]);
                return Ok(());
            }
        }
    })
}

#[test]
fn a_client_hears_that_nobody_listens_at_the_backend() {
    let Some(lan) = Lan::new(0) else { return };
    let (here, there) = (lan.nodes[0].pod(1), lan.nodes[1].pod(1));
    for v6 in [false, true] {
        for (node, pod) in [(0, &here), (1, &there)] {
            lan.serve(any(v6), UDP, 0, &[Place::pod(node, (pod.addr(v6), 9).into())]);
            let error = datagram_error(&lan.client, lan.node_port(0, v6));
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "node {node}, IPv6 {v6}");
        }
        let machine = &lan.nodes[0].machine;
        lan.serve(any(v6), UDP, 0, &[Place { addr: (machine.addr(v6), 9).into(), node: 0, host: true }]);
        let error = datagram_error(&lan.client, lan.node_port(0, v6));
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "host process, IPv6 {v6}");
    }
}

#[test]
fn a_masqueraded_pod_hears_that_nobody_listens_outside() {
    let Some(lan) = Lan::new(MASQUERADE) else { return };
    let pod = lan.nodes[0].pod(1);
    for v6 in [false, true] {
        let error = datagram_error(&pod, (lan.client.addr(v6), 9).into());
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "IPv6 {v6}");
    }
}
