//! Packets that a pod sends.

use aya_ebpf::macros::classifier;
use aya_ebpf::programs::TcContext;
use skep_abi::{Addr, Direction, Endpoint, Reason, conn_flags};
use skep_verdict::packet::{
    self, ETH_LEN, ETH_P_ARP, ETH_P_IP, ETH_P_IPV6, Extent, Icmp, Packet, Part, is_link_local, is_unspecified,
};
use skep_verdict::{conn, proto};

use super::scratch::{self, Scratch, own_addr};
use super::service::{self, Outcome};
use super::{PASS, SHOT, away, classify, fragment, hairpin, icmp, peer, refuse, track};
use crate::action::{Packed, pack, unpack};
use crate::maps;
use crate::skb::Skb;
use crate::translate::{self, Side};

const DIRECTION: Direction = Direction::Egress;

#[classifier]
pub(crate) fn skep_from_pod(ctx: TcContext) -> i32 {
    let skb = Skb(ctx.skb.skb);
    let Some(s) = scratch::get() else { return SHOT };
    // SAFETY: entries of a map without preallocation are freed only after a grace period that outlasts the program.
    let Some(endpoint) = (unsafe { maps::endpoints.get(&skb.ifindex()) }) else {
        return scratch::dropped(skb, 0, s, DIRECTION, Reason::UnknownEndpoint);
    };
    match run(skb, endpoint, s) {
        Ok(action) => action,
        Err(reason) => scratch::dropped(skb, endpoint.id, s, DIRECTION, reason),
    }
}

#[inline(always)]
fn run(skb: Skb, endpoint: &Endpoint, s: &mut Scratch) -> Result<i32, Reason> {
    let v6 = match skb.ethertype() {
        ETH_P_IP => false,
        ETH_P_IPV6 => true,
        ETH_P_ARP => return Ok(PASS),
        _ => return Err(Reason::UnsupportedProtocol),
    };
    parse(skb, ETH_LEN, v6, Extent::Whole, &mut s.packet)?;
    s.key = conn::flow_key(&s.packet, DIRECTION, endpoint.id);
    if s.packet.icmp() == Icmp::Link && stays_on_link(&s.packet, endpoint) {
        return Ok(PASS);
    }
    let own = own_addr(endpoint, v6);
    if s.packet.src != *own || *own == Addr::NONE {
        return Err(Reason::SpoofedSource);
    }
    if classify::is_closed(endpoint) {
        return Err(Reason::EndpointClosed);
    }
    s.now = track::now();
    if s.packet.icmp() == Icmp::Error {
        return unpack(icmp::from_pod(skb, endpoint, s));
    }
    if s.packet.part as u8 != Part::Whole as u8 {
        if let Err(reason) = fragment::resolve(endpoint, s, DIRECTION) {
            let passes = reason as u8 == Reason::UnknownFragment as u8 && fragment::may_pass(endpoint, s, DIRECTION);
            return if passes { Ok(PASS) } else { Err(reason) };
        }
        s.key = conn::flow_key(&s.packet, DIRECTION, endpoint.id);
    }
    if let Some(flow) = track::find(&s.key, s) {
        if flow.flags & conn_flags::HAIRPIN != 0 {
            conn::advance(flow, &s.packet, DIRECTION, s.now);
            return unpack(hairpin::to_client(skb, s, flow));
        }
        // The pod speaks to the backend itself from a port from which it also reached it through a Service: replies could
        // not be told apart. A datagram socket has one partner at a time, as a rule: what was sent last counts.
        let other = flow.nat_addr != Addr::NONE;
        if other && s.packet.proto != proto::UDP {
            return Err(Reason::SourceCollision);
        }
        let late = conn::is_unanswered(flow) && conn::opens(&s.packet) && service::has_come(s);
        if !other && !late {
            conn::advance(flow, &s.packet, DIRECTION, s.now);
            return onward(skb, s, flow.backend);
        }
        // It may be gone already.
        let _ = maps::conntrack.remove(&s.key);
    }
    match service::translate(s) {
        Outcome::Collision => Err(Reason::SourceCollision),
        Outcome::NotAService => {
            classify::decide(endpoint, s, DIRECTION)?;
            s.value = conn::open(&s.packet, DIRECTION, s.now);
            track::insert(skb, endpoint, s, DIRECTION)?;
            Ok(PASS)
        }
        Outcome::Refused => {
            let reason = s.refusal;
            let action = refuse::answer(skb, &s.packet);
            scratch::dropped(skb, endpoint.id, s, DIRECTION, reason);
            Ok(unpack(action).unwrap_or(SHOT))
        }
        Outcome::Translated => unpack(through(skb, endpoint, s)),
    }
}

/// A packet to a backend of a Service; `s.key` is its flow after translation.
#[inline(never)]
fn through(skb: Skb, endpoint: &Endpoint, s: &mut Scratch) -> Packed {
    pack(try_through(skb, endpoint, s))
}

#[inline(always)]
fn try_through(skb: Skb, endpoint: &Endpoint, s: &mut Scratch) -> Result<i32, Reason> {
    let hairpin = s.hairpin != 0;
    // The serving half of a pod that reaches itself sees the packet come in.
    let side = if hairpin { Direction::Ingress } else { DIRECTION };
    let mut ifindex = 0;
    let known = track::find(&s.key, s);
    let other = known.as_ref().is_some_and(|flow| flow.nat_addr != s.service || flow.nat_port_be != s.service_port_be);
    if let Some(flow) = known.filter(|_| !other) {
        conn::advance(flow, &s.packet, side, s.now);
        ifindex = flow.backend;
        service::remember(s, flow)?;
    } else {
        if !hairpin {
            classify::decide(endpoint, s, DIRECTION)?;
        }
        s.value = conn::open(&s.packet, side, s.now);
        s.value.nat_addr = s.service;
        s.value.nat_port_be = s.service_port_be;
        if hairpin {
            s.value.flags |= conn_flags::HAIRPIN;
        }
        track::insert(skb, endpoint, s, DIRECTION)?;
        service::remember(s, &s.value)?;
    }
    if hairpin {
        return unpack(hairpin::to_server(skb, s, s.key.local_port_be));
    }
    translate::packet(skb, &s.packet, Side::Destination, &s.key.remote, s.key.remote_port_be)?;
    onward(skb, s, ifindex)
}

/// Sends a packet of a known flow, as it is now, by a short way if one is noted: `ifindex` is that of the interface behind which
/// the flow's other side is, or 0.
#[inline(always)]
fn onward(skb: Skb, s: &mut Scratch, ifindex: u32) -> Result<i32, Reason> {
    if ifindex == 0 {
        return Ok(PASS);
    }
    unpack(if away::leads(ifindex) { away::send(skb, s, ifindex) } else { peer::send(skb, s, ifindex) })
}

/// Neighbour discovery and the like between the pod and the node's side of the link: not the pod's traffic, as ARP is
/// not. Anything that is addressed further is.
#[inline(always)]
fn stays_on_link(packet: &Packet, endpoint: &Endpoint) -> bool {
    let source = is_link_local(&packet.src) || is_unspecified(&packet.src) || packet.src == endpoint.addr6;
    // ff02::/16: multicast on the link.
    let multicast = packet.dst.0[0] == 0xff && packet.dst.0[1] & 0x0f == 0x02;
    source && (is_link_local(&packet.dst) || multicast)
}

/// Reads headers into `packet`.
#[inline(never)]
pub(crate) fn parse(skb: Skb, l3: u32, v6: bool, extent: Extent, packet: &mut Packet) -> Result<(), Reason> {
    packet::parse(&skb, l3, v6, extent, packet)
}
