//! Translation of connections that cross the uplink.
//!
//! A connection has a pair of entries, one for each direction. Either says what a packet becomes, and the key of one is
//! made from the other:
//!
//! ```text
//! forward  client:cp -> vip:vp      becomes  node:sp -> backend:bp
//! reply    backend:bp -> node:sp    becomes  vip:vp  -> client:cp
//! ```
//!
//! An ICMP echo has one number in the place of two ports, the same in both directions: it stands where the source port
//! does.

use skep_abi::{Addr, Config, ConnState, NatKey, NatValue, Route, config_flags, nat_flags, route_flags};

use crate::conn::lifetime;
use crate::packet::{Packet, tcp_flags};
use crate::proto;

/// Source ports that are tried for one packet. With two of three ports in use, as by 40,000 connections to one backend, one
/// connection in a million does not find a free one at its first packet; later packets try others.
pub const PORT_TRIES: u32 = 32;

/// The key of a packet.
#[inline(always)]
pub fn key(packet: &Packet) -> NatKey {
    NatKey {
        src: packet.src,
        dst: packet.dst,
        src_port_be: packet.src_port_be,
        dst_port_be: packet.dst_port_be,
        proto: packet.proto,
        pad: [0; 3],
    }
}

/// The key of the packets that answer a packet, out of the copy of it that an ICMP error quotes.
#[inline(always)]
pub fn answer_key(quoted: &Packet) -> NatKey {
    let (src_port_be, dst_port_be) = exchanged(quoted.proto, quoted.src_port_be, quoted.dst_port_be);
    NatKey { src: quoted.dst, dst: quoted.src, src_port_be, dst_port_be, proto: quoted.proto, pad: [0; 3] }
}

/// The key of the other entry of a pair.
#[inline(always)]
pub fn other_key(key: &NatKey, value: &NatValue) -> NatKey {
    let (src_port_be, dst_port_be) = exchanged(key.proto, value.src_port_be, value.dst_port_be);
    NatKey { src: value.dst, dst: value.src, src_port_be, dst_port_be, proto: key.proto, pad: [0; 3] }
}

/// The entry for the answers to what the entry `forward` of `key` translates.
#[inline(always)]
pub fn reply(key: &NatKey, forward: &NatValue) -> NatValue {
    let (src_port_be, dst_port_be) = exchanged(key.proto, key.src_port_be, key.dst_port_be);
    NatValue {
        expires: forward.expires,
        packets: 0,
        src: key.dst,
        dst: key.src,
        src_port_be,
        dst_port_be,
        state: ConnState::New as u8,
        flags: forward.flags & !nat_flags::FORWARD,
        pad: 0,
        backend: forward.backend,
        service: forward.service,
    }
}

#[inline(always)]
fn exchanged(protocol: u8, src_port_be: u16, dst_port_be: u16) -> (u16, u16) {
    if proto::has_ports(protocol) { (dst_port_be, src_port_be) } else { (src_port_be, dst_port_be) }
}

/// Whether the source port, or the number of an echo, can be exchanged for another. The checksum of SCTP covers the whole
/// packet and cannot be mended for a port; other protocols have no port.
#[inline(always)]
pub fn has_free_port(protocol: u8) -> bool {
    matches!(protocol, proto::TCP | proto::UDP | proto::ICMP | proto::ICMPV6)
}

/// Whether an entry says nothing about this packet: it has expired, or the packet opens a connection after the end of
/// the one that the entry is about. An expired entry lives on in the other one of its pair.
#[inline(always)]
pub fn is_over(value: &NatValue, packet: &Packet, now: u64) -> bool {
    value.expires <= now || is_replaced(value, packet)
}

/// Whether the packet opens a connection after the end of the one that the entry is about.
#[inline(always)]
pub fn is_replaced(value: &NatValue, packet: &Packet) -> bool {
    value.state >= ConnState::Closing as u8 && packet.tcp(tcp_flags::SYN | tcp_flags::ACK, tcp_flags::SYN)
}

/// Whether a packet changes what the other entry of the pair says, too: the first answer, and the end.
#[inline(always)]
pub fn concerns_both(value: &NatValue, packet: &Packet) -> bool {
    let first_answer = value.flags & nat_flags::FORWARD == 0 && value.state == ConnState::New as u8;
    first_answer || is_end(packet)
}

#[inline(always)]
fn is_end(packet: &Packet) -> bool {
    packet.proto == proto::TCP && packet.has_l4() && packet.flags_or_type & (tcp_flags::FIN | tcp_flags::RST) != 0
}

/// Takes a packet of the entry's direction into account. `other` is the other entry of the pair, if
/// [`concerns_both`] asked for it and it is there.
#[inline(always)]
pub fn advance(value: &mut NatValue, other: Option<&mut NatValue>, packet: &Packet, now: u64) {
    value.packets = value.packets.wrapping_add(1);
    if is_end(packet) {
        let reset = packet.flags_or_type & tcp_flags::RST != 0;
        let both = reset || other.as_ref().is_some_and(|other| other.state >= ConnState::Closing as u8);
        let state = if both { ConnState::Closed } else { ConnState::Closing };
        if (state as u8) > value.state {
            value.state = state as u8;
        }
        if let (true, Some(other)) = (both, other) {
            other.state = ConnState::Closed as u8;
            other.expires = now + lifetime(packet.proto, other.state);
        }
    } else if value.state == ConnState::New as u8 {
        if value.flags & nat_flags::FORWARD == 0 {
            value.state = ConnState::Established as u8;
            if let Some(other) = other.filter(|other| other.state == ConnState::New as u8) {
                other.state = ConnState::Established as u8;
                other.expires = now + lifetime(packet.proto, other.state);
            }
        } else if value.flags & nat_flags::DSR != 0 && packet.tcp(tcp_flags::SYN, 0) {
            // Answers do not come by: that the client goes on must do.
            value.state = ConnState::Established as u8;
        }
    }
    value.expires = now + lifetime(packet.proto, value.state);
}

/// Length of the stretches of time that [`begins_stretch`] tells apart, as a power of two of nanoseconds: 8.6 seconds.
const STRETCH_BITS: u32 = 33;

/// Whether a packet, which `value` says nothing of yet, is the first one of its direction in a stretch of some seconds.
///
/// Whoever sends packets without the stack's help sends these with it: only then does the stack see that a neighbour is in
/// use, and asks whether it is still there. Flows with different ports change stretches at different times.
#[inline(always)]
pub fn begins_stretch(value: &NatValue, key: &NatKey, now: u64) -> bool {
    let offset = u64::from(key.src_port_be ^ key.dst_port_be) << (STRETCH_BITS - 16);
    let last = value.expires.saturating_sub(lifetime(key.proto, value.state));
    (last + offset) >> STRETCH_BITS != (now + offset) >> STRETCH_BITS
}

/// A hash of a tuple, which is the same on every node.
#[inline(always)]
pub fn tuple_hash(key: &NatKey) -> u32 {
    let ports = u64::from(key.src_port_be) << 32 | u64::from(key.dst_port_be) << 16 | u64::from(key.proto);
    let mut hash = mix(ports ^ 0x9e37_79b9_7f4a_7c15);
    hash = mix(hash ^ half(&key.src, 8));
    hash = mix(hash ^ half(&key.src, 0));
    hash = mix(hash ^ half(&key.dst, 8));
    hash = mix(hash ^ half(&key.dst, 0));
    (hash >> 32) as u32
}

#[inline(always)]
fn half(addr: &Addr, at: usize) -> u64 {
    let a = &addr.0;
    u64::from_ne_bytes([a[at], a[at + 1], a[at + 2], a[at + 3], a[at + 4], a[at + 5], a[at + 6], a[at + 7]])
}

/// Spreads 64 bits over 64 (the finaliser of MurmurHash3).
#[inline(always)]
fn mix(mut x: u64) -> u64 {
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ x >> 33
}

/// The source ports that may be allocated: a range without the node ports in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// First port of the range.
    first: u32,
    /// How many there are.
    len: u32,
    /// First node port, if it is in the range.
    hole: u32,
    /// Node ports in the range.
    hole_len: u32,
}

impl Ports {
    /// The ports that the settings allow. Port 0 is none.
    #[inline(always)]
    pub fn new(config: &Config) -> Self {
        let first = if config.snat_port_first == 0 { 1 } else { u32::from(config.snat_port_first) };
        let end = u32::from(config.snat_port_last) + 1;
        let hole = max(u32::from(config.node_port_first), first);
        let hole_end = min(u32::from(config.node_port_last) + 1, end);
        let all = end.saturating_sub(first);
        let hole_len = hole_end.saturating_sub(hole);
        Self { first, len: all - hole_len, hole, hole_len }
    }

    /// How many there are.
    #[inline(always)]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The port to try in the `attempt`-th try for a connection with this hash. As many tries with one hash as there
    /// are ports try every port once. There must be a port.
    #[inline(always)]
    pub fn nth(&self, hash: u32, attempt: u32) -> u16 {
        // Steps of a prime that is larger than the range pass every port before one comes again.
        let step = STEPS[(hash >> 28) as usize & (STEPS.len() - 1)];
        let index = (hash % self.len + attempt * step) % self.len;
        let port = self.first + index;
        // Host ports are below 65536 whatever the hole.
        (if self.hole_len != 0 && port >= self.hole { port + self.hole_len } else { port }) as u16
    }
}

/// Primes above 65536. Several, so that connections whose tries begin at the same port go on differently.
const STEPS: [u32; 16] = [
    65_537, 70_001, 75_011, 80_021, 85_009, 90_001, 95_003, 99_991, 104_729, 110_017, 115_001, 120_011, 125_003,
    130_003, 135_007, 140_009,
];

#[inline(always)]
const fn max(a: u32, b: u32) -> u32 {
    if a > b { a } else { b }
}

#[inline(always)]
const fn min(a: u32, b: u32) -> u32 {
    if a < b { a } else { b }
}

/// Whether a packet that leaves by the uplink is of a pod of this node.
#[inline(always)]
pub fn is_local_pod(source: Option<&Route>) -> bool {
    source.is_some_and(|route| route.flags & route_flags::LOCAL_PODS != 0)
}

/// Whether a destination is a pod of another node.
#[inline(always)]
pub fn is_remote_pod(destination: Option<&Route>) -> bool {
    destination.is_some_and(|route| route.flags & route_flags::REMOTE_PODS != 0)
}

/// Whether a destination is reached with a pod's own address: another pod, or a range that is told apart.
#[inline(always)]
pub fn keeps_source(destination: Option<&Route>) -> bool {
    const KEEPS: u32 = route_flags::LOCAL_PODS | route_flags::REMOTE_PODS | route_flags::NO_MASQUERADE;
    destination.is_some_and(|route| route.flags & KEEPS != 0)
}

/// The node's own address of a family, if it has one.
#[inline(always)]
pub fn node_addr(config: &Config, v6: bool) -> &Addr {
    if v6 { &config.node_addr6 } else { &config.node_addr4 }
}

/// Whether pods that speak to the world outside do so with the node's address.
#[inline(always)]
pub fn masquerades(config: &Config) -> bool {
    config.flags & config_flags::MASQUERADE != 0
}

#[cfg(test)]
mod tests;
