//! Answers in the place of the one that a packet is for: refusal of a connection to a Service without endpoints, and of a packet
//! that is too big. The packet itself becomes the answer.

use skep_abi::{Counter, Reason};
use skep_verdict::packet::{Bytes, Chunk, ETH_LEN, Packet};
use skep_verdict::{proto, refuse};

use crate::action::{Packed, pack};
use crate::record;
use crate::skb::Skb;

/// Answers with RST or ICMP port unreachable.
///
/// Gives a reason when no answer can or must be made: the packet is to be dropped.
#[inline(never)]
pub(crate) fn answer(skb: Skb, packet: &Packet) -> Packed {
    pack(try_answer(skb, packet))
}

#[inline(always)]
fn try_answer(skb: Skb, packet: &Packet) -> Result<i32, Reason> {
    if refuse::is_silent(packet) || !packet.has_l4() {
        return Err(Reason::NoEndpoints);
    }
    let made = match (packet.proto, packet.v6) {
        (proto::TCP, _) => reset(skb, packet),
        (_, false) => error4(skb, packet, refuse::PORT_UNREACHABLE),
        (_, true) => error6(skb, packet, refuse::PORT_UNREACHABLE),
    };
    made.map_err(|_| Reason::NoEndpoints)?;
    skb.send_back()
}

/// Makes a packet that has ports the answer that it is too big for an interface of this MTU. Where it goes is the caller's to say.
#[inline(always)]
pub(crate) fn too_big(skb: Skb, packet: &Packet, mtu: u32) -> Result<(), Reason> {
    // The interface may be gone meanwhile.
    if mtu == 0 {
        return Err(Reason::NoRoute);
    }
    if packet.v6 {
        error6(skb, packet, mtu)?;
    } else {
        error4(skb, packet, mtu)?;
    }
    record::tally(Counter::TooBig);
    Ok(())
}

#[inline(never)]
fn reset(skb: Skb, packet: &Packet) -> Result<(), Reason> {
    let segment: Chunk<{ refuse::TCP_LEN }> = skb.load(packet.l4).ok_or(Reason::Malformed)?;
    let header_len = u32::from(segment[12] >> 4) * 4;
    let payload = skb.len().wrapping_sub(packet.l4 + header_len);
    let tcp = refuse::tcp_reset(packet, &segment, payload);
    if packet.v6 {
        skb.resize(ETH_LEN + (refuse::IPV6_LEN + refuse::TCP_LEN) as u32)?;
        skb.store(ETH_LEN, &refuse::ipv6_header(packet, proto::TCP, refuse::TCP_LEN as u16))?;
        skb.store(ETH_LEN + refuse::IPV6_LEN as u32, &tcp)
    } else {
        skb.resize(ETH_LEN + (refuse::IPV4_LEN + refuse::TCP_LEN) as u32)?;
        skb.store(ETH_LEN, &refuse::ipv4_header(packet, proto::TCP, refuse::TCP_LEN as u16))?;
        skb.store(ETH_LEN + refuse::IPV4_LEN as u32, &tcp)
    }
}

#[inline(never)]
fn error4(skb: Skb, packet: &Packet, mtu: u32) -> Result<(), Reason> {
    let header: Chunk<{ refuse::IPV4_LEN }> = skb.load(packet.l3).ok_or(Reason::Malformed)?;
    let header = refuse::without_options(&header);
    let after: Chunk<{ refuse::QUOTED_LEN }> = skb.load(packet.l4).ok_or(Reason::Malformed)?;
    let payload = (refuse::ICMP_LEN + refuse::IPV4_LEN + refuse::QUOTED_LEN) as u16;
    let start = ETH_LEN + refuse::IPV4_LEN as u32;
    skb.resize(start + u32::from(payload))?;
    skb.store(ETH_LEN, &refuse::ipv4_header(packet, proto::ICMP, payload))?;
    skb.store(start, &refuse::icmp4_error(mtu, &header, &after))?;
    skb.store(start + refuse::ICMP_LEN as u32, &header)?;
    skb.store(start + (refuse::ICMP_LEN + refuse::IPV4_LEN) as u32, &after)
}

#[inline(never)]
fn error6(skb: Skb, packet: &Packet, mtu: u32) -> Result<(), Reason> {
    let mut header: Chunk<{ refuse::IPV6_LEN }> = skb.load(packet.l3).ok_or(Reason::Malformed)?;
    // Extension headers are left out, as IPv4 options are.
    header.0[6] = packet.proto;
    let after: Chunk<{ refuse::QUOTED_LEN }> = skb.load(packet.l4).ok_or(Reason::Malformed)?;
    let payload = (refuse::ICMP_LEN + refuse::IPV6_LEN + refuse::QUOTED_LEN) as u16;
    let start = ETH_LEN + refuse::IPV6_LEN as u32;
    skb.resize(start + u32::from(payload))?;
    skb.store(ETH_LEN, &refuse::ipv6_header(packet, proto::ICMPV6, payload))?;
    skb.store(start, &refuse::icmp6_error(mtu, packet, &header, &after))?;
    skb.store(start + refuse::ICMP_LEN as u32, &header)?;
    skb.store(start + (refuse::ICMP_LEN + refuse::IPV6_LEN) as u32, &after)
}
