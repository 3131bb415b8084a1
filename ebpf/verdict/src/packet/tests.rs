use std::vec::Vec;

use proptest::prelude::*;

use super::*;

fn read(bytes: &[u8], v6: bool, extent: Extent) -> Result<Packet, Reason> {
    let mut packet = Packet::EMPTY;
    parse(&bytes, 0, v6, extent, &mut packet).map(|()| packet)
}

/// An IPv4 packet with options that begin with `options` bytes of no-operation.
fn v4(options: usize, fragment: u16, proto: u8, l4: &[u8]) -> Vec<u8> {
    let header_len = 20 + options;
    let mut packet = std::vec![0x40 | (header_len / 4) as u8, 0];
    packet.extend(((header_len + l4.len()) as u16).to_be_bytes());
    packet.extend([0x12, 0x34]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend(std::iter::repeat_n(1, options));
    packet.extend(l4);
    packet
}

fn v6(next: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = std::vec![0x60, 0, 0, 0];
    packet.extend((body.len() as u16).to_be_bytes());
    packet.extend([next, 64]);
    packet.extend([0xfd; 16]);
    packet.extend([0xfc; 16]);
    packet.extend(body);
    packet
}

const UDP_HEADER: [u8; 8] = [0x9c, 0x40, 0, 53, 0, 8, 0, 0];

#[test]
fn ports_are_found_behind_options_and_extension_headers() {
    for options in [0, 4, 40] {
        let packet = read(&v4(options, 0, proto::UDP, &UDP_HEADER), false, Extent::Whole).unwrap();
        assert_eq!(
            (packet.l4, packet.src_port_be.to_be(), packet.dst_port_be.to_be()),
            (20 + options as u32, 40000, 53)
        );
        assert_eq!((packet.src, packet.dst), (Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2])));
    }
    let chain = [
        &[60, 0, 0, 0, 0, 0, 0, 0][..],
        &[51, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ];
    let packet = read(&v6(0, &[&chain.concat()[..], &UDP_HEADER].concat()), true, Extent::Whole).unwrap();
    assert_eq!((packet.l4, packet.proto, packet.dst_port_be.to_be()), (40 + 36, proto::UDP, 53));
}

#[test]
fn only_a_first_fragment_has_ports() {
    let first = read(&v4(0, 0x2000, proto::UDP, &UDP_HEADER), false, Extent::Whole).unwrap();
    assert_eq!((first.part, first.dst_port_be.to_be()), (Part::First, 53));
    for fragment in [0x2001, 0x0001] {
        let later = read(&v4(0, fragment, proto::UDP, &UDP_HEADER), false, Extent::Whole).unwrap();
        assert_eq!((later.part, later.src_port_be, later.dst_port_be), (Part::Later, 0, 0));
        assert_eq!(later.fragment_id, first.fragment_id);
    }
    let header = |offset: u16| [&[17, 0][..], &offset.to_be_bytes(), &[1, 2, 3, 4]].concat();
    let first = read(&v6(44, &[&header(1)[..], &UDP_HEADER].concat()), true, Extent::Whole).unwrap();
    assert_eq!((first.part, first.dst_port_be.to_be()), (Part::First, 53));
    let later = read(&v6(44, &[&header(8)[..], &UDP_HEADER].concat()), true, Extent::Whole).unwrap();
    assert_eq!((later.part, later.dst_port_be, later.proto), (Part::Later, 0, proto::UDP));
    // A fragment header that says "no fragment" (RFC 6946).
    let atomic = read(&v6(44, &[&header(0)[..], &UDP_HEADER].concat()), true, Extent::Whole).unwrap();
    assert_eq!((atomic.part, atomic.dst_port_be.to_be()), (Part::Whole, 53));
}

#[test]
fn a_quoted_packet_may_be_cut_after_eight_bytes() {
    let mut quoted = v4(0, 0, proto::TCP, &[0; 40]);
    quoted[20..24].copy_from_slice(&[0x9c, 0x40, 0, 80]);
    quoted.truncate(28);
    assert_eq!(read(&quoted, false, Extent::Whole), Err(Reason::Malformed));
    assert_eq!(read(&quoted, false, Extent::Quoted).unwrap().dst_port_be.to_be(), 80);
}

#[test]
fn icmp_kinds_are_told_apart() {
    let icmp = |v6: bool, kind: u8| {
        let proto = if v6 { proto::ICMPV6 } else { proto::ICMP };
        Packet { v6, proto, flags_or_type: kind, ..Packet::EMPTY }.icmp()
    };
    assert_eq!([icmp(false, 8), icmp(false, 0), icmp(true, 128), icmp(true, 129)], [Icmp::Echo; 4]);
    assert_eq!([icmp(false, 3), icmp(false, 11), icmp(true, 1), icmp(true, 2)], [Icmp::Error; 4]);
    assert_eq!([icmp(true, 133), icmp(true, 136), icmp(true, 143)], [Icmp::Link; 3]);
    assert_eq!([icmp(false, 13), icmp(false, 133), icmp(true, 8 + 192)], [Icmp::Other; 3]);
    let wrong_family = Packet { v6: true, proto: proto::ICMP, flags_or_type: 8, ..Packet::EMPTY };
    assert_eq!(wrong_family.icmp(), Icmp::No);
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused_and_offsets_stay_within_the_packet(bytes: Vec<u8>, v6: bool, version: bool) {
        let mut bytes = bytes;
        if let (true, Some(first)) = (version, bytes.first_mut()) {
            *first = *first & 0x0f | if v6 { 0x60 } else { 0x40 };
        }
        for extent in [Extent::Whole, Extent::Quoted] {
            if let Ok(packet) = read(&bytes, v6, extent) {
                let has_header = packet.has_l4() && proto::has_ports(packet.proto);
                let needed = if has_header { packet.l4 + 4 } else { 0 };
                prop_assert!(needed as usize <= bytes.len());
                let fixed = if v6 { 40 } else { 20 };
                prop_assert!(packet.l4 >= fixed);
            }
        }
    }
}
