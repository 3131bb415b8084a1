//! Reading of headers into this CPU's scratch memory.
//!
//! What is visible outside of the object and takes numbers and the context only is verified once and not for each path that
//! leads to it (Linux 5.6).

use aya_ebpf::bindings::__sk_buff;
use skep_verdict::packet::{self, ETH_LEN, Extent};

use super::scratch;
use crate::skb::Skb;

/// An ICMP error's own header, before what it quotes.
const ERROR_LEN: u32 = 8;

/// Reads the packet; says whether it makes sense.
#[inline(always)]
pub(crate) fn parse(skb: Skb, v6: bool) -> bool {
    skep_uplink_parse(skb.0, v6.into()) != 0
}

/// Reads the packet that the ICMP error at hand quotes; says whether it makes sense.
#[inline(always)]
pub(crate) fn quoted(skb: Skb) -> bool {
    skep_uplink_quoted(skb.0) != 0
}

/// See [`parse`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn skep_uplink_parse(skb: *mut __sk_buff, v6: u32) -> u64 {
    let Some(s) = scratch::again() else { return 0 };
    packet::parse(&Skb(skb), ETH_LEN, v6 != 0, Extent::Whole, &mut s.packet).is_ok().into()
}

/// See [`quoted`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn skep_uplink_quoted(skb: *mut __sk_buff) -> u64 {
    let Some(s) = scratch::again() else { return 0 };
    packet::parse(&Skb(skb), s.packet.l4 + ERROR_LEN, s.packet.v6, Extent::Quoted, &mut s.quoted).is_ok().into()
}
