//! ICMP errors: they belong to the flow of the packet that they quote, and are translated with it.

use aya_ebpf::bindings::__sk_buff;
use skep_abi::{NatValue, Reason};
use skep_verdict::packet::Packet;
use skep_verdict::{nat, proto};

use super::scratch::Scratch;
use super::{PASS, flow, forward, parse, scratch};
use crate::action::{Packed, pack};
use crate::skb::Skb;
use crate::translate::{self, Side};

/// Translates an error that goes either way. One about no known flow is left to the stack.
#[inline(always)]
pub(crate) fn error(skb: Skb) -> Packed {
    skep_uplink_error(skb.0)
}

/// See [`error`]; verified by itself, as [`parse`] says.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn skep_uplink_error(skb: *mut __sk_buff) -> Packed {
    let Some(s) = scratch::again() else { return pack(Err(Reason::MapError)) };
    pack(try_error(Skb(skb), s))
}

#[inline(always)]
fn try_error(skb: Skb, s: &mut Scratch) -> Result<i32, Reason> {
    if !parse::quoted(skb) {
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
