use skep_abi::ConnState;

use crate::lan::{Lan, MASQUERADE, Place, TCP, UDP, any};

/// A time at which everything but established TCP connections is over, nanoseconds after now.
const HOUR: u64 = 3_600_000_000_000;

fn now() -> u64 {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).unwrap();
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

#[test]
fn pairs_that_are_over_go_and_those_in_use_stay() {
    let Some(lan) = Lan::new(MASQUERADE) else { return };
    let (here, there) = (lan.nodes[0].pod(1), lan.nodes[1].pod(1));
    lan.serve(any(false), TCP, 0, &[Place::pod(1, there.tcp_server((there.addr(false), 0).into()))]);
    lan.serve(any(false), UDP, 0, &[Place::pod(0, here.udp_server((here.addr(false), 0).into()))]);
    let port = lan.node_port(0, false);
    let mut sweeper = lan.nodes[0].dataplane.nat_sweeper().unwrap();
    let (mut held, _) = lan.client.connect(port).unwrap();
    lan.client.connect(port).unwrap();
    lan.client.send(port, 1).unwrap();
    let server = lan.client.udp_server((lan.client.addr(false), 0).into());
    here.send(server, 1).unwrap();
    let swept = sweeper.sweep(now()).unwrap();
    assert_eq!((swept.entries, swept.removed, swept.capacity), (8, 0, 524_288));
    let swept = sweeper.sweep(now() + HOUR).unwrap();
    assert_eq!((swept.entries, swept.removed), (2, 6));
    held.go_on().unwrap();
    let nat = &lan.nodes[0].dataplane.maps().nat;
    // One direction says nothing for long: the other keeps both.
    let (mut key, mut value) = nat.iter().unwrap()[0];
    value.expires = 1;
    nat.set(&key, &value).unwrap();
    assert_eq!(sweeper.sweep(now()).unwrap().removed, 0);
    held.go_on().unwrap();
    assert!(nat.get(&key).unwrap().unwrap().expires > 1);
    // Half of a pair is nothing.
    key.src_port_be ^= 1;
    value.dst = skep_abi::Addr::v4([203, 0, 113, 9]);
    value.state = ConnState::New as u8;
    nat.set(&key, &value).unwrap();
    assert_eq!(sweeper.sweep(now()).unwrap().removed, 1);
}

#[test]
fn many_entries_are_swept_by_batches() {
    let Some(lan) = Lan::new(0) else { return };
    let nat = &lan.nodes[0].dataplane.maps().nat;
    let pod = lan.nodes[1].pod(1);
    lan.serve(any(false), TCP, 0, &[Place::pod(1, pod.tcp_server((pod.addr(false), 0).into()))]);
    lan.client.connect(lan.node_port(0, false)).unwrap();
    let (key, mut value) = nat.iter().unwrap()[0];
    for n in 0..20_000_u16 {
        let mut key = key;
        (key.src_port_be, key.dst_port_be) = (n, n);
        value.dst = skep_abi::Addr::v4([203, 0, 113, 9]);
        value.expires = u64::from(n % 2) * u64::MAX;
        nat.set(&key, &value).unwrap();
    }
    let swept = lan.nodes[0].dataplane.nat_sweeper().unwrap().sweep(now()).unwrap();
    assert_eq!(swept.removed, 10_000);
    assert_eq!(swept.entries, 10_000 + 2);
    assert_eq!(nat.iter().unwrap().len(), swept.entries);
}
