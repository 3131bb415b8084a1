//! ICMP errors: they belong to the flow of the packet that they quote, and are translated with it.

use aya_ebpf::bindings::__sk_buff;
use skep_abi::{Addr, NatValue, Reason};
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
    let skb = Skb(skb);
    // Without a number beside the reason there is nothing that one outcome leaves unset.
    if let Err(reason) = undo(skb, s) {
        return pack(Err(reason));
    }
    if s.outside == 0 {
        return pack(Ok(PASS));
    }
    if let Err(reason) = forward::hop(skb, &s.packet) {
        return pack(Err(reason));
    }
    pack(forward::send(skb, forward::overlay_to(&s.next_hop)))
}

/// Translates the error. `s.outside` is not 0 afterwards when it goes out of the uplink again. `s.next_hop` is where it
/// goes to, or none when it belongs to no known flow.
#[inline(never)]
fn undo(skb: Skb, s: &mut Scratch) -> Result<(), Reason> {
    s.outside = 0;
    s.next_hop = Addr::NONE;
    if !parse::quoted(skb) {
        return Ok(());
    }
    s.key = nat::answer_key(&s.quoted);
    let Some(entry) = flow::quoted(s) else { return Ok(()) };
    s.outside = u32::from(forward::turns_round(entry));
    s.next_hop = entry.dst;
    rewrite(skb, &s.quoted, entry)?;
    // An error of the peer itself comes from what the peer is taken for; a router's keeps the router's address.
    if s.packet.src == s.quoted.dst {
        translate::packet(skb, &s.packet, Side::Source, &entry.src, 0)?;
    }
    if s.packet.dst != entry.dst {
        translate::packet(skb, &s.packet, Side::Destination, &entry.dst, 0)?;
    }
    Ok(())
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
