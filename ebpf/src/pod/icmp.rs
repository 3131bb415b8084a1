//! ICMP errors: they belong to the flow of the packet that they quote, and are translated with it.

use skep_abi::{Addr, Direction, Endpoint, Reason, conn_flags};
use skep_verdict::conn;
use skep_verdict::packet::Extent;

use super::scratch::Scratch;
use super::{PASS, classify, from, hairpin, track};
use crate::action::{Packed, pack, unpack};
use crate::skb::Skb;
use crate::translate::{self, Side};

/// An error's own header, before what it quotes.
const HEADER_LEN: u32 = 8;

/// An error that the pod sends.
#[inline(never)]
pub(crate) fn from_pod(skb: Skb, endpoint: &Endpoint, s: &mut Scratch) -> Packed {
    pack(try_from_pod(skb, endpoint, s))
}

#[inline(always)]
fn try_from_pod(skb: Skb, endpoint: &Endpoint, s: &mut Scratch) -> Result<i32, Reason> {
    quote(skb, s)?;
    s.key = conn::quoted_flow_key(&s.quoted, Direction::Egress, endpoint.id);
    if let Some(flow) = track::find(&s.key, s) {
        if flow.flags & conn_flags::HAIRPIN != 0 {
            return unpack(hairpin::error_to_client(skb, s, flow));
        }
        return Ok(PASS);
    }
    // What the pod quotes has the Service's address where the backend has its own.
    s.key.kind = conn::SERVICE;
    if let Some(service) = track::find(&s.key, s) {
        translate::quoted(skb, &s.quoted, Side::Source, &service.nat_addr, service.nat_port_be)?;
        translate::packet(skb, &s.packet, Side::Destination, &service.nat_addr, 0)?;
        return Ok(PASS);
    }
    unrelated(endpoint, s, Direction::Egress)
}

/// An error to the pod.
#[inline(never)]
pub(crate) fn to_pod(skb: Skb, endpoint: &Endpoint, s: &mut Scratch) -> Packed {
    pack(try_to_pod(skb, endpoint, s))
}

#[inline(always)]
fn try_to_pod(skb: Skb, endpoint: &Endpoint, s: &mut Scratch) -> Result<i32, Reason> {
    quote(skb, s)?;
    s.key = conn::quoted_flow_key(&s.quoted, Direction::Ingress, endpoint.id);
    let Some(flow) = track::find(&s.key, s) else {
        return unrelated(endpoint, s, Direction::Ingress);
    };
    if flow.nat_addr != Addr::NONE {
        translate::quoted(skb, &s.quoted, Side::Destination, &flow.nat_addr, flow.nat_port_be)?;
        // The backend's own errors come from the Service as all else it says; a router's keep the router's address.
        if s.packet.src == s.quoted.dst {
            translate::packet(skb, &s.packet, Side::Source, &flow.nat_addr, 0)?;
        }
    }
    Ok(PASS)
}

/// Reads the quoted packet.
#[inline(always)]
fn quote(skb: Skb, s: &mut Scratch) -> Result<(), Reason> {
    let (l3, v6) = (s.packet.l4 + HEADER_LEN, s.packet.v6);
    from::parse(skb, l3, v6, Extent::Quoted, &mut s.quoted)
}

/// An error about no known flow is judged as any other packet, and no flow is made of it.
#[inline(always)]
fn unrelated(endpoint: &Endpoint, s: &mut Scratch, direction: Direction) -> Result<i32, Reason> {
    s.key = conn::flow_key(&s.packet, direction, endpoint.id);
    classify::decide(endpoint, s, direction)?;
    Ok(PASS)
}
