//! Rewriting of addresses and ports, checksums included.

use aya_ebpf::bindings::{BPF_F_MARK_MANGLED_0, BPF_F_PSEUDO_HDR};
use aya_ebpf::helpers::bpf_csum_diff;
use skep_abi::{Addr, Reason};
use skep_verdict::packet::Packet;
use skep_verdict::proto;

use crate::skb::Skb;

/// Which half of a packet's tuple changes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Source,
    Destination,
}

const PSEUDO: u64 = BPF_F_PSEUDO_HDR as u64;
const MANGLED: u64 = BPF_F_MARK_MANGLED_0 as u64;

/// Changes address and port of a packet. A fragment that has no port keeps the rest.
#[inline(never)]
pub(crate) fn packet(skb: Skb, packet: &Packet, side: Side, addr: &Addr, port_be: u16) -> Result<(), Reason> {
    let old = match side {
        Side::Source => &packet.src,
        Side::Destination => &packet.dst,
    };
    let old_port_be = match side {
        Side::Source => packet.src_port_be,
        Side::Destination => packet.dst_port_be,
    };
    // Offset of the checksum and flags for it: only UDP over IPv4 can be without one.
    let (csum, flags) = match packet.proto {
        proto::TCP => (packet.l4 + 16, 0),
        proto::UDP => (packet.l4 + 6, MANGLED),
        proto::ICMPV6 => (packet.l4 + 2, 0),
        _ => (0, 0),
    };
    let has_l4 = packet.has_l4() && csum != 0;
    if packet.v6 {
        if has_l4 {
            skb.l4_csum(csum, 0, diff(old, addr), PSEUDO | flags)?;
        }
    } else {
        let (from, to) = (v4(old), v4(addr));
        skb.l3_csum(packet.l3 + 10, from, to)?;
        if has_l4 {
            skb.l4_csum(csum, from.into(), to.into(), PSEUDO | flags | 4)?;
        }
    }
    if packet.v6 {
        // No header checksum makes up for the address in what the hardware has added up (CHECKSUM_COMPLETE), and
        // `l4_csum` takes for granted that one does.
        skb.store_and_sum(offset6(packet, side), &addr.0)?;
    } else {
        store_addr(skb, packet, side, addr)?;
    }
    if has_l4 && packet.proto != proto::ICMPV6 && old_port_be != port_be {
        skb.l4_csum(csum, old_port_be.into(), port_be.into(), flags | 2)?;
        let offset = match side {
            Side::Source => packet.l4,
            Side::Destination => packet.l4 + 2,
        };
        skb.store(offset, &port_be.to_ne_bytes())?;
    }
    Ok(())
}

/// Changes address and port of a packet that an ICMP error quotes. `icmp_csum` is the offset of the error's checksum.
///
/// The quoted packet's own TCP or UDP checksum is left: part of what it covers is cut off, nobody can check it.
#[inline(never)]
pub(crate) fn quoted(skb: Skb, quoted: &Packet, side: Side, addr: &Addr, port_be: u16) -> Result<(), Reason> {
    let old = match side {
        Side::Source => &quoted.src,
        Side::Destination => &quoted.dst,
    };
    let (old_port_be, offset) = match side {
        Side::Source => (quoted.src_port_be, quoted.l4),
        Side::Destination => (quoted.dst_port_be, quoted.l4 + 2),
    };
    // An ICMP error's header of 8 bytes stands before what it quotes.
    let icmp_csum = quoted.l3 - 6;
    if quoted.v6 {
        skb.l4_csum(icmp_csum, 0, diff(old, addr), 0)?;
    } else {
        // The header's own checksum changes by the opposite: the error's checksum, which covers both, stays right.
        skb.l3_csum(quoted.l3 + 10, v4(old), v4(addr))?;
    }
    store_addr(skb, quoted, side, addr)?;
    if quoted.has_l4() && proto::has_ports(quoted.proto) && old_port_be != port_be {
        skb.l4_csum(icmp_csum, old_port_be.into(), port_be.into(), 2)?;
        skb.store(offset, &port_be.to_ne_bytes())?;
    }
    Ok(())
}

/// Changes the identifier of an ICMP echo.
#[inline(never)]
pub(crate) fn echo(skb: Skb, packet: &Packet, id_be: u16) -> Result<(), Reason> {
    if !packet.has_l4() {
        return Ok(());
    }
    skb.l4_csum(packet.l4 + 2, packet.src_port_be.into(), id_be.into(), 2)?;
    skb.store(packet.l4 + 4, &id_be.to_ne_bytes())
}

/// Changes the identifier of an echo that an ICMP error quotes. The quoted echo's own checksum changes with it, and by the
/// opposite: the error's, which covers both, stays right.
#[inline(never)]
pub(crate) fn quoted_echo(skb: Skb, quoted: &Packet, id_be: u16) -> Result<(), Reason> {
    if !quoted.has_l4() || quoted.src_port_be == id_be {
        return Ok(());
    }
    skb.l4_csum(quoted.l4 + 2, quoted.src_port_be.into(), id_be.into(), 2)?;
    skb.store(quoted.l4 + 4, &id_be.to_ne_bytes())
}

#[inline(always)]
fn store_addr(skb: Skb, packet: &Packet, side: Side, addr: &Addr) -> Result<(), Reason> {
    if packet.v6 {
        skb.store(offset6(packet, side), &addr.0)
    } else {
        let offset = match side {
            Side::Source => packet.l3 + 12,
            Side::Destination => packet.l3 + 16,
        };
        skb.store(offset, &v4(addr).to_ne_bytes())
    }
}

/// Where an address is in an IPv6 packet.
#[inline(always)]
fn offset6(packet: &Packet, side: Side) -> u32 {
    match side {
        Side::Source => packet.l3 + 8,
        Side::Destination => packet.l3 + 24,
    }
}

/// The last word of an IPv4-mapped address as it lies in the packet.
#[inline(always)]
fn v4(addr: &Addr) -> u32 {
    let a = &addr.0;
    u32::from_ne_bytes([a[12], a[13], a[14], a[15]])
}

/// What a checksum changes by when one address takes the place of another.
#[inline(always)]
fn diff(old: &Addr, new: &Addr) -> u64 {
    // SAFETY: the helper reads 16 bytes of each.
    unsafe { bpf_csum_diff(old.0.as_ptr().cast_mut().cast(), 16, new.0.as_ptr().cast_mut().cast(), 16, 0) as u64 }
}
