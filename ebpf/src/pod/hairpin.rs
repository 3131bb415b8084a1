//! A pod that reaches itself through a Service.
//!
//! The pod would not accept a packet from its own address, so that the Service's address stands in for the client's:
//!
//! ```text
//! client half                         serving half
//! P:cp -> V:vp    ==  becomes  ==>    V:cp -> P:sp
//! V:vp -> P:cp    <== becomes  ==     P:sp -> V:cp
//! ```
//!
//! Both packets come from the pod and go back to it without meeting the node's routing or a policy: a pod may always reach
//! itself.

use skep_abi::{ConnValue, Reason};

use super::scratch::Scratch;
use crate::action::{Packed, pack};
use crate::skb::Skb;
use crate::translate::{self, Side};

/// Sends what the client half said to the serving half, whose port is `port_be`.
#[inline(never)]
pub(crate) fn to_server(skb: Skb, s: &Scratch, port_be: u16) -> Packed {
    pack(try_to_server(skb, s, port_be))
}

#[inline(always)]
fn try_to_server(skb: Skb, s: &Scratch, port_be: u16) -> Result<i32, Reason> {
    let packet = &s.packet;
    translate::packet(skb, packet, Side::Source, &packet.dst, packet.src_port_be)?;
    translate::packet(skb, packet, Side::Destination, &packet.src, port_be)?;
    skb.send_back()
}

/// Sends what the serving half said to the client half.
#[inline(never)]
pub(crate) fn to_client(skb: Skb, s: &Scratch, conn: &ConnValue) -> Packed {
    pack(try_to_client(skb, s, conn))
}

#[inline(always)]
fn try_to_client(skb: Skb, s: &Scratch, conn: &ConnValue) -> Result<i32, Reason> {
    let packet = &s.packet;
    translate::packet(skb, packet, Side::Source, &packet.dst, conn.nat_port_be)?;
    translate::packet(skb, packet, Side::Destination, &packet.src, packet.dst_port_be)?;
    skb.send_back()
}

/// Sends an ICMP error of the serving half to the client half, whose packet it quotes as the serving half saw it.
#[inline(never)]
pub(crate) fn error_to_client(skb: Skb, s: &Scratch, conn: &ConnValue) -> Packed {
    pack(try_error_to_client(skb, s, conn))
}

#[inline(always)]
fn try_error_to_client(skb: Skb, s: &Scratch, conn: &ConnValue) -> Result<i32, Reason> {
    let (packet, quoted) = (&s.packet, &s.quoted);
    translate::quoted(skb, quoted, Side::Source, &quoted.dst, quoted.src_port_be)?;
    translate::quoted(skb, quoted, Side::Destination, &quoted.src, conn.nat_port_be)?;
    translate::packet(skb, packet, Side::Source, &packet.dst, 0)?;
    translate::packet(skb, packet, Side::Destination, &packet.src, 0)?;
    skb.send_back()
}
