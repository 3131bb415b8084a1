//! Answers to those who ask for the link-layer address of a load balancer address.

use aya_ebpf::helpers::bpf_redirect;
use skep_abi::{Addr, Counter, Reason};
use skep_verdict::neighbour::{self, ADVERTISEMENT_LEN, ARP_LEN, SOLICITATION, SOLICITATION_LEN};
use skep_verdict::packet::{Bytes as _, Chunk, ETH_LEN, is_unspecified};
use skep_verdict::{proto, refuse};

use super::scratch::{self, Scratch};
use super::{PASS, service};
use crate::action::{Packed, pack};
use crate::record;
use crate::skb::Skb;

/// Hop limit of neighbour discovery, by which a receiver knows that a message is from its own link.
const HOP_LIMIT: u8 = 255;

/// An ARP packet.
#[inline(never)]
pub(crate) fn arp(skb: Skb) -> Packed {
    pack(try_arp(skb))
}

#[inline(always)]
fn try_arp(skb: Skb) -> Result<i32, Reason> {
    let Some(request) = skb.load::<ARP_LEN>(ETH_LEN) else { return Ok(PASS) };
    let target = neighbour::arp_target(&request);
    if target == Addr::NONE || !service::is_announced(&target) {
        return Ok(PASS);
    }
    let mac = scratch::config()?.uplink_mac;
    skb.store(ETH_LEN, &neighbour::arp_answer(&request, &mac).0)?;
    send(skb, &mac, [request[8], request[9], request[10], request[11], request[12], request[13]])
}

/// A message of neighbour discovery.
#[inline(never)]
pub(crate) fn solicitation(skb: Skb, s: &Scratch) -> Packed {
    pack(try_solicitation(skb, s))
}

#[inline(always)]
fn try_solicitation(skb: Skb, s: &Scratch) -> Result<i32, Reason> {
    let packet = &s.packet;
    if packet.flags_or_type != SOLICITATION || packet.l4 != ETH_LEN + refuse::IPV6_LEN as u32 {
        return Ok(PASS);
    }
    let Some(message) = skb.load::<SOLICITATION_LEN>(packet.l4) else { return Ok(PASS) };
    let mut target = Addr::NONE;
    target.0.copy_from_slice(&message.0[8..24]);
    // Who looks for a free address of its own has none to be answered at, and will hear of its mistake by our traffic.
    if is_unspecified(&packet.src) || !service::is_announced(&target) {
        return Ok(PASS);
    }
    let mac = scratch::config()?.uplink_mac;
    let eth: Chunk<12> = skb.load(0).ok_or(Reason::Malformed)?;
    skb.resize(ETH_LEN + (refuse::IPV6_LEN + ADVERTISEMENT_LEN) as u32)?;
    let mut header = refuse::ipv6_header(packet, proto::ICMPV6, ADVERTISEMENT_LEN as u16);
    header.0[7] = HOP_LIMIT;
    header.0[8..24].copy_from_slice(&target.0);
    skb.store(ETH_LEN, &header.0)?;
    skb.store(ETH_LEN + refuse::IPV6_LEN as u32, &neighbour::advertisement(packet, &target, &mac).0)?;
    send(skb, &mac, [eth[6], eth[7], eth[8], eth[9], eth[10], eth[11]])
}

/// Sends an answer out of the interface that the question came by.
#[inline(always)]
fn send(skb: Skb, mac: &[u8; 6], to: [u8; 6]) -> Result<i32, Reason> {
    let [a, b, c, d, e, f] = to;
    let [g, h, i, j, k, l] = *mac;
    skb.store(0, &[a, b, c, d, e, f, g, h, i, j, k, l])?;
    record::tally(Counter::NeighbourAnswers);
    skb.mark_own();
    // SAFETY: plain values.
    Ok(unsafe { bpf_redirect(skb.ifindex(), 0) } as i32)
}
