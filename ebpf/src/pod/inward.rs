//! The short way of packets from other machines into a pod, past the node's routing.
//!
//! ```text
//! wire -> from_uplink -> routing -> to_pod -> queue -> pod     first packets, and whatever this file does not vouch for
//! wire -> from_uplink ------------> to_pod -> queue -> pod     packets of a known flow that to_pod is to translate
//! wire -> from_uplink -------------------------------> pod     packets of a known flow that are not translated
//! ```
//!
//! The same with an overlay, by from_overlay.
//!
//! `to_pod` has judged the flow when it made the pod's entry, and noted there that packets of it come by this interface: the
//! routing has found nothing wrong with their source. Packets that go in at once are counted in the entry as `to_pod` would have
//! done. What the routing would have had to answer goes there, as in `away`.

use aya_ebpf::helpers::{bpf_redirect, bpf_redirect_peer};
use skep_abi::{Addr, ConnValue, Counter, Direction, Reason, conn_flags};
use skep_verdict::packet::{Packet, Part};
use skep_verdict::{conn, nat};

use super::peer::{HAS_REDIRECT_PEER, NOTED_WITHIN};
use super::scratch::{Scratch, own_addr};
use super::{PASS, classify, track};
use crate::action::{Packed, pack};
use crate::skb::Skb;
use crate::{hop, interface, maps, mtu, record, route};

/// The mark in a flow of packets that come by an interface, 0 for one that other machines are not behind.
#[inline(always)]
fn mark_of(ifindex: u32) -> u8 {
    match track::config() {
        Some(config) if ifindex == 0 || config.uplink_ifindex == 0 => 0,
        Some(config) if ifindex == config.uplink_ifindex => conn_flags::BY_UPLINK,
        Some(config) if ifindex == config.tunnel_ifindex => conn_flags::BY_OVERLAY,
        _ => 0,
    }
}

/// Whether a packet has come in by an interface that other machines are behind.
#[inline(always)]
pub(crate) fn is_from_outside(skb: Skb) -> bool {
    mark_of(skb.ingress_ifindex()) != 0
}

/// Notes in the flow of the packet in `s` by which interface its packets come, when that leads to other machines. To a pod of
/// another node they leave by the same, see `away`.
#[inline(always)]
pub(crate) fn note(skb: Skb, s: &Scratch, flow: &mut ConnValue) {
    const NOTED: u8 = conn_flags::BY_UPLINK | conn_flags::BY_OVERLAY;
    if HAS_REDIRECT_PEER.load() == 0 || flow.flags & NOTED != 0 || flow.rx_packets > NOTED_WITHIN {
        return;
    }
    let ifindex = skb.ingress_ifindex();
    let mark = mark_of(ifindex);
    if mark == 0 {
        return;
    }
    flow.flags |= mark;
    if nat::is_remote_pod(route::of(&s.packet.src)) {
        flow.backend = ifindex;
    }
    interface::note(&s.packet.dst, skb.ifindex());
}

/// Sends a packet that has come in by an interface which leads to other machines to the pod that it is for, when it is of a flow
/// that is known there. `packet` has the addresses and ports that the packet has now.
#[inline(never)]
pub(crate) fn send(skb: Skb, packet: &Packet, now: u64) -> Packed {
    pack(try_send(skb, packet, now))
}

#[inline(always)]
fn try_send(skb: Skb, packet: &Packet, now: u64) -> Result<i32, Reason> {
    if HAS_REDIRECT_PEER.load() == 0 || packet.part as u8 != Part::Whole as u8 || packet.has_options() {
        return Ok(PASS);
    }
    let Some(ifindex) = interface::of(&packet.dst) else { return Ok(PASS) };
    // SAFETY: entries of a map without preallocation are freed only after a grace period that outlasts the program.
    let Some(endpoint) = (unsafe { maps::endpoints.get(&ifindex) }) else { return Ok(PASS) };
    // Interfaces and addresses come and go: what was noted may be another pod's by now.
    if *own_addr(endpoint, packet.v6) != packet.dst || classify::is_closed(endpoint) {
        return Ok(PASS);
    }
    let key = conn::flow_key(packet, Direction::Ingress, endpoint.id);
    let Some(flow) = maps::conntrack.get_ptr_mut(&key) else { return Ok(PASS) };
    // SAFETY: as in `track::find`.
    let flow = unsafe { &mut *flow };
    if conn::is_over(flow, packet, now) || flow.flags & mark_of(skb.ifindex()) == 0 {
        return Ok(PASS);
    }
    if !mtu::fits(skb, ifindex) || !hop::count(skb, packet)? {
        return Ok(PASS);
    }
    skb.store(0, &endpoint.mac)?;
    if flow.nat_addr != Addr::NONE {
        record::tally(Counter::RedirectedToPod);
        // SAFETY: plain values.
        return Ok(unsafe { bpf_redirect(ifindex, 0) } as i32);
    }
    conn::advance(flow, packet, Direction::Ingress, now);
    record::tally(Counter::RedirectedIn);
    // SAFETY: plain values.
    Ok(unsafe { bpf_redirect_peer(ifindex, 0) } as i32)
}
