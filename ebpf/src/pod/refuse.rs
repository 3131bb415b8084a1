//! Refusal of a connection to a Service without endpoints: the packet itself becomes the answer and goes back to where it
//! came from.

use skep_abi::Reason;
use skep_verdict::packet::{Bytes, Chunk, ETH_LEN, Packet};
use skep_verdict::{proto, refuse};

use crate::action::{Packed, pack};
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
        (_, false) => unreachable4(skb, packet),
        (_, true) => unreachable6(skb, packet),
    };
    made.map_err(|_| Reason::NoEndpoints)?;
    skb.send_back()
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
fn unreachable4(skb: Skb, packet: &Packet) -> Result<(), Reason> {
    let header: Chunk<{ refuse::IPV4_LEN }> = skb.load(packet.l3).ok_or(Reason::Malformed)?;
    let header = refuse::without_options(&header);
    let after: Chunk<{ refuse::QUOTED_LEN }> = skb.load(packet.l4).ok_or(Reason::Malformed)?;
    let payload = (refuse::ICMP_LEN + refuse::IPV4_LEN + refuse::QUOTED_LEN) as u16;
    let start = ETH_LEN + refuse::IPV4_LEN as u32;
    skb.resize(start + u32::from(payload))?;
    skb.store(ETH_LEN, &refuse::ipv4_header(packet, proto::ICMP, payload))?;
    skb.store(start, &refuse::icmp4_unreachable(&header, &after))?;
    skb.store(start + refuse::ICMP_LEN as u32, &header)?;
    skb.store(start + (refuse::ICMP_LEN + refuse::IPV4_LEN) as u32, &after)
}

#[inline(never)]
fn unreachable6(skb: Skb, packet: &Packet) -> Result<(), Reason> {
    let mut header: Chunk<{ refuse::IPV6_LEN }> = skb.load(packet.l3).ok_or(Reason::Malformed)?;
    // Extension headers are left out, as IPv4 options are.
    header.0[6] = packet.proto;
    let after: Chunk<{ refuse::QUOTED_LEN }> = skb.load(packet.l4).ok_or(Reason::Malformed)?;
    let payload = (refuse::ICMP_LEN + refuse::IPV6_LEN + refuse::QUOTED_LEN) as u16;
    let start = ETH_LEN + refuse::IPV6_LEN as u32;
    skb.resize(start + u32::from(payload))?;
    skb.store(ETH_LEN, &refuse::ipv6_header(packet, proto::ICMPV6, payload))?;
    skb.store(start, &refuse::icmp6_unreachable(packet, &header, &after))?;
    skb.store(start + refuse::ICMP_LEN as u32, &header)?;
    skb.store(start + (refuse::ICMP_LEN + refuse::IPV6_LEN) as u32, &after)
}
