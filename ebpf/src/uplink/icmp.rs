//! ICMP errors: they belong to the flow of the packet that they quote, and are translated with it.

use skep_abi::{NatValue, Reason};
use skep_verdict::packet::{Extent, Packet};
use skep_verdict::{nat, proto};

use super::scratch::Scratch;
use super::{PASS, flow, forward};
use crate::action::{Packed, pack};
use crate::pod::parse;
use crate::skb::Skb;
use crate::translate::{self, Side};

/// An error's own header, before what it quotes.
const HEADER_LEN: u32 = 8;

/// Translates an error that goes either way. One about no known flow is left to the stack.
#[inline(never)]
pub(crate) fn error(skb: Skb, s: &mut Scratch) -> Packed {
    pack(try_error(skb, s))
}

#[inline(always)]
fn try_error(skb: Skb, s: &mut Scratch) -> Result<i32, Reason> {
    let (l3, v6) = (s.packet.l4 + HEADER_LEN, s.packet.v6);
    if parse(skb, l3, v6, Extent::Quoted, &mut s.quoted).is_err() {
        return Ok(PASS);
    }
    s.key = nat::answer_key(&s.quoted);
    let Some(entry) = flow::quoted(s) else { return Ok(PASS) };
    rewrite(skb, &s.quoted, entry)?;
    // An error of the peer itself comes from what the peer is taken for; a router's keeps the router's address.
    if s.packet.src == s.quoted.dst {
        translate::packet(skb, &s.packet, Side::Source, &entry.src, 0)?;
    }
    if s.packet.dst != entry.dst {
        translate::packet(skb, &s.packet, Side::Destination, &entry.dst, 0)?;
    }
    if forward::turns_round(entry) { forward::out(skb, &s.packet) } else { Ok(PASS) }
}

/// Undoes what was done to the quoted packet: `entry` says what its answers become.
#[inline(never)]
fn rewrite(skb: Skb, quoted: &Packet, entry: &NatValue) -> Result<(), Reason> {
    if !proto::has_ports(quoted.proto) {
        translate::quoted(skb, quoted, Side::Source, &entry.dst, 0)?;
        translate::quoted(skb, quoted, Side::Destination, &entry.src, 0)?;
        return translate::quoted_echo(skb, quoted, entry.src_port_be);
    }
    translate::quoted(skb, quoted, Side::Source, &entry.dst, entry.dst_port_be)?;
    translate::quoted(skb, quoted, Side::Destination, &entry.src, entry.src_port_be)
}
