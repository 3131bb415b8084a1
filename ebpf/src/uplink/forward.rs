//! What is done with a packet of a known flow.

use aya_ebpf::bindings::{bpf_redir_neigh, bpf_redir_neigh__bindgen_ty_1};
use aya_ebpf::helpers::bpf_redirect_neigh;
use skep_abi::{Addr, Counter, NatValue, Reason, nat_flags};
use skep_verdict::packet::Packet;
use skep_verdict::{nat, proto};

use super::scratch::{self, Scratch};
use super::{PASS, conclude, overlay};
use crate::action::{Packed, pack, unpack};
use crate::skb::Skb;
use crate::translate::{self, Side};
use crate::{hop, mtu, record, route};

/// Address families of the kernel.
pub(crate) const AF_INET: u32 = 2;
pub(crate) const AF_INET6: u32 = 10;

/// Translates a packet that came in by the uplink, and sends it on.
///
/// A packet that has the node's address as source would not pass the stack's forwarding, which takes it for spoofed: it
/// goes out of the uplink from here.
#[inline(never)]
pub(crate) fn ingress(skb: Skb, packet: &Packet, entry: &NatValue) -> Packed {
    pack(try_ingress(skb, packet, entry))
}

#[inline(always)]
fn try_ingress(skb: Skb, packet: &Packet, entry: &NatValue) -> Result<i32, Reason> {
    if entry.flags & nat_flags::DSR != 0 {
        record::tally(Counter::DirectReturn);
        return direct(skb, packet, &entry.dst);
    }
    if !turns_round(entry) {
        rewrite(skb, packet, entry)?;
        return Ok(PASS);
    }
    let tunnel = overlay_to(&entry.dst);
    if tunnel != 0 && mtu::is_too_big(skb, packet, tunnel) {
        return Ok(conclude::TOO_BIG);
    }
    rewrite(skb, packet, entry)?;
    hop(skb, packet)?;
    send(skb, tunnel)
}

/// As [`ingress`], for a packet of a known flow: one that stays on this node may take the short way to its pod, as the packet
/// that it is then.
#[inline(always)]
pub(crate) fn onward(skb: Skb, s: &mut Scratch, entry: &NatValue) -> Result<i32, Reason> {
    let action = unpack(ingress(skb, &s.packet, entry))?;
    if action != PASS {
        return Ok(action);
    }
    let packet = &mut s.packet;
    (packet.src, packet.src_port_be) = (entry.src, entry.src_port_be);
    (packet.dst, packet.dst_port_be) = (entry.dst, entry.dst_port_be);
    Ok(conclude::INWARD)
}

/// Whether packets of an entry go out of the interface that they came in by: to a backend of another node, or back from
/// there to the client.
#[inline(always)]
pub(crate) fn turns_round(entry: &NatValue) -> bool {
    entry.flags & nat_flags::SNAT != 0 && entry.service != 0
}

/// Gives a packet the addresses and ports of an entry.
#[inline(never)]
pub(crate) fn rewrite(skb: Skb, packet: &Packet, entry: &NatValue) -> Result<(), Reason> {
    let ports = proto::has_ports(packet.proto);
    let source_port = ports && entry.src_port_be != packet.src_port_be;
    if entry.src != packet.src || source_port {
        translate::packet(skb, packet, Side::Source, &entry.src, entry.src_port_be)?;
    }
    if entry.dst != packet.dst || entry.dst_port_be != packet.dst_port_be {
        translate::packet(skb, packet, Side::Destination, &entry.dst, entry.dst_port_be)?;
    }
    if !ports && entry.src_port_be != packet.src_port_be {
        translate::echo(skb, packet, entry.src_port_be)?;
    }
    Ok(())
}

/// Index of the overlay's interface when that leads to `dst`, a pod of another node, else 0.
#[inline(always)]
pub(crate) fn overlay_to(dst: &Addr) -> u32 {
    let tunnel = scratch::config().map_or(0, |config| config.tunnel_ifindex);
    if tunnel != 0 && nat::is_remote_pod(route::of(dst)) { tunnel } else { 0 }
}

/// Sends a packet whose hop is counted by the overlay, `tunnel` (see [`overlay_to`]), or when that is 0 to where the node's
/// routes say, out of the uplink.
#[inline(always)]
pub(crate) fn send(skb: Skb, tunnel: u32) -> Result<i32, Reason> {
    if tunnel != 0 {
        return overlay::send(tunnel);
    }
    skb.mark_own();
    let uplink = scratch::config()?.uplink_ifindex;
    // SAFETY: without parameters the helper looks up route and neighbour itself.
    Ok(unsafe { bpf_redirect_neigh(uplink, core::ptr::null_mut(), 0, 0) } as i32)
}

/// Sends a packet as it is to a neighbour on the uplink.
#[inline(always)]
fn direct(skb: Skb, packet: &Packet, node: &Addr) -> Result<i32, Reason> {
    hop(skb, packet)?;
    skb.mark_own();
    let uplink = scratch::config()?.uplink_ifindex;
    let words = words(node);
    let mut next = bpf_redir_neigh {
        nh_family: if packet.v6 { AF_INET6 } else { AF_INET },
        __bindgen_anon_1: bpf_redir_neigh__bindgen_ty_1 {
            ipv6_nh: if packet.v6 { words } else { [words[3], 0, 0, 0] },
        },
    };
    // SAFETY: the helper reads as many bytes as it is told to.
    Ok(unsafe { bpf_redirect_neigh(uplink, &raw mut next, size_of::<bpf_redir_neigh>() as i32, 0) } as i32)
}

/// Counts the hop that the stack would have counted. What has none left ends here.
#[inline(never)]
pub(crate) fn hop(skb: Skb, packet: &Packet) -> Result<(), Reason> {
    if hop::count(skb, packet)? { Ok(()) } else { Err(Reason::NoRoute) }
}

/// The words of an address as they lie in memory.
#[inline(always)]
pub(crate) fn words(addr: &Addr) -> [u32; 4] {
    let a = &addr.0;
    [
        u32::from_ne_bytes([a[0], a[1], a[2], a[3]]),
        u32::from_ne_bytes([a[4], a[5], a[6], a[7]]),
        u32::from_ne_bytes([a[8], a[9], a[10], a[11]]),
        u32::from_ne_bytes([a[12], a[13], a[14], a[15]]),
    ]
}
