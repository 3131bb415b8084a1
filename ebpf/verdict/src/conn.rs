//! Connection tracking.
//!
//! ```text
//!         first packet            packets both ways             FIN                    FIN both ways, RST
//! (none) -------------> New ------------------------> Established ----> Closing ------------------------> Closed
//!                        ^                                                                                   |
//!                        +------------------------------- SYN: a new connection, judged anew ----------------+
//! ```

use skep_abi::{Addr, ConnKey, ConnState, ConnValue, Direction, conn_flags};

use crate::packet::{Packet, tcp_flags};
use crate::proto;

/// One second of the clock.
pub const SECOND: u64 = 1_000_000_000;

/// `kind` of a [`ConnKey`] for the flow itself.
pub const FLOW: u8 = 0;
/// `kind` of a [`ConnKey`] for a Service translation.
pub const SERVICE: u8 = 1;

/// The key of a packet's flow as seen by the pod.
#[inline(always)]
pub fn flow_key(packet: &Packet, direction: Direction, endpoint: u32) -> ConnKey {
    let (local, remote, local_port_be, remote_port_be) = match direction {
        Direction::Egress => (packet.src, packet.dst, packet.src_port_be, packet.dst_port_be),
        // An echo identifier belongs to both sides and stands in the pod's place.
        Direction::Ingress if !proto::has_ports(packet.proto) => (packet.dst, packet.src, packet.src_port_be, 0),
        Direction::Ingress => (packet.dst, packet.src, packet.dst_port_be, packet.src_port_be),
    };
    ConnKey { local, remote, endpoint, local_port_be, remote_port_be, proto: packet.proto, kind: FLOW, pad: 0 }
}

/// The key of the flow that an ICMP error is about, out of the packet that it quotes. `direction` is the error's own: an
/// error towards the pod quotes what the pod sent.
#[inline(always)]
pub fn quoted_flow_key(quoted: &Packet, direction: Direction, endpoint: u32) -> ConnKey {
    let of_quoted = match direction {
        Direction::Ingress => Direction::Egress,
        Direction::Egress => Direction::Ingress,
    };
    flow_key(quoted, of_quoted, endpoint)
}

/// Whether an entry says nothing about this packet: it has expired, or the packet opens a connection after the end of
/// the one that the entry is about.
#[inline(always)]
pub fn is_over(value: &ConnValue, packet: &Packet, now: u64) -> bool {
    let over = value.state >= ConnState::Closing as u8;
    value.expires <= now || (over && packet.tcp(tcp_flags::SYN | tcp_flags::ACK, tcp_flags::SYN))
}

/// Whether a packet may go elsewhere than the packets before it: one that opens a connection, or a datagram. What has no
/// ports of its own goes where its first fragment went.
#[inline(always)]
pub fn opens(packet: &Packet) -> bool {
    packet.has_l4() && (packet.proto == proto::UDP || packet.tcp(tcp_flags::SYN | tcp_flags::ACK, tcp_flags::SYN))
}

/// Whether the pod has opened the flow and nobody has answered yet.
#[inline(always)]
pub fn is_unanswered(value: &ConnValue) -> bool {
    value.state == ConnState::New as u8 && value.flags & conn_flags::OUTBOUND != 0
}

/// A new entry for a packet.
#[inline(always)]
pub fn open(packet: &Packet, direction: Direction, now: u64) -> ConnValue {
    let mut value = ConnValue {
        expires: 0,
        tx_packets: 0,
        rx_packets: 0,
        nat_addr: Addr::NONE,
        nat_port_be: 0,
        state: ConnState::New as u8,
        flags: if let Direction::Egress = direction { conn_flags::OUTBOUND } else { 0 },
        backend: 0,
    };
    advance(&mut value, packet, direction, now);
    value
}

/// Takes a packet of the flow into account.
#[inline(always)]
pub fn advance(value: &mut ConnValue, packet: &Packet, direction: Direction, now: u64) {
    let fin = match direction {
        Direction::Egress => {
            value.tx_packets = value.tx_packets.wrapping_add(1);
            conn_flags::FIN_TX
        }
        Direction::Ingress => {
            value.rx_packets = value.rx_packets.wrapping_add(1);
            conn_flags::FIN_RX
        }
    };
    if packet.proto == proto::TCP && packet.has_l4() && value.state != ConnState::Closed as u8 {
        let flags = packet.flags_or_type;
        if flags & tcp_flags::FIN != 0 {
            value.flags |= fin;
        }
        let both = conn_flags::FIN_TX | conn_flags::FIN_RX;
        if flags & tcp_flags::RST != 0 || value.flags & both == both {
            value.state = ConnState::Closed as u8;
        } else if value.flags & both != 0 {
            value.state = ConnState::Closing as u8;
        }
    }
    if value.state == ConnState::New as u8 && value.tx_packets != 0 && value.rx_packets != 0 {
        value.state = ConnState::Established as u8;
    }
    value.expires = now + lifetime(packet.proto, value.state);
}

/// How long a datagram flow must have been quiet to give way to another one.
pub const QUIET: u64 = SECOND;

/// Whether a flow that was last extended to `expires` gives way to another one between the same addresses and ports, of which
/// only one can be known by its answers. Datagram sockets come and go without a word, and their ports are used again long
/// before the flow expires; a connection says when it is over.
#[inline(always)]
pub fn gives_way(expires: u64, protocol: u8, state: u8, now: u64) -> bool {
    protocol == proto::UDP && now + lifetime(protocol, state) >= expires + QUIET
}

/// How long a flow must have been quiet to be expendable.
pub const PATIENCE: u64 = 5 * SECOND;

/// Packets from the pod's side up to which a datagram flow is a question and its answer rather than a conversation: A
/// resolver asks for both kinds of address from one socket.
const QUESTIONS: u64 = 2;

/// Whether nothing is lost with the entry: it has expired, or it is of a question that was answered and asks no more. The
/// packets of such a flow give it the life of a conversation, as they cannot know that it is none.
pub fn is_spent(value: &ConnValue, protocol: u8, now: u64) -> bool {
    let question = protocol == proto::UDP && value.tx_packets <= QUESTIONS;
    value.expires <= now || (question && quiet(value, protocol, now) >= lifetime(protocol, ConnState::New as u8))
}

/// Whether a flow is given up before its time when the map is nearly full: nobody has answered yet, or it is at its end, and
/// it was quiet for a while. A flood of connections that nobody completes must not keep out others, nor end established ones.
pub fn is_expendable(value: &ConnValue, protocol: u8, now: u64) -> bool {
    value.state != ConnState::Established as u8 && quiet(value, protocol, now) >= PATIENCE
}

/// Time since the last packet, nanoseconds.
fn quiet(value: &ConnValue, protocol: u8, now: u64) -> u64 {
    (now + lifetime(protocol, value.state)).saturating_sub(value.expires)
}

/// How long an entry lives after its last packet, nanoseconds. In the order of what Linux's own tracking uses
/// (nf_conntrack-sysctl), with a day for idle TCP instead of five.
#[inline(always)]
pub fn lifetime(protocol: u8, state: u8) -> u64 {
    let tcp = protocol == proto::TCP;
    let seconds = if state == ConnState::Closed as u8 {
        10
    } else if state == ConnState::Closing as u8 {
        120
    } else if state == ConnState::Established as u8 {
        if tcp { 86_400 } else { 180 }
    } else if tcp {
        120
    } else {
        30
    };
    seconds * SECOND
}

#[cfg(test)]
mod tests;
