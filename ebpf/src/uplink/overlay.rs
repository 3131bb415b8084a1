//! The programs on the overlay's interface, by which packets to pods of other nodes leave where the network between the nodes
//! knows nothing of pods.
//!
//! ```text
//! to overlay:    known flow (answers to pods elsewhere that came by a host port) -> the node behind which the destination is
//!                becomes the remote side of the tunnel
//! from overlay:  the source must be behind the node that sent it -> known flow (answers of backends elsewhere)
//!                -> Service (host ports: their own node alone knows them) -> stack
//! ```
//!
//! A packet carries the identity of the pod that it is from, by which policy judges one whose address is not known yet where it
//! goes to, see `newcomer`.

use aya_ebpf::bindings::{
    BPF_F_TUNINFO_IPV6, BPF_F_ZERO_CSUM_TX, bpf_tunnel_key, bpf_tunnel_key__bindgen_ty_1, bpf_tunnel_key__bindgen_ty_2,
    bpf_tunnel_key__bindgen_ty_3,
};
use aya_ebpf::helpers::{bpf_redirect, bpf_skb_get_tunnel_key, bpf_skb_set_tunnel_key};
use aya_ebpf::macros::classifier;
use aya_ebpf::programs::TcContext;
use skep_abi::{Addr, Counter, Direction, OVERLAY_PORT, Reason, node_addr_flags, route_flags};
use skep_verdict::packet::{Bytes as _, ETH_P_IP, ETH_P_IPV6, Icmp, Packet, Part};
use skep_verdict::{nat, proto, tunnel};

use super::conclude::{self, conclude};
use super::parse::parse;
use super::scratch::{self, NO_NUMBER, Scratch};
use super::{PASS, SHOT, flow, forward, fragment, icmp, service};
use crate::action::{Packed, pack, unpack};
use crate::skb::Skb;
use crate::{maps, newcomer, record, route};

#[classifier]
pub(crate) fn skep_to_overlay(ctx: TcContext) -> i32 {
    let skb = Skb(ctx.skb.skb);
    let Some(s) = scratch::get() else { return SHOT };
    match unpack(leave(skb, s)) {
        Ok(action) => action,
        Err(reason) => scratch::dropped(skb, s, Direction::Egress, reason),
    }
}

#[inline(never)]
fn leave(skb: Skb, s: &mut Scratch) -> Packed {
    pack(try_leave(skb, s))
}

#[inline(always)]
fn try_leave(skb: Skb, s: &mut Scratch) -> Result<i32, Reason> {
    // A packet that was sent here by another of these programs.
    skb.take_own();
    let v6 = match skb.ethertype() {
        ETH_P_IP => false,
        ETH_P_IPV6 => true,
        // Nobody is there to answer.
        _ => return Ok(SHOT),
    };
    if !parse(skb, v6) {
        return Err(Reason::Malformed);
    }
    if s.packet.icmp() == Icmp::Link || s.packet.dst.0[0] == 0xff {
        return Ok(SHOT);
    }
    s.next_hop = Addr::NONE;
    if let Some(route) = route::of(&s.packet.dst) {
        if route.flags & route_flags::REMOTE_PODS != 0 {
            s.next_hop = route.node;
        }
    } else if is_other_node(&s.packet.dst) {
        s.next_hop = s.packet.dst;
    }
    if s.next_hop == Addr::NONE {
        return Err(Reason::NoRoute);
    }
    s.now = flow::now();
    let known = s.packet.part as u8 == Part::Whole as u8 || fragment::resolve(&mut s.packet, Direction::Egress);
    s.key = nat::key(&s.packet);
    if known && let Some(entry) = flow::find(s) {
        forward::rewrite(skb, &s.packet, entry)?;
    }
    // SAFETY: entries of a map without preallocation are freed only after a grace period that outlasts the program.
    let identity = unsafe { maps::identities.get(&s.packet.src) }.copied().unwrap_or(0);
    // SAFETY: as above.
    let tail = unsafe { maps::identity_tails.get(&identity) }.copied().unwrap_or(0);
    skb.store(0, &tunnel::addresses(identity, tail))?;
    let v6 = !s.next_hop.is_v4();
    let words = forward::words(&s.next_hop);
    let mut key = bpf_tunnel_key {
        tunnel_id: tunnel::number(identity),
        __bindgen_anon_1: bpf_tunnel_key__bindgen_ty_1 {
            // An IPv4 address is in host byte order here.
            remote_ipv6: if v6 { words } else { [u32::from_be(words[3]), 0, 0, 0] },
        },
        tunnel_tos: 0,
        tunnel_ttl: 64,
        __bindgen_anon_2: bpf_tunnel_key__bindgen_ty_2 { tunnel_ext: 0 },
        tunnel_label: 0,
        __bindgen_anon_3: bpf_tunnel_key__bindgen_ty_3 { local_ipv6: [0; 4] },
    };
    // IPv6 does not do without the outer checksum.
    let flags = if v6 { BPF_F_TUNINFO_IPV6 } else { BPF_F_ZERO_CSUM_TX };
    // SAFETY: the helper reads as many bytes as it is told to.
    let set = unsafe { bpf_skb_set_tunnel_key(skb.0, &raw mut key, size_of::<bpf_tunnel_key>() as u32, flags.into()) };
    if set != 0 {
        return Err(Reason::MapError);
    }
    record::tally(Counter::Encapsulated);
    Ok(PASS)
}

#[classifier]
pub(crate) fn skep_from_overlay(ctx: TcContext) -> i32 {
    let skb = Skb(ctx.skb.skb);
    let Some(s) = scratch::get() else { return SHOT };
    let decided = arrive(skb, s);
    let action = conclude(skb, s, decided);
    if action == PASS {
        introduce(skb, s);
    }
    action
}

/// Notes whom a packet is from that goes on to policy, when its source is another node's pod and not known here.
#[inline(never)]
fn introduce(skb: Skb, s: &Scratch) {
    // What has been given another source is from nobody that would have to be known.
    if s.number == NO_NUMBER || s.packet.src != s.key.src {
        return;
    }
    // SAFETY: as in `try_leave`.
    if unsafe { maps::identities.get(&s.packet.src) }.is_some() {
        return;
    }
    let Some(addresses) = skb.load::<12>(0) else { return };
    let (identity, tail) = tunnel::identity(s.number, &addresses);
    newcomer::introduce(&s.packet.src, identity, tail, s.now);
}

#[inline(never)]
fn arrive(skb: Skb, s: &mut Scratch) -> Packed {
    pack(try_arrive(skb, s))
}

#[inline(always)]
fn try_arrive(skb: Skb, s: &mut Scratch) -> Result<i32, Reason> {
    let v6 = match skb.ethertype() {
        ETH_P_IP => false,
        ETH_P_IPV6 => true,
        _ => return Ok(SHOT),
    };
    // The sender cannot know this interface's link-layer address.
    skb.take_for_host()?;
    if !parse(skb, v6) {
        return Err(Reason::Malformed);
    }
    check_source(skb, s)?;
    record::tally(Counter::Decapsulated);
    s.now = flow::now();
    match s.packet.icmp() {
        Icmp::Error => return unpack(icmp::error(skb)),
        Icmp::Link => return Ok(SHOT),
        _ => {}
    }
    if s.packet.part as u8 != Part::Whole as u8 && !fragment::resolve(&mut s.packet, Direction::Ingress) {
        return Ok(PASS);
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

/// A pod's address must come from the node that the pod is behind, for which the tunnel's number is noted. Anybody else's comes
/// from a node at least: a pod may send to the overlay's port, too.
#[inline(never)]
fn check_source(skb: Skb, s: &mut Scratch) -> Result<(), Reason> {
    s.number = NO_NUMBER;
    let (node, number) = sender(skb).ok_or(Reason::SpoofedSource)?;
    let route = route::of(&s.packet.src);
    if nat::is_local_pod(route) {
        return Err(Reason::SpoofedSource);
    }
    let right = match route {
        Some(route) if nat::is_remote_pod(Some(route)) => {
            s.number = number;
            route.node == node
        }
        _ => is_other_node(&node),
    };
    if right { Ok(()) } else { Err(Reason::SpoofedSource) }
}

/// The other end of the tunnel that a packet has come by, and the tunnel's number.
#[inline(always)]
fn sender(skb: Skb) -> Option<(Addr, u32)> {
    // SAFETY: zeroes are a valid key.
    let mut key = unsafe { core::mem::zeroed::<bpf_tunnel_key>() };
    let size = size_of::<bpf_tunnel_key>() as u32;
    // SAFETY: the helper writes as many bytes as it is told to, when the flag says which family the addresses are of.
    unsafe {
        if bpf_skb_get_tunnel_key(skb.0, &raw mut key, size, 0) == 0 {
            return Some((Addr::v4(key.__bindgen_anon_1.remote_ipv4.to_be_bytes()), key.tunnel_id));
        }
        if bpf_skb_get_tunnel_key(skb.0, &raw mut key, size, BPF_F_TUNINFO_IPV6.into()) == 0 {
            let words = key.__bindgen_anon_1.remote_ipv6;
            return Some((Addr(core::mem::transmute::<[u32; 4], [u8; 16]>(words)), key.tunnel_id));
        }
    }
    None
}

/// Whether a packet is one of the overlay's own, between nodes.
#[inline(always)]
pub(crate) fn is_outer(packet: &Packet) -> bool {
    packet.proto == proto::UDP && packet.dst_port_be == OVERLAY_PORT.to_be()
}

/// Sends a packet out of the overlay's interface.
#[inline(always)]
pub(crate) fn send(tunnel_ifindex: u32) -> Result<i32, Reason> {
    // SAFETY: plain values.
    Ok(unsafe { bpf_redirect(tunnel_ifindex, 0) } as i32)
}

/// Whether an address is that of another node.
#[inline(always)]
pub(crate) fn is_other_node(addr: &Addr) -> bool {
    // SAFETY: as in `try_leave`.
    let node = unsafe { maps::node_addrs.get(addr) };
    node.is_some_and(|node| node.flags & (node_addr_flags::LOCAL | node_addr_flags::HOST_ONLY) == 0)
}
