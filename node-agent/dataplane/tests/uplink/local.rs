use std::io::ErrorKind;

use skep_abi::{Direction, Reason, frontend_flags};

use crate::lan::{Lan, Place, TCP, any};

#[test]
fn with_the_local_policy_each_node_serves_by_its_own_pods_only() {
    let Some(lan) = Lan::new(0) else { return };
    let pod = lan.nodes[1].pod(1);
    for v6 in [false, true] {
        let server = pod.tcp_server((pod.addr(v6), 0).into());
        lan.serve(any(v6), TCP, frontend_flags::LOCAL, &[Place::pod(1, server)]);
        assert_eq!(lan.client.ask(lan.node_port(1, v6)).unwrap(), lan.client.addr(v6));
        let before = lan.nodes[0].drops(Reason::NoLocalEndpoints, Direction::Ingress);
        assert_eq!(lan.client.ask(lan.node_port(0, v6)).unwrap_err().kind(), ErrorKind::TimedOut);
        assert!(lan.nodes[0].drops(Reason::NoLocalEndpoints, Direction::Ingress) > before);
    }
}
