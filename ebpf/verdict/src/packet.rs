//! Reading of packet headers.
//!
//! ```text
//! l3 --> IPv4 header with options | IPv6 header, extension headers
//! l4 --> TCP, UDP, SCTP: ports | ICMP: type, code, identifier | anything else: not looked at
//! ```
//!
//! Nothing is read at a fixed offset that options or extension headers can move, and no port is read from a fragment
//! that does not begin the datagram.

use skep_abi::{Addr, Reason};

use crate::proto;

/// `N` bytes at an address that is a multiple of 8: without that BPF has to read each byte for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct Chunk<const N: usize>(pub [u8; N]);

impl<const N: usize> core::ops::Deref for Chunk<N> {
    type Target = [u8; N];

    #[inline(always)]
    fn deref(&self) -> &[u8; N] {
        &self.0
    }
}

/// Bytes of a packet: the kernel's socket buffer, or a slice.
pub trait Bytes {
    /// Copies `N` bytes from `offset`; nothing when the packet ends before.
    fn load<const N: usize>(&self, offset: u32) -> Option<Chunk<N>>;

    /// Length of the packet, link-layer header included.
    fn len(&self) -> u32;

    /// Whether the packet does not end before `offset`.
    #[inline(always)]
    fn reaches(&self, offset: u32) -> bool {
        offset <= self.len()
    }

    /// Whether there are no bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Bytes for &[u8] {
    fn load<const N: usize>(&self, offset: u32) -> Option<Chunk<N>> {
        let offset = offset as usize;
        let bytes = self.get(offset..offset.checked_add(N)?)?;
        Some(Chunk(bytes.try_into().ok()?))
    }

    fn len(&self) -> u32 {
        <[u8]>::len(self) as u32
    }
}

/// Length of an Ethernet header.
pub const ETH_LEN: u32 = 14;
/// EtherType of IPv4.
pub const ETH_P_IP: u16 = 0x0800;
/// EtherType of ARP.
pub const ETH_P_ARP: u16 = 0x0806;
/// EtherType of IPv6.
pub const ETH_P_IPV6: u16 = 0x86dd;

/// Most extension headers that are followed; RFC 8200 gives each kind at most one place, destination options two.
const EXTENSION_HEADERS: u32 = 8;

/// TCP flag bits.
pub mod tcp_flags {
    /// No more data.
    pub const FIN: u8 = 0x01;
    /// Opens a connection.
    pub const SYN: u8 = 0x02;
    /// Ends a connection at once.
    pub const RST: u8 = 0x04;
    /// The acknowledgment number is valid.
    pub const ACK: u8 = 0x10;
}

/// Which part of a datagram a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Part {
    /// All of it.
    Whole = 0,
    /// The first fragment: it has the ports.
    First = 1,
    /// A later fragment: it has none.
    Later = 2,
}

/// What the headers of a packet say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Packet {
    /// Source address.
    pub src: Addr,
    /// Destination address.
    pub dst: Addr,
    /// Offset of the IP header.
    pub l3: u32,
    /// Offset of the header after IP and its extensions.
    pub l4: u32,
    /// Identification of a fragmented datagram, as in the packet.
    pub fragment_id: u32,
    /// Source port, network byte order; an echo identifier for ICMP echo; else 0.
    pub src_port_be: u16,
    /// Destination port, network byte order; 0 without ports.
    pub dst_port_be: u16,
    /// IP protocol number after extension headers.
    pub proto: u8,
    /// Whether this is IPv6.
    pub v6: bool,
    /// Which part of a datagram this is.
    pub part: Part,
    /// TCP flag bits, or the type of an ICMP message.
    pub flags_or_type: u8,
}

impl Packet {
    /// Nothing, to be read into.
    pub const EMPTY: Self = Self {
        src: Addr::NONE,
        dst: Addr::NONE,
        l3: 0,
        l4: 0,
        fragment_id: 0,
        src_port_be: 0,
        dst_port_be: 0,
        proto: 0,
        v6: false,
        part: Part::Whole,
        flags_or_type: 0,
    };

    /// Whether the ports are known from this packet.
    #[inline(always)]
    pub fn has_l4(&self) -> bool {
        self.part as u8 != Part::Later as u8
    }

    /// Whether there is more than a plain IP header before what it carries: IPv4 options or IPv6 extension headers, which a router
    /// may have to obey.
    #[inline(always)]
    pub fn has_options(&self) -> bool {
        self.l4 - self.l3 != if self.v6 { 40 } else { 20 }
    }

    /// Whether TCP flags are all clear but those in `wanted`, out of `mask`.
    #[inline(always)]
    pub fn tcp(&self, mask: u8, wanted: u8) -> bool {
        self.proto == proto::TCP && self.has_l4() && self.flags_or_type & mask == wanted
    }

    /// What kind of ICMP message this is; [`Icmp::No`] for other protocols.
    #[inline(always)]
    pub fn icmp(&self) -> Icmp {
        if !self.has_l4() {
            return Icmp::No;
        }
        match (self.v6, self.proto) {
            (false, proto::ICMP) => icmp4(self.flags_or_type),
            (true, proto::ICMPV6) => icmp6(self.flags_or_type),
            _ => Icmp::No,
        }
    }
}

/// Kinds of ICMP messages that are handled apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Icmp {
    /// Not ICMP.
    No,
    /// Echo request or reply.
    Echo,
    /// An error about the packet that it quotes.
    Error,
    /// Neighbour or router discovery, or multicast listener reports: needed on the link, and never leaves it.
    Link,
    /// Anything else.
    Other,
}

fn icmp4(kind: u8) -> Icmp {
    match kind {
        0 | 8 => Icmp::Echo,
        3 | 4 | 5 | 11 | 12 => Icmp::Error,
        _ => Icmp::Other,
    }
}

fn icmp6(kind: u8) -> Icmp {
    match kind {
        128 | 129 => Icmp::Echo,
        1..=127 => Icmp::Error,
        130..=137 | 143 => Icmp::Link,
        _ => Icmp::Other,
    }
}

/// How much of a packet must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The whole packet.
    Whole,
    /// Only its beginning, as an ICMP error quotes it: the IP header and eight bytes.
    Quoted,
}

/// Reads the packet whose IP header is at `l3` into `packet`, of which nothing is kept.
///
/// # Errors
///
/// [`Reason::Malformed`] when it ends too early or contradicts itself, [`Reason::UnsupportedProtocol`] when a routing
/// header makes its destination another than the one that it names.
#[inline(always)]
pub fn parse<P: Bytes>(bytes: &P, l3: u32, v6: bool, extent: Extent, packet: &mut Packet) -> Result<(), Reason> {
    packet.l3 = l3;
    packet.v6 = v6;
    packet.part = Part::Whole;
    packet.fragment_id = 0;
    packet.src_port_be = 0;
    packet.dst_port_be = 0;
    packet.flags_or_type = 0;
    if v6 {
        ipv6(bytes, packet, extent)?;
    } else {
        ipv4(bytes, packet, extent)?;
    }
    if packet.has_l4() { transport(bytes, packet, extent) } else { Ok(()) }
}

#[inline(always)]
fn ipv4<P: Bytes>(bytes: &P, packet: &mut Packet, extent: Extent) -> Result<(), Reason> {
    let l3 = packet.l3;
    let h: Chunk<20> = bytes.load(l3).ok_or(Reason::Malformed)?;
    let header_len = u32::from(h[0] & 0x0f) * 4;
    if h[0] >> 4 != 4 || header_len < 20 {
        return Err(Reason::Malformed);
    }
    let total_len = u32::from(u16::from_be_bytes([h[2], h[3]]));
    let there = bytes.len().wrapping_sub(l3);
    // A length of 0 is that of a packet of more than 64 KiB, which only lives inside one machine (BIG TCP).
    let big = total_len == 0 && there > 0xffff;
    if !big && (total_len < header_len || (extent == Extent::Whole && total_len > there)) {
        return Err(Reason::Malformed);
    }
    let fragment = u16::from_be_bytes([h[6], h[7]]);
    let (more, offset) = (fragment & 0x2000 != 0, fragment & 0x1fff);
    packet.src = Addr::v4([h[12], h[13], h[14], h[15]]);
    packet.dst = Addr::v4([h[16], h[17], h[18], h[19]]);
    packet.l4 = l3 + header_len;
    packet.fragment_id = u32::from(u16::from_ne_bytes([h[4], h[5]]));
    packet.proto = h[9];
    packet.part = part(more, offset);
    Ok(())
}

#[inline(always)]
fn ipv6<P: Bytes>(bytes: &P, packet: &mut Packet, extent: Extent) -> Result<(), Reason> {
    let l3 = packet.l3;
    let h: Chunk<40> = bytes.load(l3).ok_or(Reason::Malformed)?;
    if h[0] >> 4 != 6 {
        return Err(Reason::Malformed);
    }
    let payload_len = u32::from(u16::from_be_bytes([h[4], h[5]]));
    let there = bytes.len().wrapping_sub(l3);
    if extent == Extent::Whole && payload_len + 40 > there {
        return Err(Reason::Malformed);
    }
    packet.src = addr(&h, 8);
    packet.dst = addr(&h, 24);
    packet.l4 = l3 + 40;
    packet.proto = h[6];
    for _ in 0..EXTENSION_HEADERS {
        // Offsets stay far below this in any packet; the bound is for the verifier.
        if packet.l4 > 0xffff {
            return Err(Reason::Malformed);
        }
        match packet.proto {
            // Hop-by-hop and destination options: length in units of 8 bytes, the first not counted.
            0 | 60 => {
                let x: Chunk<2> = bytes.load(packet.l4).ok_or(Reason::Malformed)?;
                packet.proto = x[0];
                packet.l4 += (u32::from(x[1]) + 1) * 8;
            }
            43 => {
                let x: Chunk<4> = bytes.load(packet.l4).ok_or(Reason::Malformed)?;
                // Segments left: the packet is for somebody else than its destination field says.
                if x[3] != 0 {
                    return Err(Reason::UnsupportedProtocol);
                }
                packet.proto = x[0];
                packet.l4 += (u32::from(x[1]) + 1) * 8;
            }
            44 => {
                let x: Chunk<8> = bytes.load(packet.l4).ok_or(Reason::Malformed)?;
                let fragment = u16::from_be_bytes([x[2], x[3]]);
                packet.part = part(fragment & 1 != 0, fragment & 0xfff8);
                packet.fragment_id = u32::from_ne_bytes([x[4], x[5], x[6], x[7]]);
                packet.proto = x[0];
                packet.l4 += 8;
                if !packet.has_l4() {
                    return Ok(());
                }
            }
            // Authentication header: length in units of 4 bytes, two not counted.
            51 => {
                let x: Chunk<2> = bytes.load(packet.l4).ok_or(Reason::Malformed)?;
                packet.proto = x[0];
                packet.l4 += (u32::from(x[1]) + 2) * 4;
            }
            _ => return Ok(()),
        }
    }
    // Longer chains have no purpose but to hide what follows.
    Err(Reason::Malformed)
}

#[inline(always)]
fn transport<P: Bytes>(bytes: &P, packet: &mut Packet, extent: Extent) -> Result<(), Reason> {
    let l4 = packet.l4;
    match (packet.proto, extent) {
        (proto::TCP, Extent::Whole) => {
            let h: Chunk<14> = bytes.load(l4).ok_or(Reason::Malformed)?;
            let header_len = u32::from(h[12] >> 4) * 4;
            // A first fragment can end within the options, but not within the fixed part.
            if header_len < 20 || (packet.part as u8 == Part::Whole as u8 && l4 + header_len > bytes.len()) {
                return Err(Reason::Malformed);
            }
            packet.src_port_be = u16::from_ne_bytes([h[0], h[1]]);
            packet.dst_port_be = u16::from_ne_bytes([h[2], h[3]]);
            packet.flags_or_type = h[13];
        }
        (proto::UDP, Extent::Whole) => {
            let h: Chunk<8> = bytes.load(l4).ok_or(Reason::Malformed)?;
            let len = u32::from(u16::from_be_bytes([h[4], h[5]]));
            // A length of 0 belongs to packets that were joined on receipt and to IPv6 jumbograms.
            let too_long = packet.part as u8 == Part::Whole as u8 && l4 + len > bytes.len();
            if (len < 8 && len != 0) || too_long {
                return Err(Reason::Malformed);
            }
            packet.src_port_be = u16::from_ne_bytes([h[0], h[1]]);
            packet.dst_port_be = u16::from_ne_bytes([h[2], h[3]]);
        }
        (proto::TCP | proto::UDP | proto::SCTP, _) => {
            let h: Chunk<4> = bytes.load(l4).ok_or(Reason::Malformed)?;
            packet.src_port_be = u16::from_ne_bytes([h[0], h[1]]);
            packet.dst_port_be = u16::from_ne_bytes([h[2], h[3]]);
        }
        (proto::ICMP | proto::ICMPV6, _) => {
            let h: Chunk<8> = bytes.load(l4).ok_or(Reason::Malformed)?;
            packet.flags_or_type = h[0];
            if let Icmp::Echo = packet.icmp() {
                packet.src_port_be = u16::from_ne_bytes([h[4], h[5]]);
            }
        }
        _ => {}
    }
    Ok(())
}

#[inline(always)]
fn part(more: bool, offset: u16) -> Part {
    match (more, offset) {
        (false, 0) => Part::Whole,
        (true, 0) => Part::First,
        _ => Part::Later,
    }
}

#[inline(always)]
fn addr(h: &[u8; 40], at: usize) -> Addr {
    let mut addr = Addr::NONE;
    addr.0.copy_from_slice(&h[at..at + 16]);
    addr
}

/// Whether an address is IPv6 link-local (fe80::/10).
#[inline(always)]
pub fn is_link_local(addr: &Addr) -> bool {
    addr.0[0] == 0xfe && addr.0[1] & 0xc0 == 0x80
}

/// Whether an address is the IPv6 unspecified one.
#[inline(always)]
pub fn is_unspecified(addr: &Addr) -> bool {
    addr.0 == [0; 16]
}

#[cfg(test)]
mod tests;
