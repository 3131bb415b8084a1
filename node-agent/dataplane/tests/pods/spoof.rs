use std::net::{IpAddr, UdpSocket};

use skep_abi::{Direction, Reason};

use crate::world::{Node, ip};

#[test]
fn a_pod_can_only_send_from_its_own_addresses() {
    let Some(node) = Node::new() else { return };
    let (pod, victim) = (node.pod(1), node.pod(2));
    for (i, stolen) in ["10.244.1.9", "fd00:244::9"].into_iter().enumerate() {
        let to = victim.udp_server(victim.addrs[i]);
        let before = node.drops(Reason::SpoofedSource, Direction::Egress);
        pod.run(move || {
            let len = if i == 0 { 32 } else { 128 };
            ip(&format!("addr add {stolen}/{len} dev eth0{}", if i == 0 { "" } else { " nodad" }));
            let socket = UdpSocket::bind((stolen.parse::<IpAddr>().unwrap(), 0)).unwrap();
            socket.send_to(b"?", to).unwrap();
        });
        assert_eq!(node.drops(Reason::SpoofedSource, Direction::Egress), before + 1);
    }
    let stolen: Vec<skep_abi::Addr> =
        ["10.244.1.9", "fd00:244::9"].iter().map(|addr| addr.parse::<IpAddr>().unwrap().into()).collect();
    let events = node.events();
    assert!(stolen.iter().all(|addr| events.iter().any(|event| event.local == *addr && event.endpoint == 101)));
}
