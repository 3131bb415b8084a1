//! Packets, and an independent reading of their checksums.

use std::net::{IpAddr, SocketAddr};

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const SYN: u8 = 2;
pub(crate) const ACK: u8 = 16;
pub(crate) const RST: u8 = 4;

/// What stands between the fixed IP header and the transport header.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extra {
    /// IPv4 options, a multiple of 4 bytes.
    pub(crate) options: Vec<u8>,
    /// IPv6 extension headers as (number, body with its first byte left for the next header's number).
    pub(crate) extensions: Vec<(u8, Vec<u8>)>,
}

impl Extra {
    /// Some of either kind.
    pub(crate) fn some() -> Self {
        // No-operation options; hop-by-hop and destination options with padding, 16 and 8 bytes.
        let (hop, destination) = (vec![0, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], vec![0, 0, 1, 4, 0, 0, 0, 0]);
        Self { options: vec![1; 12], extensions: vec![(0, hop), (60, destination)] }
    }
}

/// A TCP segment in a frame.
pub(crate) fn tcp(from: SocketAddr, to: SocketAddr, flags: u8, payload: &[u8], extra: &Extra) -> Vec<u8> {
    let mut segment = [&from.port().to_be_bytes()[..], &to.port().to_be_bytes()].concat();
    segment.extend([0, 0, 0x10, 0, 0, 0, 0x20, 0, 5 << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
    segment.extend(payload);
    frame(from.ip(), to.ip(), TCP, segment, extra)
}

/// A UDP datagram in a frame.
pub(crate) fn udp(from: SocketAddr, to: SocketAddr, payload: &[u8], extra: &Extra) -> Vec<u8> {
    let mut datagram = [&from.port().to_be_bytes()[..], &to.port().to_be_bytes()].concat();
    datagram.extend((payload.len() as u16 + 8).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    frame(from.ip(), to.ip(), UDP, datagram, extra)
}

/// An Ethernet frame; the checksum of the transport header is filled in.
pub(crate) fn frame(from: IpAddr, to: IpAddr, proto: u8, mut l4: Vec<u8>, extra: &Extra) -> Vec<u8> {
    if let Some(at) = checksum_offset(proto) {
        let sum = checksum(&[pseudo(from, to, proto, l4.len()), l4.clone()].concat());
        l4[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
    let mut frame = vec![2, 0, 0, 0, 1, 1, 2, 0, 0, 0, 2, 1];
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            frame.extend([8, 0]);
            let len = 20 + extra.options.len();
            let mut header = vec![0x40 | (len / 4) as u8, 0];
            header.extend(((len + l4.len()) as u16).to_be_bytes());
            header.extend([0, 7, 0x40, 0, 64, proto, 0, 0]);
            header.extend(from.octets());
            header.extend(to.octets());
            header.extend(&extra.options);
            let sum = checksum(&header).to_be_bytes();
            header[10..12].copy_from_slice(&sum);
            frame.extend(header);
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            let mut body = Vec::new();
            for (i, (_, extension)) in extra.extensions.iter().enumerate() {
                let next = extra.extensions.get(i + 1).map_or(proto, |(number, _)| *number);
                body.push(next);
                body.extend(&extension[1..]);
            }
            frame.extend(((body.len() + l4.len()) as u16).to_be_bytes());
            frame.extend([extra.extensions.first().map_or(proto, |(number, _)| *number), 64]);
            frame.extend(from.octets());
            frame.extend(to.octets());
            frame.extend(body);
        }
        _ => panic!("families differ"),
    }
    frame.extend(l4);
    frame
}

/// A frame taken apart.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) src: SocketAddr,
    pub(crate) dst: SocketAddr,
    /// Transport header and payload.
    pub(crate) l4: Vec<u8>,
}

/// Takes a frame apart and checks every checksum.
pub(crate) fn read(frame: &[u8]) -> Read {
    let (src, dst, proto, l4) = match frame[12..14] {
        [8, 0] => {
            let header = &frame[14..14 + usize::from(frame[14] & 15) * 4];
            assert_eq!(checksum(header), 0, "IPv4 header checksum");
            let addr = |at: usize| IpAddr::from(<[u8; 4]>::try_from(&header[at..at + 4]).unwrap());
            let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
            (addr(12), addr(16), header[9], frame[14 + header.len()..14 + total].to_vec())
        }
        [0x86, 0xdd] => {
            let header = &frame[14..54];
            let addr = |at: usize| IpAddr::from(<[u8; 16]>::try_from(&header[at..at + 16]).unwrap());
            let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
            let (mut next, mut at) = (header[6], 54);
            while matches!(next, 0 | 60) {
                (next, at) = (frame[at], at + (usize::from(frame[at + 1]) + 1) * 8);
            }
            (addr(8), addr(24), next, frame[at..54 + len].to_vec())
        }
        _ => panic!("neither IPv4 nor IPv6"),
    };
    if let Some(at) = checksum_offset(proto) {
        let none = proto == UDP && l4[at..at + 2] == [0, 0];
        let sum = checksum(&[pseudo(src, dst, proto, l4.len()), l4.clone()].concat());
        assert!(none || sum == 0, "checksum of protocol {proto}");
    }
    let port = |at: usize| if matches!(proto, TCP | UDP) { u16::from_be_bytes([l4[at], l4[at + 1]]) } else { 0 };
    Read { src: (src, port(0)).into(), dst: (dst, port(2)).into(), l4 }
}

fn checksum_offset(proto: u8) -> Option<usize> {
    match proto {
        TCP => Some(16),
        UDP => Some(6),
        1 | 58 => Some(2),
        _ => None,
    }
}

fn pseudo(from: IpAddr, to: IpAddr, proto: u8, len: usize) -> Vec<u8> {
    let len = len as u32;
    match (from, to) {
        // ICMP for IPv4 has no pseudo header.
        (IpAddr::V4(_), IpAddr::V4(_)) if proto == 1 => Vec::new(),
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            [&from.octets()[..], &to.octets(), &[0, proto], &(len as u16).to_be_bytes()].concat()
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            [&from.octets()[..], &to.octets(), &len.to_be_bytes(), &[0, 0, 0, proto]].concat()
        }
        _ => panic!("families differ"),
    }
}

/// The Internet checksum; 0 over what includes a right one.
pub(crate) fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
