//! The short way to a pod of another node: out of the interface that leads there, past this node's routing.
//!
//! ```text
//! pod -> from_pod -> routing -> to_uplink -> wire     first packets, and whatever this file does not vouch for
//! pod -> from_pod ------------> to_uplink -> wire     packets of a flow of which others have come from there
//! ```
//!
//! With an overlay the same, by to_overlay. The program of the interface runs on either way. What the routing would have had to
//! answer goes there: packets that do not fit, that have no hop left, or that carry options.

use aya_ebpf::helpers::{bpf_redirect, bpf_redirect_neigh};
use skep_abi::{Counter, Reason};
use skep_verdict::nat;
use skep_verdict::packet::Part;

use super::scratch::Scratch;
use super::{PASS, track};
use crate::action::{Packed, pack};
use crate::skb::Skb;
use crate::{hop, mtu, record, route};

/// Whether an interface that has been noted for a flow is the one by which packets leave for pods of other nodes.
#[inline(always)]
pub(crate) fn leads(ifindex: u32) -> bool {
    track::config().is_some_and(|config| {
        let out = if config.tunnel_ifindex != 0 { config.tunnel_ifindex } else { config.uplink_ifindex };
        ifindex == out
    })
}

/// Sends a packet of a known flow, as it is now, out of an interface that [`leads`] to other nodes.
#[inline(never)]
pub(crate) fn send(skb: Skb, s: &Scratch, ifindex: u32) -> Packed {
    pack(try_send(skb, s, ifindex))
}

#[inline(always)]
fn try_send(skb: Skb, s: &Scratch, ifindex: u32) -> Result<i32, Reason> {
    let packet = &s.packet;
    if packet.part as u8 != Part::Whole as u8 || packet.has_options() {
        return Ok(PASS);
    }
    // Networks come and go: the address may be anybody's by now.
    if !nat::is_remote_pod(route::of(&s.key.remote)) || !mtu::fits(skb, ifindex) || !hop::count(skb, packet)? {
        return Ok(PASS);
    }
    record::tally(Counter::RedirectedOut);
    let overlay = track::config().is_some_and(|config| config.tunnel_ifindex != 0);
    // SAFETY: plain values; without parameters the second helper looks up route and neighbour itself.
    let action = unsafe {
        if overlay { bpf_redirect(ifindex, 0) } else { bpf_redirect_neigh(ifindex, core::ptr::null_mut(), 0, 0) }
    };
    Ok(action as i32)
}
