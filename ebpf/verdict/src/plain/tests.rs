use std::vec::Vec;

use proptest::prelude::*;
use skep_abi::{ConnState, nat_flags};

use super::*;
use crate::packet::{self, Extent};

/// A packet in memory.
struct Memory(Vec<u8>);

impl Bytes for Memory {
    fn load<const N: usize>(&self, offset: u32) -> Option<Chunk<N>> {
        self.0.as_slice().load(offset)
    }

    fn len(&self) -> u32 {
        self.0.len() as u32
    }
}

impl Store for Memory {
    fn store<const N: usize>(&mut self, offset: u32, bytes: &Chunk<N>) -> bool {
        let offset = offset as usize;
        let Some(place) = self.0.get_mut(offset..offset + N) else { return false };
        place.copy_from_slice(&bytes.0);
        true
    }
}

fn read(bytes: &[u8], v6: bool) -> Option<Plain> {
    let mut plain = Plain::EMPTY;
    parse(&bytes, 0, v6, &mut plain).then_some(plain)
}

fn sum(bytes: &[u8]) -> u16 {
    let mut sum: u32 =
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

/// Everything that a packet is made from.
#[derive(Clone, Debug)]
struct Recipe {
    v6: bool,
    udp: bool,
    src: [u8; 16],
    dst: [u8; 16],
    ports: [u16; 2],
    hops: u8,
    /// IPv4 options, or nothing.
    options: Vec<u8>,
    payload: Vec<u8>,
    class: u8,
}

fn recipes() -> impl Strategy<Value = Recipe> {
    let payload = prop::collection::vec(any::<u8>(), 0..60);
    let options = prop_oneof![3 => Just(0_usize), 1 => 1_usize..=10].prop_map(|words| std::vec![1; words * 4]);
    (any::<[bool; 2]>(), any::<[[u8; 16]; 2]>(), any::<[u16; 2]>(), 2..=255_u8, options, payload, any::<u8>()).prop_map(
        |([v6, udp], [src, dst], ports, hops, options, payload, class)| Recipe {
            v6,
            udp,
            src,
            dst,
            ports,
            hops,
            options,
            payload,
            class,
        },
    )
}

impl Recipe {
    fn addr(&self, bytes: &[u8; 16]) -> Addr {
        if self.v6 { Addr::v6(*bytes) } else { Addr::v4([bytes[0], bytes[1], bytes[2], bytes[3]]) }
    }

    fn pseudo(&self, len: usize) -> Vec<u8> {
        let width = if self.v6 { 16 } else { 4 };
        let proto = if self.udp { proto::UDP } else { proto::TCP };
        [&self.src[..width], &self.dst[..width], &[0, proto], &(len as u16).to_be_bytes()].concat()
    }

    /// The packet, with right checksums.
    fn bytes(&self) -> Vec<u8> {
        let mut l4 = [self.ports[0].to_be_bytes(), self.ports[1].to_be_bytes()].concat();
        let at = if self.udp {
            l4.extend((self.payload.len() as u16 + 8).to_be_bytes());
            l4.extend([0; 2]);
            6
        } else {
            l4.extend([0, 0, 0, 1, 0, 0, 0, 2, 5 << 4, packet::tcp_flags::ACK, 1, 0, 0, 0, 0, 0]);
            16
        };
        l4.extend(&self.payload);
        let mut csum = !sum(&[self.pseudo(l4.len()), l4.clone()].concat());
        if self.udp && csum == 0 {
            csum = 0xffff;
        }
        l4[at..at + 2].copy_from_slice(&csum.to_be_bytes());
        let proto = if self.udp { proto::UDP } else { proto::TCP };
        let mut bytes;
        if self.v6 {
            bytes = std::vec![0x60 | self.class >> 4, self.class << 4, 0x12, 0x34];
            bytes.extend((l4.len() as u16).to_be_bytes());
            bytes.extend([proto, self.hops]);
            bytes.extend(self.src);
            bytes.extend(self.dst);
        } else {
            let header_len = 20 + self.options.len();
            bytes = std::vec![0x40 | (header_len / 4) as u8, self.class];
            bytes.extend(((header_len + l4.len()) as u16).to_be_bytes());
            bytes.extend([0, 7, 0x40, 0, self.hops, proto, 0, 0]);
            bytes.extend(&self.src[..4]);
            bytes.extend(&self.dst[..4]);
            bytes.extend(&self.options);
            let csum = !sum(&bytes);
            bytes[10..12].copy_from_slice(&csum.to_be_bytes());
        }
        bytes.extend(l4);
        bytes
    }
}

fn entry(recipe: &Recipe) -> NatValue {
    NatValue {
        expires: 0,
        packets: 0,
        src: recipe.addr(&recipe.src),
        dst: recipe.addr(&recipe.dst),
        src_port_be: recipe.ports[0].to_be(),
        dst_port_be: recipe.ports[1].to_be(),
        state: ConnState::New as u8,
        flags: nat_flags::FORWARD | nat_flags::SNAT,
        pad: 0,
        backend: 1,
        service: 1,
    }
}

proptest! {
    #[test]
    fn a_plain_packet_is_read_as_by_the_reader_of_all(recipe in recipes()) {
        let bytes = recipe.bytes();
        let mut all = Packet::EMPTY;
        packet::parse(&bytes.as_slice(), 0, recipe.v6, Extent::Whole, &mut all).unwrap();
        let plain = read(&bytes, recipe.v6).unwrap();
        prop_assert_eq!(plain.packet, all);
        prop_assert_eq!((plain.len as usize, plain.hops), (bytes.len(), recipe.hops));
    }

    #[test]
    fn what_is_read_of_any_bytes_the_reader_of_all_reads_too(
        recipe in recipes(),
        changes in prop::collection::vec((0_usize..64, any::<u8>()), 0..4),
        cut in 0_usize..80,
    ) {
        let mut bytes = recipe.bytes();
        for (at, value) in changes {
            let len = bytes.len();
            bytes[at % len] = value;
        }
        bytes.truncate(bytes.len().saturating_sub(cut.saturating_sub(60)));
        if let Some(plain) = read(&bytes, recipe.v6) {
            let mut all = Packet::EMPTY;
            packet::parse(&bytes.as_slice(), 0, recipe.v6, Extent::Whole, &mut all).unwrap();
            prop_assert_eq!(plain.packet, all);
        }
    }

    #[test]
    fn a_translated_packet_is_the_one_that_would_have_been_made_so(old in recipes(), to in recipes()) {
        let new = Recipe { src: to.src, dst: to.dst, ports: to.ports, hops: old.hops - 1, ..old.clone() };
        let mut memory = Memory(old.bytes());
        let plain = read(&memory.0, old.v6).unwrap();
        prop_assert!(translate(&mut memory, &plain, &entry(&new)));
        prop_assert_eq!(memory.0, new.bytes());
    }

    #[test]
    fn a_counted_hop_changes_nothing_else(old in recipes()) {
        let mut memory = Memory(old.bytes());
        let plain = read(&memory.0, old.v6).unwrap();
        prop_assert!(count_hop(&mut memory, &plain));
        prop_assert_eq!(memory.0, Recipe { hops: old.hops - 1, ..old }.bytes());
    }

    #[test]
    fn an_unfinished_checksum_is_known(recipe in recipes()) {
        let mut bytes = recipe.bytes();
        let plain = read(&bytes, recipe.v6).unwrap();
        let l4 = plain.packet.l4 as usize;
        let at = l4 + if recipe.udp { 6 } else { 16 };
        let pseudo = sum(&recipe.pseudo(bytes.len() - l4));
        prop_assert_eq!(plain.is_unfinished(), bytes[at..at + 2] == pseudo.to_be_bytes());
        // As a sender's kernel leaves it.
        bytes[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
        prop_assert!(read(&bytes, recipe.v6).unwrap().is_unfinished());
    }
}

fn udp(v6: bool) -> Recipe {
    Recipe {
        v6,
        udp: true,
        src: [10; 16],
        dst: [20; 16],
        ports: [1, 2],
        hops: 64,
        options: Vec::new(),
        payload: std::vec![1, 2, 3],
        class: 0,
    }
}

#[test]
fn no_checksum_stays_no_checksum() {
    for v6 in [false, true] {
        let (old, new) = (udp(v6), Recipe { src: [30; 16], ports: [3, 4], ..udp(v6) });
        let mut memory = Memory(old.bytes());
        let at = if v6 { 46 } else { 26 };
        memory.0[at..at + 2].fill(0);
        let plain = read(&memory.0, v6).unwrap();
        assert!(translate(&mut memory, &plain, &entry(&new)));
        assert_eq!(memory.0[at..at + 2], [0, 0]);
        assert_eq!(memory.0[at - 6..at - 2], [0, 3, 0, 4]);
        assert!(!plain.is_unfinished());
    }
}

#[test]
fn what_is_not_plain_is_not_read() {
    let v4 = udp(false).bytes();
    let with = |bytes: &[u8], at: usize, value: u8| {
        let mut bytes = bytes.to_vec();
        bytes[at] = value;
        bytes
    };
    assert!(read(&v4, false).is_some());
    for (at, value, what) in [
        (0, 0x55, "version"),
        (0, 0x44, "header length"),
        (3, 200, "length of the packet"),
        (6, 0x20, "first fragment"),
        (7, 1, "later fragment"),
        (9, 1, "ICMP"),
        (9, 132, "SCTP"),
        (25, 7, "length of the datagram"),
        (25, 200, "length of the datagram"),
    ] {
        assert_eq!(read(&with(&v4, at, value), false), None, "{what}");
    }
    assert_eq!(read(&v4[..27], false), None);
    let v6 = udp(true).bytes();
    assert!(read(&v6, true).is_some());
    for (at, value, what) in [
        (0, 0x40, "version"),
        (5, 200, "length of the packet"),
        (6, 0, "hop-by-hop options"),
        (6, 44, "fragment"),
        (6, 58, "ICMPv6"),
    ] {
        assert_eq!(read(&with(&v6, at, value), true), None, "{what}");
    }
}
