//! Answers that the dataplane gives in a peer's name: TCP RST, ICMP port unreachable and too big.
//!
//! Functions here fill in headers and their checksums; the caller puts them in place of the refused packet.

use skep_abi::Addr;

use crate::packet::{Chunk, Packet, tcp_flags};
use crate::proto;

/// Bytes of a TCP header without options.
pub const TCP_LEN: usize = 20;
/// Bytes of an ICMP header.
pub const ICMP_LEN: usize = 8;
/// Bytes of an IPv4 header without options.
pub const IPV4_LEN: usize = 20;
/// Bytes of an IPv6 header.
pub const IPV6_LEN: usize = 40;
/// Bytes after the IP header that an ICMP error quotes: enough for ports.
pub const QUOTED_LEN: usize = 8;

/// Whether a refusal must be silent, lest two machines refuse each other's refusals: a TCP segment with RST.
#[inline(always)]
pub fn is_silent(packet: &Packet) -> bool {
    packet.proto == proto::TCP && packet.flags_or_type & tcp_flags::RST != 0
}

/// The RST to a TCP segment, as RFC 9293 section 3.10.7.1 has it for a connection that does not exist.
///
/// `segment` is the refused segment's header, `payload` the bytes that follow it; the result goes from the packet's
/// destination to its source and carries its checksum.
#[inline(always)]
pub fn tcp_reset(packet: &Packet, segment: &[u8; TCP_LEN], payload: u32) -> Chunk<TCP_LEN> {
    let flags = segment[13];
    let mut chunk = Chunk([0; TCP_LEN]);
    let h = &mut chunk.0;
    h[0] = segment[2];
    h[1] = segment[3];
    h[2] = segment[0];
    h[3] = segment[1];
    h[12] = 5 << 4;
    if flags & tcp_flags::ACK != 0 {
        h[4] = segment[8];
        h[5] = segment[9];
        h[6] = segment[10];
        h[7] = segment[11];
        h[13] = tcp_flags::RST;
    } else {
        let mut ack = u32::from_be_bytes([segment[4], segment[5], segment[6], segment[7]]).wrapping_add(payload);
        if flags & tcp_flags::SYN != 0 {
            ack = ack.wrapping_add(1);
        }
        if flags & tcp_flags::FIN != 0 {
            ack = ack.wrapping_add(1);
        }
        let ack = ack.to_be_bytes();
        h[8] = ack[0];
        h[9] = ack[1];
        h[10] = ack[2];
        h[11] = ack[3];
        h[13] = tcp_flags::RST | tcp_flags::ACK;
    }
    let sum = pseudo_header(&packet.dst, &packet.src, packet.v6, proto::TCP, TCP_LEN);
    let sum = finish(add(sum, h)).to_ne_bytes();
    h[16] = sum[0];
    h[17] = sum[1];
    chunk
}

/// The IPv4 header of an answer to the packet, with `payload` bytes after it.
#[inline(always)]
pub fn ipv4_header(packet: &Packet, protocol: u8, payload: u16) -> Chunk<IPV4_LEN> {
    let len = (payload + IPV4_LEN as u16).to_be_bytes();
    let (s, d) = (&packet.dst.0, &packet.src.0);
    let mut chunk = Chunk([
        0x45, 0, len[0], len[1], 0, 0, 0x40, 0, 64, protocol, 0, 0, s[12], s[13], s[14], s[15], d[12], d[13], d[14],
        d[15],
    ]);
    let h = &mut chunk.0;
    let sum = finish(add(0, h)).to_ne_bytes();
    h[10] = sum[0];
    h[11] = sum[1];
    chunk
}

/// The IPv6 header of an answer to the packet, with `payload` bytes after it.
#[inline(always)]
pub fn ipv6_header(packet: &Packet, protocol: u8, payload: u16) -> Chunk<IPV6_LEN> {
    let len = payload.to_be_bytes();
    let mut chunk = Chunk([0; IPV6_LEN]);
    let h = &mut chunk.0;
    h[0] = 0x60;
    h[4] = len[0];
    h[5] = len[1];
    h[6] = protocol;
    h[7] = 64;
    h[8..24].copy_from_slice(&packet.dst.0);
    h[24..40].copy_from_slice(&packet.src.0);
    chunk
}

/// An IPv4 header as if it had no options. Where the ports stand in a quoted packet is then known without reading on: an error
/// may quote less than the options and eight bytes.
#[inline(always)]
pub fn without_options(header: &[u8; IPV4_LEN]) -> Chunk<IPV4_LEN> {
    let mut chunk = Chunk(*header);
    let h = &mut chunk.0;
    if h[0] != 0x45 {
        h[0] = 0x45;
        h[10] = 0;
        h[11] = 0;
        let sum = finish(add(0, h)).to_ne_bytes();
        h[10] = sum[0];
        h[11] = sum[1];
    }
    chunk
}

/// In the place of an MTU: the error is about the port.
pub const PORT_UNREACHABLE: u32 = 0;

/// The header of an ICMP error that quotes an IP header and the bytes after it: "fragmentation needed" with the MTU (RFC 1191
/// section 4), or for [`PORT_UNREACHABLE`] that (RFC 792).
#[inline(always)]
pub fn icmp4_error(mtu: u32, header: &[u8; IPV4_LEN], after: &[u8; QUOTED_LEN]) -> Chunk<ICMP_LEN> {
    let m = (if mtu > 0xffff { 0xffff } else { mtu as u16 }).to_be_bytes();
    let code = if mtu == PORT_UNREACHABLE { 3 } else { 4 };
    let mut chunk = Chunk([3, code, 0, 0, 0, 0, m[0], m[1]]);
    let h = &mut chunk.0;
    let sum = finish(add(add(add(0, h), header), after)).to_ne_bytes();
    h[2] = sum[0];
    h[3] = sum[1];
    chunk
}

/// The header of an ICMPv6 error that quotes an IP header and the bytes after it: "packet too big" with the MTU (RFC 4443
/// section 3.2), or for [`PORT_UNREACHABLE`] that (section 3.1).
#[inline(always)]
pub fn icmp6_error(mtu: u32, packet: &Packet, header: &[u8; IPV6_LEN], after: &[u8; QUOTED_LEN]) -> Chunk<ICMP_LEN> {
    let m = mtu.to_be_bytes();
    let [kind, code] = if mtu == PORT_UNREACHABLE { [1, 4] } else { [2, 0] };
    let mut chunk = Chunk([kind, code, 0, 0, m[0], m[1], m[2], m[3]]);
    let h = &mut chunk.0;
    let len = ICMP_LEN + IPV6_LEN + QUOTED_LEN;
    let sum = pseudo_header(&packet.dst, &packet.src, true, proto::ICMPV6, len);
    let sum = finish(add(add(add(sum, h), header), after)).to_ne_bytes();
    h[2] = sum[0];
    h[3] = sum[1];
    chunk
}

/// Sum of the pseudo header that TCP, UDP and ICMPv6 checksums cover.
#[inline(always)]
pub(crate) fn pseudo_header(src: &Addr, dst: &Addr, v6: bool, protocol: u8, len: usize) -> u32 {
    // The mapping prefix of an IPv4 address is no part of its pseudo header.
    let prefix = if v6 { 0 } else { 2 * 0xffff };
    let rest = u32::from(u16::from(protocol).to_be()) + u32::from((len as u16).to_be());
    add(add(rest, &src.0), &dst.0) - prefix
}

/// Adds an even number of bytes as 16-bit words of this machine: the sum's bytes then come out in network order by
/// themselves (RFC 1071 section 2, byte order independence).
#[inline(always)]
pub(crate) fn add<const N: usize>(mut sum: u32, bytes: &[u8; N]) -> u32 {
    let mut i = 0;
    while i + 1 < N {
        sum += u32::from(u16::from_ne_bytes([bytes[i], bytes[i + 1]]));
        i += 2;
    }
    sum
}

/// The Internet checksum (RFC 1071) to a sum of at most a few thousand words.
#[inline(always)]
pub(crate) fn finish(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    !(sum as u16)
}

#[cfg(test)]
mod tests;
