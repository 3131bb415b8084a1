//! Packets that leave by the uplink.

use aya_ebpf::bindings::__sk_buff;
use aya_ebpf::helpers::bpf_redirect;
use aya_ebpf::macros::classifier;
use aya_ebpf::programs::TcContext;
use skep_abi::{Addr, ConnState, Counter, Direction, NatValue, Reason, conn_flags, nat_flags};
use skep_verdict::packet::{ETH_P_IP, ETH_P_IPV6, Icmp, Packet, Part};
use skep_verdict::{conn, nat};

use super::allocate::{self, allocate};
use super::parse::parse;
use super::scratch::{self, Scratch};
use super::{PASS, SHOT, conclude, flow, forward, fragment, icmp, overlay};
use crate::action::{Packed, pack, unpack};
use crate::pod::refuse;
use crate::skb::Skb;
use crate::{maps, mtu, record, route};

#[classifier]
pub(crate) fn skep_to_uplink(ctx: TcContext) -> i32 {
    let skb = Skb(ctx.skb.skb);
    if skb.take_own() {
        return PASS;
    }
    let Some(s) = scratch::get() else { return SHOT };
    let result = match run(skb, s) {
        Ok(conclude::TOO_BIG) => unpack(too_big(skb, s)),
        result => result,
    };
    match result {
        Ok(action) => action,
        Err(reason) => scratch::dropped(skb, s, Direction::Egress, reason),
    }
}

#[inline(always)]
fn run(skb: Skb, s: &mut Scratch) -> Result<i32, Reason> {
    let v6 = match skb.ethertype() {
        ETH_P_IP => false,
        ETH_P_IPV6 => true,
        _ => return Ok(PASS),
    };
    if !parse(skb, v6) {
        return Ok(PASS);
    }
    let tunnel = scratch::config()?.tunnel_ifindex;
    if s.packet.icmp() == Icmp::Link || (tunnel != 0 && overlay::is_outer(&s.packet)) {
        return Ok(PASS);
    }
    s.now = flow::now();
    if s.packet.icmp() == Icmp::Error {
        let action = unpack(icmp::error(skb))?;
        return if s.next_hop == Addr::NONE { stay(skb, s) } else { Ok(action) };
    }
    let known = s.packet.part as u8 == Part::Whole as u8 || fragment::resolve(&mut s.packet, Direction::Egress);
    s.key = nat::key(&s.packet);
    if !known {
        return if leaves(skb, s)? { Err(Reason::UnknownFragment) } else { Ok(PASS) };
    }
    if let Some(entry) = flow::find(s) {
        forward::rewrite(skb, &s.packet, entry)?;
        return Ok(PASS);
    }
    unpack(skep_uplink_open(skb.0))
}

/// A packet of no known flow. Verified by itself, as [`parse`](super::parse) says.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn skep_uplink_open(skb: *mut __sk_buff) -> Packed {
    let Some(s) = scratch::again() else { return pack(Err(Reason::MapError)) };
    pack(try_open(Skb(skb), s))
}

#[inline(always)]
fn try_open(skb: Skb, s: &mut Scratch) -> Result<i32, Reason> {
    let config = scratch::config()?;
    // What somebody else on this node has given the node's address answers to it as the node's own packets do.
    let own = s.packet.src == *nat::node_addr(config, s.packet.v6) && s.packet.src != Addr::NONE;
    let forwarded = skb.ingress_ifindex() != 0 && !own;
    if forwarded {
        if !leaves(skb, s)? {
            return stay(skb, s);
        }
    } else if !clashes(s) {
        return Ok(PASS);
    }
    s.value = NatValue {
        expires: 0,
        packets: 0,
        src: if forwarded { *nat::node_addr(config, s.packet.v6) } else { s.packet.src },
        dst: s.packet.dst,
        src_port_be: s.packet.src_port_be,
        dst_port_be: s.packet.dst_port_be,
        state: ConnState::New as u8,
        flags: nat_flags::FORWARD | nat_flags::SNAT,
        pad: 0,
        backend: 0,
        service: 0,
    };
    nat::advance(&mut s.value, None, &s.packet, s.now);
    if unpack(allocate(skb))? == allocate::DONE {
        if forwarded {
            record::tally(Counter::Masqueraded);
        }
        forward::rewrite(skb, &s.packet, &s.value)?;
        return Ok(PASS);
    }
    let entry = flow::find(s).ok_or(Reason::MapError)?;
    forward::rewrite(skb, &s.packet, entry)?;
    Ok(PASS)
}

/// A packet that keeps its addresses. The network between the nodes may know nothing of pods, whose packets to another node
/// then go by the overlay as those to its pods do.
#[inline(always)]
fn stay(skb: Skb, s: &Scratch) -> Result<i32, Reason> {
    let tunnel = scratch::config()?.tunnel_ifindex;
    if tunnel == 0 || skb.ingress_ifindex() == 0 {
        return Ok(PASS);
    }
    let overlaid = overlay::is_other_node(&s.packet.dst) && nat::is_local_pod(route::of(&s.packet.src));
    if !overlaid {
        return Ok(PASS);
    }
    // The routing took it for a packet that leaves by the uplink, which has room for more.
    if s.packet.icmp() != Icmp::Error && mtu::is_too_big(skb, &s.packet, tunnel) {
        return Ok(conclude::TOO_BIG);
    }
    overlay::send(tunnel)
}

/// Tells a pod that its packet does not fit into the overlay.
#[inline(never)]
fn too_big(skb: Skb, s: &Scratch) -> Packed {
    pack(try_too_big(skb, s))
}

#[inline(always)]
fn try_too_big(skb: Skb, s: &Scratch) -> Result<i32, Reason> {
    let pod = skb.ingress_ifindex();
    // SAFETY: entries of a map without preallocation are freed only after a grace period that outlasts the program.
    let endpoint = unsafe { maps::endpoints.get(&pod) }.ok_or(Reason::UnknownEndpoint)?;
    refuse::too_big(skb, &s.packet, mtu::of(skb, scratch::config()?.tunnel_ifindex))?;
    skb.store(0, &endpoint.mac)?;
    skb.mark_own();
    // SAFETY: plain values.
    Ok(unsafe { bpf_redirect(pod, 0) } as i32)
}

/// Whether the packet is of a pod that speaks to somebody outside of the cluster, and first.
#[inline(always)]
fn leaves(skb: Skb, s: &Scratch) -> Result<bool, Reason> {
    let config = scratch::config()?;
    if !nat::masquerades(config) || *nat::node_addr(config, s.packet.v6) == Addr::NONE {
        return Ok(false);
    }
    if nat::keeps_source(route::of(&s.packet.dst)) || !nat::is_local_pod(route::of(&s.packet.src)) {
        return Ok(false);
    }
    // SAFETY: entries of a map without preallocation are freed only after a grace period that outlasts the program.
    let node = unsafe { maps::node_addrs.get(&s.packet.dst) };
    Ok(node.is_none() && !answers(skb, s))
}

/// Whether a pod's packet belongs to a connection that somebody outside has opened to the pod's own address.
#[inline(always)]
fn answers(skb: Skb, s: &Scratch) -> bool {
    // SAFETY: as in `leaves`.
    let Some(endpoint) = (unsafe { maps::endpoints.get(&skb.ingress_ifindex()) }) else { return false };
    let key = conn::flow_key(&s.packet, Direction::Egress, endpoint.id);
    // SAFETY: an entry that is recycled meanwhile gives a wrong answer to this one packet.
    let flow = unsafe { maps::conntrack.get(&key) };
    flow.is_some_and(|flow| flow.flags & conn_flags::OUTBOUND == 0 && !conn::is_over(flow, &s.packet, s.now))
}

#[inline(always)]
fn is_echo_request(packet: &Packet) -> bool {
    packet.flags_or_type == if packet.v6 { 128 } else { 8 }
}

/// Whether the answers to a packet with the address of the host would be taken for those of a flow that has been given the same port.
#[inline(always)]
fn clashes(s: &mut Scratch) -> bool {
    // An answer to an echo keeps the number that it was asked with.
    if s.packet.icmp() == Icmp::Echo && !is_echo_request(&s.packet) {
        return false;
    }
    s.other_key = nat::answer_key(&s.packet);
    // SAFETY: as in `leaves`.
    let holder = unsafe { maps::nat.get(&s.other_key) };
    holder.is_some_and(|holder| holder.flags & (nat_flags::FORWARD | nat_flags::SNAT) == nat_flags::SNAT)
}
