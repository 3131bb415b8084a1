//! Real sockets in network namespaces of the test's own.

use std::io::{ErrorKind, Read as _};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use nix::sched::unshare;
use skep_abi::Addr;

use super::*;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// A network namespace, for as long as its thread waits.
struct Pod {
    path: PathBuf,
    cookie: u64,
    /// A connection to a backend that stays and one to a backend that goes, and datagram sockets alike.
    stays: (TcpStream, UdpSocket),
    goes: (TcpStream, UdpSocket),
    addresses: (SocketAddr, SocketAddr),
    _end: std::sync::mpsc::Sender<()>,
}

/// `ip` is the loopback address to use.
fn pod(ip: &'static str) -> Pod {
    let (made, result) = channel();
    let (end, ended) = channel();
    thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
        let ip: IpAddr = ip.parse().unwrap();
        let listen = || TcpListener::bind((ip, 0)).unwrap();
        let (first, second) = (listen(), listen());
        let addresses = (first.local_addr().unwrap(), second.local_addr().unwrap());
        let sockets = |address: SocketAddr| {
            let datagram = UdpSocket::bind((ip, 0)).unwrap();
            datagram.connect(address).unwrap();
            (TcpStream::connect(address).unwrap(), datagram)
        };
        let path = PathBuf::from(format!("/proc/self/task/{}/ns/net", nix::unistd::gettid()));
        let (stays, goes) = (sockets(addresses.0), sockets(addresses.1));
        made.send((path, cookie().unwrap(), stays, goes, addresses)).unwrap();
        // Servers and namespace go when the test ends.
        let _ = ended.recv();
        drop((first, second));
    });
    let (path, cookie, stays, goes, addresses) = result.recv().expect("a namespace; tests run as root");
    Pod { path, cookie, stays, goes, addresses, _end: end }
}

fn origin(address: SocketAddr, proto: u8, netns: u64) -> (OriginKey, OriginValue) {
    let key = OriginKey { cookie: 1, addr: address.ip().into(), port_be: address.port().to_be(), proto, pad: [0; 5] };
    (key, OriginValue { addr: Addr::v4([10, 96, 0, 1]), port_be: 0, pad: 0, backend: 1, netns })
}

/// What a read of the connection gives when nothing comes.
fn state(mut stream: &TcpStream) -> ErrorKind {
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    stream.read(&mut [0]).expect_err("the server says nothing").kind()
}

#[test]
fn only_sockets_of_what_is_gone_are_ended_and_only_where_they_were_translated() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: network namespaces need root");
        return;
    }
    for ip in ["127.0.0.1", "::1"] {
        let (here, elsewhere) = (pod(ip), pod(ip));
        let gone = BTreeSet::from([(here.addresses.1, TCP), (here.addresses.1, UDP), (elsewhere.addresses.1, TCP)]);
        let origins = [origin(here.addresses.1, TCP, here.cookie), origin(here.addresses.0, TCP, elsewhere.cookie)];
        let namespaces = || vec![elsewhere.path.clone(), PathBuf::from("/proc/self/nothing"), here.path.clone()];
        assert_eq!(end(&gone, &origins, namespaces), 2, "{ip}");
        assert_eq!(state(&here.goes.0), ErrorKind::ConnectionAborted);
        assert_eq!(here.goes.1.recv(&mut [0]).expect_err("destroyed").kind(), ErrorKind::ConnectionAborted);
        assert_eq!(state(&here.stays.0), ErrorKind::WouldBlock);
        assert_eq!(here.stays.1.send(b"x").unwrap(), 1);
        // Its sockets were not translated: whoever connected to the pod itself keeps the connection.
        assert_eq!(state(&elsewhere.goes.0), ErrorKind::WouldBlock);
        // Once more ends nothing.
        assert_eq!(end(&gone, &origins, namespaces), 0, "{ip}");
    }
}

#[test]
fn nothing_is_entered_when_no_socket_was_translated_to_what_is_gone() {
    let gone = BTreeSet::from([("192.0.2.1:80".parse().unwrap(), TCP)]);
    let origins = [origin("192.0.2.2:80".parse().unwrap(), TCP, 7)];
    assert_eq!(end(&gone, &origins, || panic!("namespaces are looked for")), 0);
}
