use proptest::prelude::*;

use super::*;

/// The checksum over 16-bit words most significant byte first, as RFC 1071 defines it.
fn reference(parts: &[&[u8]]) -> u16 {
    let bytes: std::vec::Vec<u8> = parts.concat();
    let mut sum: u32 = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn addr(v6: bool, octets: [u8; 16]) -> Addr {
    if v6 { Addr(octets) } else { Addr::v4([octets[0], octets[1], octets[2], octets[3]]) }
}

proptest! {
    #[test]
    fn resets_carry_a_right_checksum_and_swap_the_ports(
        v6: bool, src: [u8; 16], dst: [u8; 16], ports: [u8; 4], numbers: [u8; 8], flags: u8, payload in 0_u32..60000,
    ) {
        let mut segment = [0; TCP_LEN];
        segment[..4].copy_from_slice(&ports);
        segment[4..12].copy_from_slice(&numbers);
        segment[13] = flags;
        let (src, dst) = (addr(v6, src), addr(v6, dst));
        let packet = Packet { src, dst, v6, proto: proto::TCP, flags_or_type: flags, ..Packet::EMPTY };
        let reset = tcp_reset(&packet, &segment, payload);
        let skip = if v6 { 0 } else { 12 };
        let sum = reference(&[&dst.0[skip..], &src.0[skip..], &[0, proto::TCP, 0, TCP_LEN as u8], &reset.0]);
        prop_assert_eq!(sum, 0);
        prop_assert_eq!(&reset[..2], &ports[2..]);
        prop_assert_eq!(&reset[2..4], &ports[..2]);
        prop_assert!(reset[13] & tcp_flags::RST != 0);
        // RFC 9293: an acknowledgment in the refused segment gives the number, else everything in it is acknowledged.
        prop_assert_eq!(reset[13] & tcp_flags::ACK == 0, flags & tcp_flags::ACK != 0);
    }

    #[test]
    fn a_quoted_header_without_its_options_is_a_right_one(mut header: [u8; 20]) {
        header[0] = 0x47;
        let quoted = without_options(&header);
        prop_assert_eq!((quoted[0], reference(&[&quoted.0])), (0x45, 0));
        prop_assert_eq!((&quoted[1..10], &quoted[12..]), (&header[1..10], &header[12..]));
        header[0] = 0x45;
        prop_assert_eq!(without_options(&header).0, header);
    }

    #[test]
    fn errors_say_what_fits_and_carry_right_checksums(
        mtu: u32, src: [u8; 16], dst: [u8; 16], header: [u8; 20], header6: [u8; 40], after: [u8; 8],
    ) {
        let packet = Packet { src: addr(false, src), dst: addr(false, dst), ..Packet::EMPTY };
        let ip = ipv4_header(&packet, proto::ICMP, 36);
        prop_assert_eq!(reference(&[&ip.0]), 0);
        prop_assert_eq!((&ip[12..16], &ip[16..20]), (&dst[..4], &src[..4]));
        for mtu in [PORT_UNREACHABLE, mtu, mtu & 0xffff] {
            let icmp = icmp4_error(mtu, &header, &after);
            prop_assert_eq!(reference(&[&icmp.0, &header, &after]), 0);
            prop_assert_eq!((icmp[0], icmp[1] == 4), (3, mtu != PORT_UNREACHABLE));
            prop_assert_eq!(u32::from(u16::from_be_bytes([icmp[6], icmp[7]])), mtu.min(0xffff));
        }
        let packet = Packet { src: Addr(src), dst: Addr(dst), v6: true, ..Packet::EMPTY };
        let ip = ipv6_header(&packet, proto::ICMPV6, 56);
        prop_assert_eq!((&ip[8..24], &ip[24..40]), (&dst[..], &src[..]));
        for mtu in [PORT_UNREACHABLE, mtu] {
            let icmp = icmp6_error(mtu, &packet, &header6, &after);
            let sum = reference(&[&dst, &src, &[0, 0, 0, 56, 0, 0, 0, proto::ICMPV6], &icmp.0, &header6, &after]);
            prop_assert_eq!(sum, 0);
            prop_assert_eq!([icmp[0], icmp[1]], if mtu == PORT_UNREACHABLE { [1, 4] } else { [2, 0] });
            prop_assert_eq!(u32::from_be_bytes([icmp[4], icmp[5], icmp[6], icmp[7]]), mtu);
        }
    }
}

#[test]
fn a_reset_is_not_answered() {
    let segment = |flags| Packet { proto: proto::TCP, flags_or_type: flags, ..Packet::EMPTY };
    assert!(is_silent(&segment(tcp_flags::RST)) && is_silent(&segment(tcp_flags::RST | tcp_flags::ACK)));
    assert!(!is_silent(&segment(tcp_flags::SYN)));
    assert!(!is_silent(&Packet { proto: proto::UDP, ..segment(tcp_flags::RST) }));
}
