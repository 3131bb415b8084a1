//! Packets to a pod.

use aya_ebpf::macros::classifier;
use aya_ebpf::programs::TcContext;
use skep_abi::{Addr, Direction, Endpoint, Reason};
use skep_verdict::conn;
use skep_verdict::packet::{
    ETH_LEN, ETH_P_ARP, ETH_P_IP, ETH_P_IPV6, Extent, Icmp, Part, is_link_local, is_unspecified,
};

use super::from::parse;
use super::scratch::{self, Scratch, own_addr};
use super::{PASS, SHOT, classify, fragment, icmp, inward, peer, track};
use crate::action::unpack;
use crate::skb::Skb;
use crate::translate::{self, Side};
use crate::{maps, newcomer};

const DIRECTION: Direction = Direction::Ingress;

#[classifier]
pub(crate) fn skep_to_pod(ctx: TcContext) -> i32 {
    let skb = Skb(ctx.skb.skb);
    if skb.take_own() {
        return PASS;
    }
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
    // Link-local sources are not routed: this is the node's side of the link.
    let link = is_link_local(&s.packet.src) || is_unspecified(&s.packet.src);
    if s.packet.icmp() == Icmp::Link && link {
        return Ok(PASS);
    }
    if s.packet.dst != *own_addr(endpoint, v6) {
        return Err(Reason::UnknownEndpoint);
    }
    // What the node itself says does not come in from outside. For IPv4 the routing has seen to that.
    if is_node(&s.packet.src) && inward::is_from_outside(skb) {
        return Err(Reason::SpoofedSource);
    }
    if classify::is_closed(endpoint) {
        return Err(Reason::EndpointClosed);
    }
    s.now = track::now();
    if s.packet.icmp() == Icmp::Error {
        return unpack(icmp::to_pod(skb, endpoint, s));
    }
    if s.packet.part as u8 != Part::Whole as u8 {
        if let Err(reason) = fragment::resolve(endpoint, s, DIRECTION) {
            let passes = reason as u8 == Reason::UnknownFragment as u8 && fragment::may_pass(endpoint, s, DIRECTION);
            return if passes { Ok(PASS) } else { Err(reason) };
        }
        s.key = conn::flow_key(&s.packet, DIRECTION, endpoint.id);
    }
    if let Some(flow) = track::find(&s.key, s) {
        conn::advance(flow, &s.packet, DIRECTION, s.now);
        peer::note(skb, flow);
        inward::note(skb, s, flow);
        if flow.nat_addr == Addr::NONE {
            return Ok(PASS);
        }
        if s.early != 0 {
            return Err(Reason::UnknownFragment);
        }
        s.service_key = s.key;
        s.service_key.remote = flow.nat_addr;
        s.service_key.remote_port_be = flow.nat_port_be;
        s.service_key.kind = conn::SERVICE;
        // A flow with much to receive and little to say must not lose the entry that leads it to its backend.
        if let Some(service) = track::find(&s.service_key, s) {
            service.expires = flow.expires;
        }
        translate::packet(skb, &s.packet, Side::Source, &flow.nat_addr, flow.nat_port_be)?;
        return Ok(PASS);
    }
    if !is_node(&s.packet.src) {
        if comes_by_overlay(skb) {
            s.newcomer = newcomer::identity(&s.packet.src, s.now);
        }
        classify::decide(endpoint, s, DIRECTION)?;
    }
    s.value = conn::open(&s.packet, DIRECTION, s.now);
    track::insert(skb, endpoint, s, DIRECTION)?;
    Ok(PASS)
}

/// Whether the packet has come in by the overlay.
#[inline(always)]
fn comes_by_overlay(skb: Skb) -> bool {
    track::config().is_some_and(|config| config.tunnel_ifindex != 0 && config.tunnel_ifindex == skb.ingress_ifindex())
}

/// Whether the packet comes from the pod's own node, which may always reach it.
#[inline(always)]
fn is_node(addr: &Addr) -> bool {
    track::config().is_some_and(|config| *addr == config.node_addr4 || *addr == config.node_addr6)
}
