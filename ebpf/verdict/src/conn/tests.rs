use proptest::prelude::*;

use super::*;
use crate::packet::Packet;

const POD: Addr = Addr::v4([10, 244, 1, 1]);
const PEER: Addr = Addr::v4([10, 244, 2, 2]);

fn packet(proto: u8, direction: Direction, flags: u8) -> Packet {
    let (src, dst, src_port_be, dst_port_be) = match direction {
        Direction::Egress => (POD, PEER, 40000, 80),
        Direction::Ingress => (PEER, POD, 80, 40000),
    };
    Packet { src, dst, src_port_be, dst_port_be, proto, flags_or_type: flags, ..Packet::EMPTY }
}

fn sent(flags: u8) -> Packet {
    packet(proto::TCP, Direction::Egress, flags)
}

fn received(flags: u8) -> Packet {
    packet(proto::TCP, Direction::Ingress, flags)
}

#[test]
fn both_directions_have_one_key() {
    let out = flow_key(&sent(0), Direction::Egress, 7);
    assert_eq!(out, flow_key(&received(0), Direction::Ingress, 7));
    assert_eq!((out.local, out.local_port_be, out.remote, out.remote_port_be), (POD, 40000, PEER, 80));
}

#[test]
fn an_echo_and_its_reply_have_one_key() {
    let echo = Packet { src: POD, dst: PEER, src_port_be: 99, proto: proto::ICMP, flags_or_type: 8, ..Packet::EMPTY };
    let reply = Packet { src: PEER, dst: POD, flags_or_type: 0, ..echo };
    assert_eq!(flow_key(&echo, Direction::Egress, 7), flow_key(&reply, Direction::Ingress, 7));
}

#[test]
fn an_error_towards_the_pod_is_about_what_the_pod_sent() {
    assert_eq!(quoted_flow_key(&sent(0), Direction::Ingress, 7), flow_key(&sent(0), Direction::Egress, 7));
    assert_eq!(quoted_flow_key(&received(0), Direction::Egress, 7), flow_key(&received(0), Direction::Ingress, 7));
}

#[test]
fn a_connection_goes_through_its_states() {
    let mut value = open(&sent(tcp_flags::SYN), Direction::Egress, 1000);
    assert_eq!((value.state, value.flags), (ConnState::New as u8, conn_flags::OUTBOUND));
    assert_eq!(value.expires, 1000 + 120 * SECOND);
    advance(&mut value, &received(tcp_flags::SYN | tcp_flags::ACK), Direction::Ingress, 2000);
    assert_eq!(value.state, ConnState::Established as u8);
    assert_eq!(value.expires, 2000 + 86_400 * SECOND);
    advance(&mut value, &sent(tcp_flags::FIN | tcp_flags::ACK), Direction::Egress, 3000);
    assert_eq!(value.state, ConnState::Closing as u8);
    advance(&mut value, &received(tcp_flags::FIN | tcp_flags::ACK), Direction::Ingress, 4000);
    assert_eq!(value.state, ConnState::Closed as u8);
    // The last acknowledgment still belongs to it.
    assert!(!is_over(&value, &sent(tcp_flags::ACK), 5000));
    assert_eq!((value.tx_packets, value.rx_packets), (2, 2));
}

#[test]
fn a_reset_closes_at_once() {
    let mut value = open(&sent(tcp_flags::SYN), Direction::Egress, 0);
    advance(&mut value, &received(tcp_flags::RST | tcp_flags::ACK), Direction::Ingress, 0);
    assert_eq!(value.state, ConnState::Closed as u8);
}

#[test]
fn a_new_connection_on_a_closed_ones_ports_is_judged_anew_and_an_open_one_is_kept() {
    let mut value = open(&sent(tcp_flags::SYN), Direction::Egress, 0);
    assert!(!is_over(&value, &sent(tcp_flags::SYN), 1), "a repeated SYN");
    advance(&mut value, &received(tcp_flags::SYN | tcp_flags::ACK), Direction::Ingress, 0);
    assert!(!is_over(&value, &sent(tcp_flags::SYN), 1), "a stray SYN");
    advance(&mut value, &sent(tcp_flags::RST), Direction::Egress, 0);
    assert!(is_over(&value, &sent(tcp_flags::SYN), 1));
    assert!(!is_over(&value, &received(tcp_flags::SYN | tcp_flags::ACK), 1));
}

#[test]
fn datagrams_and_syns_open_and_what_has_no_ports_does_not() {
    let datagram = packet(proto::UDP, Direction::Egress, 0);
    assert!(opens(&datagram) && opens(&sent(tcp_flags::SYN)));
    assert!(!opens(&sent(tcp_flags::ACK)) && !opens(&sent(tcp_flags::SYN | tcp_flags::ACK)));
    let later = Packet { part: crate::packet::Part::Later, ..datagram };
    assert!(!opens(&later));
    assert!(opens(&Packet { part: crate::packet::Part::First, ..datagram }));
}

#[test]
fn a_flow_is_unanswered_until_somebody_answers_and_only_when_the_pod_has_opened_it() {
    let datagram = |direction| packet(proto::UDP, direction, 0);
    let mut value = open(&datagram(Direction::Egress), Direction::Egress, 0);
    advance(&mut value, &datagram(Direction::Egress), Direction::Egress, 1);
    assert!(is_unanswered(&value));
    advance(&mut value, &datagram(Direction::Ingress), Direction::Ingress, 2);
    assert!(!is_unanswered(&value));
    assert!(!is_unanswered(&open(&datagram(Direction::Ingress), Direction::Ingress, 0)));
}

#[test]
fn an_entry_ends_with_its_time() {
    let value = open(&packet(proto::UDP, Direction::Egress, 0), Direction::Egress, 0);
    let last = 30 * SECOND;
    assert!(!is_over(&value, &sent(0), last - 1));
    assert!(is_over(&value, &sent(0), last));
}

proptest! {
    #[test]
    fn packets_never_shorten_an_open_life_or_reopen(steps in prop::collection::vec((any::<bool>(), any::<u8>()), 1..40)) {
        let mut value = open(&sent(tcp_flags::SYN), Direction::Egress, 0);
        for (now, (out, flags)) in steps.into_iter().enumerate() {
            let before = value;
            let (packet, direction) = if out { (sent(flags), Direction::Egress) } else { (received(flags), Direction::Ingress) };
            advance(&mut value, &packet, direction, now as u64);
            prop_assert!(value.state >= before.state, "states only go forward");
            prop_assert_eq!(value.flags & before.flags, before.flags);
            prop_assert_eq!(value.tx_packets + value.rx_packets, before.tx_packets + before.rx_packets + 1);
            prop_assert!(value.expires > now as u64);
        }
    }
}

#[test]
fn a_quiet_datagram_flow_gives_way_and_a_connection_never() {
    let now = 1_000 * SECOND;
    for state in [ConnState::New as u8, ConnState::Established as u8] {
        let seen = |ago: u64| now - ago + lifetime(proto::UDP, state);
        assert!(!gives_way(seen(0), proto::UDP, state, now));
        assert!(!gives_way(seen(QUIET - 1), proto::UDP, state, now));
        assert!(gives_way(seen(QUIET), proto::UDP, state, now));
        assert!(!gives_way(now - 50 * SECOND + lifetime(proto::TCP, state), proto::TCP, state, now));
    }
}

#[test]
fn an_answered_question_is_spent_before_a_conversation() {
    let datagram = |direction| packet(proto::UDP, direction, 0);
    let mut value = open(&datagram(Direction::Egress), Direction::Egress, 0);
    advance(&mut value, &datagram(Direction::Ingress), Direction::Ingress, 0);
    assert_eq!(value.expires, 180 * SECOND);
    assert!(!is_spent(&value, proto::UDP, 30 * SECOND - 1));
    assert!(is_spent(&value, proto::UDP, 30 * SECOND));
    for _ in 0..2 {
        advance(&mut value, &datagram(Direction::Egress), Direction::Egress, 0);
    }
    assert!(!is_spent(&value, proto::UDP, 180 * SECOND - 1));
    assert!(is_spent(&value, proto::UDP, 180 * SECOND));
}

#[test]
fn only_what_nobody_answers_or_what_ends_is_expendable() {
    let mut value = open(&sent(tcp_flags::SYN), Direction::Egress, 0);
    assert!(!is_expendable(&value, proto::TCP, PATIENCE - 1));
    assert!(is_expendable(&value, proto::TCP, PATIENCE));
    advance(&mut value, &received(tcp_flags::SYN | tcp_flags::ACK), Direction::Ingress, 0);
    assert!(!is_expendable(&value, proto::TCP, 86_399 * SECOND));
    advance(&mut value, &sent(tcp_flags::FIN | tcp_flags::ACK), Direction::Egress, 0);
    assert!(!is_expendable(&value, proto::TCP, PATIENCE - 1));
    assert!(is_expendable(&value, proto::TCP, PATIENCE));
}
