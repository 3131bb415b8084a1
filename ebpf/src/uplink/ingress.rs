//! Packets that come in by the uplink.

use aya_ebpf::macros::classifier;
use aya_ebpf::programs::TcContext;
use skep_abi::{Direction, Reason};
use skep_verdict::packet::{ETH_P_ARP, ETH_P_IP, ETH_P_IPV6, Icmp, Part};
use skep_verdict::{nat, proto};

use super::conclude::{self, conclude};
use super::parse::parse;
use super::scratch::{self, Scratch};
use super::{PASS, SHOT, flow, forward, fragment, icmp, neighbour, overlay, service};
use crate::action::{Packed, pack, unpack};
use crate::skb::Skb;

#[classifier]
pub(crate) fn skep_from_uplink(ctx: TcContext) -> i32 {
    let skb = Skb(ctx.skb.skb);
    let Some(s) = scratch::get() else { return SHOT };
    let decided = run(skb, s);
    conclude(skb, s, decided)
}

#[inline(never)]
fn run(skb: Skb, s: &mut Scratch) -> Packed {
    pack(try_run(skb, s))
}

#[inline(always)]
fn try_run(skb: Skb, s: &mut Scratch) -> Result<i32, Reason> {
    if skb.is_for_others() {
        return Ok(PASS);
    }
    let v6 = match skb.ethertype() {
        ETH_P_IP => false,
        ETH_P_IPV6 => true,
        ETH_P_ARP => return unpack(neighbour::arp(skb)),
        _ => return Ok(PASS),
    };
    // What is malformed is the stack's to drop: most packets here are not ours.
    if !parse(skb, v6) {
        return Ok(PASS);
    }
    match s.packet.icmp() {
        Icmp::Link => return unpack(neighbour::solicitation(skb, s)),
        Icmp::Other => return Ok(PASS),
        _ => {}
    }
    if scratch::config()?.tunnel_ifindex != 0 && overlay::is_outer(&s.packet) {
        return Ok(PASS);
    }
    s.now = flow::now();
    if s.packet.icmp() == Icmp::Error {
        return unpack(icmp::error(skb));
    }
    if s.packet.part as u8 != Part::Whole as u8 && !fragment::resolve(&mut s.packet, Direction::Ingress) {
        return service::unknown_fragment(s);
    }
    s.key = nat::key(&s.packet);
    if let Some(entry) = flow::find(s).filter(|entry| !service::has_lost_backend(s, entry)) {
        return forward::onward(skb, s, entry);
    }
    if !proto::has_ports(s.packet.proto) {
        return Ok(conclude::INWARD);
    }
    unpack(service::ingress(skb))
}
