use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use crate::world::{Node, UDP, VIPS};

/// The error that a connected datagram socket gets for a datagram to an address where nobody listens.
fn refused(pod: &crate::world::Pod, service: SocketAddr) -> std::io::Error {
    pod.run(move || {
        let socket = UdpSocket::bind(if service.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        socket.connect(service).unwrap();
        socket.send(b"?").unwrap();
        socket.recv(&mut [0; 10]).unwrap_err()
    })
}

#[test]
fn an_error_about_a_translated_datagram_reaches_the_socket_that_sent_it() {
    let Some(node) = Node::new() else { return };
    let (client, server) = (node.pod(1), node.pod(2));
    for (i, vip) in VIPS.into_iter().enumerate() {
        let service: SocketAddr = (vip.parse::<IpAddr>().unwrap(), 53).into();
        node.serve(service, UDP, &[(server.addrs[i], 9).into()]);
        assert_eq!(refused(&client, service).kind(), ErrorKind::ConnectionRefused, "{service}");
        // The pod itself as the backend.
        let own: SocketAddr = (vip.parse::<IpAddr>().unwrap(), 54).into();
        node.serve(own, UDP, &[(client.addrs[i], 9).into()]);
        assert_eq!(refused(&client, own).kind(), ErrorKind::ConnectionRefused, "{own}");
    }
}

#[test]
fn an_error_about_an_answer_goes_to_the_backend() {
    let Some(node) = Node::new() else { return };
    let (client, server) = (node.pod(1), node.pod(2));
    for (i, vip) in VIPS.into_iter().enumerate() {
        let service: SocketAddr = (vip.parse::<IpAddr>().unwrap(), 53).into();
        let addr = server.addrs[i];
        let socket = server.run(move || UdpSocket::bind((addr, 0)).unwrap());
        node.serve(service, UDP, &[socket.local_addr().unwrap()]);
        let asker = client.addrs[i];
        let from = client.run(move || {
            let socket = UdpSocket::bind((asker, 0)).unwrap();
            socket.send_to(b"?", service).unwrap();
            socket.local_addr().unwrap()
        });
        // The asker has closed its socket by now.
        socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        assert_eq!(socket.recv_from(&mut [0; 10]).unwrap().1, from);
        socket.connect(from).unwrap();
        socket.send(b"!").unwrap();
        assert_eq!(socket.recv(&mut [0; 10]).unwrap_err().kind(), ErrorKind::ConnectionRefused, "{service}");
    }
}
