//! Packets as nearly all are: whole, TCP or UDP, without IPv6 extension headers. What is to be done with one is done in place,
//! with the least of work: this is what XDP does for itself.

use skep_abi::{Addr, NatValue};

use crate::checksum::{self, Change};
use crate::packet::{Bytes, Chunk, Packet, Part};
use crate::proto;

/// Bytes of a packet that can be changed.
pub trait Store: Bytes {
    /// Overwrites `N` bytes from `offset`, an even number of them; says whether the packet is that long.
    fn store<const N: usize>(&mut self, offset: u32, bytes: &Chunk<N>) -> bool;
}

/// What the headers of such a packet say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Plain {
    /// As [`packet::parse`](crate::packet::parse) reads it.
    pub packet: Packet,
    /// Length of the packet from its IP header on.
    pub len: u32,
    /// What routes may depend on: IPv4's type of service, or IPv6's traffic class and flow label as they lie in the packet.
    pub class: u32,
    /// IPv4's header checksum, as in the packet; 0 for IPv6.
    pub header_csum: u16,
    /// The transport header's checksum, as in the packet.
    pub csum: u16,
    /// Hops that are left (time to live, hop limit).
    pub hops: u8,
    /// Zero.
    pub pad: [u8; 3],
}

impl Plain {
    /// Nothing, to be read into.
    pub const EMPTY: Self =
        Self { packet: Packet::EMPTY, len: 0, class: 0, header_csum: 0, csum: 0, hops: 0, pad: [0; 3] };

    /// Whether the checksum is not there yet, but only the part of it that the pseudo header makes: the sender's kernel leaves
    /// the rest to hardware, and a virtual wire has none (`CHECKSUM_PARTIAL`). One in 65,535 packets whose checksum is there
    /// looks the same.
    #[inline(always)]
    pub fn is_unfinished(&self) -> bool {
        let packet = &self.packet;
        let len = self.len - (packet.l4 - packet.l3);
        self.csum == checksum::pseudo_header(&packet.src, &packet.dst, packet.proto, len)
    }
}

/// Reads the packet whose IP header is at `l3`; says whether it is one of these, and makes sense. What it says of such a packet
/// is what [`packet::parse`](crate::packet::parse) does.
#[inline(always)]
pub fn parse<P: Bytes>(bytes: &P, l3: u32, v6: bool, plain: &mut Plain) -> bool {
    plain.packet.l3 = l3;
    plain.packet.v6 = v6;
    plain.packet.part = Part::Whole;
    plain.packet.fragment_id = 0;
    let there = if v6 { ipv6(bytes, l3, plain) } else { ipv4(bytes, l3, plain) };
    there.is_some() && transport(bytes, plain).is_some()
}

#[inline(always)]
fn ipv4<P: Bytes>(bytes: &P, l3: u32, plain: &mut Plain) -> Option<()> {
    let h: Chunk<20> = bytes.load(l3)?;
    let header_len = u32::from(h[0] & 0x0f) * 4;
    let len = u32::from(u16::from_be_bytes([h[2], h[3]]));
    // More fragments, or an offset.
    let fragment = u16::from_be_bytes([h[6], h[7]]) & 0x3fff != 0;
    if h[0] >> 4 != 4 || header_len < 20 || fragment || len < header_len || !bytes.reaches(l3 + len) {
        return None;
    }
    plain.packet.l4 = l3 + header_len;
    plain.packet.fragment_id = u32::from(u16::from_ne_bytes([h[4], h[5]]));
    plain.packet.src = Addr::v4([h[12], h[13], h[14], h[15]]);
    plain.packet.dst = Addr::v4([h[16], h[17], h[18], h[19]]);
    plain.packet.proto = h[9];
    plain.len = len;
    plain.class = h[1].into();
    plain.header_csum = u16::from_ne_bytes([h[10], h[11]]);
    plain.hops = h[8];
    Some(())
}

#[inline(always)]
fn ipv6<P: Bytes>(bytes: &P, l3: u32, plain: &mut Plain) -> Option<()> {
    let h: Chunk<40> = bytes.load(l3)?;
    let len = u32::from(u16::from_be_bytes([h[4], h[5]])) + 40;
    if h[0] >> 4 != 6 || !bytes.reaches(l3 + len) {
        return None;
    }
    plain.packet.l4 = l3 + 40;
    plain.packet.src.0.copy_from_slice(&h[8..24]);
    plain.packet.dst.0.copy_from_slice(&h[24..40]);
    plain.packet.proto = h[6];
    plain.len = len;
    plain.class = u32::from_ne_bytes([h[0] & 0x0f, h[1], h[2], h[3]]);
    plain.header_csum = 0;
    plain.hops = h[7];
    Some(())
}

#[inline(always)]
fn transport<P: Bytes>(bytes: &P, plain: &mut Plain) -> Option<()> {
    let l4 = plain.packet.l4;
    let len = plain.len - (l4 - plain.packet.l3);
    let ports = match plain.packet.proto {
        proto::TCP => {
            let h: Chunk<18> = bytes.load(l4)?;
            let header_len = u32::from(h[12] >> 4) * 4;
            if header_len < 20 || header_len > len {
                return None;
            }
            plain.packet.flags_or_type = h[13];
            plain.csum = u16::from_ne_bytes([h[16], h[17]]);
            [h[0], h[1], h[2], h[3]]
        }
        proto::UDP => {
            let h: Chunk<8> = bytes.load(l4)?;
            if len < 8 || u32::from(u16::from_be_bytes([h[4], h[5]])) != len {
                return None;
            }
            plain.packet.flags_or_type = 0;
            plain.csum = u16::from_ne_bytes([h[6], h[7]]);
            [h[0], h[1], h[2], h[3]]
        }
        _ => return None,
    };
    let [a, b, c, d] = ports;
    plain.packet.src_port_be = u16::from_ne_bytes([a, b]);
    plain.packet.dst_port_be = u16::from_ne_bytes([c, d]);
    Some(())
}

/// Gives a packet that has hops left the addresses and ports of an entry and counts the hop; says whether all of it could be
/// written.
#[inline(always)]
pub fn translate<P: Store>(bytes: &mut P, plain: &Plain, entry: &NatValue) -> bool {
    let packet = &plain.packet;
    let change = Change::NONE.and_addr(&packet.src, &entry.src).and_addr(&packet.dst, &entry.dst);
    let (s, d) = (&entry.src.0, &entry.dst.0);
    let hops = plain.hops.wrapping_sub(1);
    let addressed = if packet.v6 {
        bytes.store(packet.l3 + 6, &Chunk([packet.proto, hops]))
            && bytes.store(packet.l3 + 8, &Chunk(*s))
            && bytes.store(packet.l3 + 24, &Chunk(*d))
    } else {
        let (old, new) = hop(plain);
        let csum = change.and_u16(old, new).apply(plain.header_csum).to_ne_bytes();
        let head = [hops, packet.proto, csum[0], csum[1], s[12], s[13], s[14], s[15], d[12], d[13], d[14], d[15]];
        bytes.store(packet.l3 + 8, &Chunk(head))
    };
    let (at, none) = if packet.proto == proto::UDP { (6, plain.csum == 0) } else { (16, false) };
    let change = change.and_u16(packet.src_port_be, entry.src_port_be).and_u16(packet.dst_port_be, entry.dst_port_be);
    let mut csum = change.apply(plain.csum);
    if none {
        csum = 0;
    } else if packet.proto == proto::UDP && csum == 0 {
        // 0 would say that there is none (RFC 768).
        csum = 0xffff;
    }
    let ([a, b], [c, d]) = (entry.src_port_be.to_ne_bytes(), entry.dst_port_be.to_ne_bytes());
    addressed && bytes.store(packet.l4, &Chunk([a, b, c, d])) && bytes.store(packet.l4 + at, &Chunk(csum.to_ne_bytes()))
}

/// Counts the hop of a packet that has hops left and is left alone otherwise; says whether it could be written.
#[inline(always)]
pub fn count_hop<P: Store>(bytes: &mut P, plain: &Plain) -> bool {
    let packet = &plain.packet;
    let hops = plain.hops.wrapping_sub(1);
    if packet.v6 {
        return bytes.store(packet.l3 + 6, &Chunk([packet.proto, hops]));
    }
    let (old, new) = hop(plain);
    let csum = Change::NONE.and_u16(old, new).apply(plain.header_csum).to_ne_bytes();
    bytes.store(packet.l3 + 8, &Chunk([hops, packet.proto, csum[0], csum[1]]))
}

/// The word of IPv4's header that has the hops in it, before and after.
#[inline(always)]
fn hop(plain: &Plain) -> (u16, u16) {
    let word = |hops: u8| u16::from_ne_bytes([hops, plain.packet.proto]);
    (word(plain.hops), word(plain.hops.wrapping_sub(1)))
}

#[cfg(test)]
mod tests;
