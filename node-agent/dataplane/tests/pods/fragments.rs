use skep_abi::{Direction, Reason};

use crate::world::{Node, UDP, VIPS};

#[test]
fn fragmented_datagrams_are_translated_as_one() {
    let Some(node) = Node::new() else { return };
    let (client, server) = (node.pod(1), node.pod(2));
    for (i, vip) in VIPS.into_iter().enumerate() {
        let service = (vip.parse::<std::net::IpAddr>().unwrap(), 53).into();
        node.serve(service, UDP, &[server.udp_server(server.addrs[i])]);
        let (reply, from, _) = client.send(service, 6000).unwrap();
        assert!(reply.ends_with(" 6000"), "{reply}");
        assert_eq!(from, service);
        // And again: the flow is known now.
        client.send(service, 6000).unwrap();
    }
    assert_eq!(node.drops(Reason::UnknownFragment, Direction::Egress), 0);
    assert_eq!(node.drops(Reason::UnknownFragment, Direction::Ingress), 0);
}
