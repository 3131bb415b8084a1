use std::io::ErrorKind;
use std::net::SocketAddr;

use skep_abi::{Counter, Direction, Reason};

use crate::lan::{Lan, Place, TCP, UDP, VIPS};
use crate::machine::datagram_error;

fn vips(port: u16) -> [SocketAddr; 2] {
    VIPS.map(|vip| (vip.parse::<std::net::IpAddr>().unwrap(), port).into())
}

#[test]
fn a_node_answers_for_the_load_balancer_addresses_that_it_announces() {
    let Some(lan) = Lan::new(0) else { return };
    let (here, there) = (lan.nodes[0].pod(1), lan.nodes[1].pod(1));
    for (vip, v6) in vips(80).into_iter().zip([false, true]) {
        lan.serve(vip, TCP, 0, &[Place::pod(0, here.tcp_server((here.addr(v6), 0).into()))]);
        lan.serve(vip, UDP, 0, &[Place::pod(1, there.udp_server((there.addr(v6), 0).into()))]);
        assert_eq!(lan.client.ask(vip).unwrap_err().kind(), ErrorKind::TimedOut, "nobody has the address");
    }
    assert_eq!(lan.nodes[0].count(Counter::NeighbourAnswers), 0);
    lan.announce();
    for (vip, v6) in vips(80).into_iter().zip([false, true]) {
        lan.client.ip("neigh flush all");
        assert_eq!(lan.client.ask(vip).unwrap(), lan.client.addr(v6));
        assert_eq!(lan.client.send(vip, 9).unwrap(), (lan.nodes[0].machine.addr(v6), vip));
    }
    assert!(lan.nodes[0].count(Counter::NeighbourAnswers) >= 2);
    assert_eq!(lan.nodes[1].count(Counter::NeighbourAnswers), 0);
}

#[test]
fn a_port_of_a_load_balancer_address_that_no_service_has_is_refused() {
    let Some(lan) = Lan::new(0) else { return };
    lan.announce();
    for vip in vips(81) {
        assert_eq!(lan.client.ask(vip).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        assert_eq!(datagram_error(&lan.client, vip).kind(), ErrorKind::ConnectionRefused);
    }
    assert_eq!(lan.nodes[0].drops(Reason::NoEndpoints, Direction::Ingress), 4);
}
