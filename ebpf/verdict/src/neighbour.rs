//! Answers to those who ask for the link-layer address of a load balancer address: ARP (RFC 826) and neighbour discovery
//! (RFC 4861).

use skep_abi::Addr;

use crate::packet::{Chunk, Packet};
use crate::proto;
use crate::refuse::{add, finish, pseudo_header};

/// Bytes of an ARP packet for IPv4 over Ethernet.
pub const ARP_LEN: usize = 28;
/// Bytes of a neighbour solicitation up to its options.
pub const SOLICITATION_LEN: usize = 24;
/// Bytes of a neighbour advertisement with the target's link-layer address.
pub const ADVERTISEMENT_LEN: usize = 32;

/// ICMPv6 type of a neighbour solicitation.
pub const SOLICITATION: u8 = 135;
/// ICMPv6 type of a neighbour advertisement.
const ADVERTISEMENT: u8 = 136;

/// Whose link-layer address an ARP packet asks for; [`Addr::NONE`] when it asks for none, as announcements do not.
#[inline(always)]
pub fn arp_target(request: &[u8; ARP_LEN]) -> Addr {
    // Ethernet, IPv4, addresses of 6 and 4 bytes, a request.
    let head = u64::from_be_bytes([
        request[0], request[1], request[2], request[3], request[4], request[5], request[6], request[7],
    ]);
    let sender = [request[14], request[15], request[16], request[17]];
    let target = [request[24], request[25], request[26], request[27]];
    if head != 0x0001_0800_0604_0001 || sender == target { Addr::NONE } else { Addr::v4(target) }
}

/// The answer to an ARP request.
#[inline(always)]
pub fn arp_answer(request: &[u8; ARP_LEN], mac: &[u8; 6]) -> Chunk<ARP_LEN> {
    let r = request;
    Chunk([
        0, 1, 8, 0, 6, 4, 0, 2, mac[0], mac[1], mac[2], mac[3], mac[4], mac[5], r[24], r[25], r[26], r[27], r[8], r[9],
        r[10], r[11], r[12], r[13], r[14], r[15], r[16], r[17],
    ])
}

/// An announcement that `addr` is at `mac` (RFC 5227, an ARP request for one's own address).
pub fn arp_announcement(addr: [u8; 4], mac: &[u8; 6]) -> [u8; ARP_LEN] {
    let mut h = [0; ARP_LEN];
    h[..8].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
    h[8..14].copy_from_slice(mac);
    h[14..18].copy_from_slice(&addr);
    h[24..28].copy_from_slice(&addr);
    h
}

/// The advertisement that answers a solicitation for `target` by a neighbour at `packet.src`.
#[inline(always)]
pub fn advertisement(packet: &Packet, target: &Addr, mac: &[u8; 6]) -> Chunk<ADVERTISEMENT_LEN> {
    // Solicited, and it overrides what was known.
    message(target, &packet.src, 0x60, mac)
}

/// The unsolicited advertisement to all nodes of the link that `addr` is at `mac`; its bytes after the IPv6 header.
pub fn unsolicited(addr: &Addr, all_nodes: &Addr, mac: &[u8; 6]) -> Chunk<ADVERTISEMENT_LEN> {
    message(addr, all_nodes, 0x20, mac)
}

#[inline(always)]
fn message(target: &Addr, to: &Addr, flags: u8, mac: &[u8; 6]) -> Chunk<ADVERTISEMENT_LEN> {
    let mut chunk = Chunk([0; ADVERTISEMENT_LEN]);
    let h = &mut chunk.0;
    h[0] = ADVERTISEMENT;
    h[4] = flags;
    h[8..24].copy_from_slice(&target.0);
    h[24] = 2;
    h[25] = 1;
    h[26..32].copy_from_slice(mac);
    let sum = pseudo_header(target, to, true, proto::ICMPV6, ADVERTISEMENT_LEN);
    let sum = finish(add(sum, h)).to_ne_bytes();
    h[2] = sum[0];
    h[3] = sum[1];
    chunk
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

    #[test]
    fn a_request_is_answered_to_its_sender() {
        let mut request = [0; ARP_LEN];
        request[..8].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
        request[8..18].copy_from_slice(&[2, 0, 0, 0, 0, 1, 192, 0, 2, 1]);
        request[24..].copy_from_slice(&[192, 0, 2, 7]);
        assert_eq!(arp_target(&request), Addr::v4([192, 0, 2, 7]));
        let answer = arp_answer(&request, &MAC);
        assert_eq!(answer[6..], [0, 2, 2, 0, 0, 0, 0, 9, 192, 0, 2, 7, 2, 0, 0, 0, 0, 1, 192, 0, 2, 1]);
        // Answers and announcements are not answered.
        assert_eq!(arp_target(&answer.0), Addr::NONE);
        assert_eq!(arp_target(&arp_announcement([192, 0, 2, 7], &MAC)), Addr::NONE);
    }

    #[test]
    fn an_advertisement_has_a_right_checksum() {
        let target = Addr([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
        let asker = Addr([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        let packet = Packet { src: asker, ..Packet::EMPTY };
        let answer = advertisement(&packet, &target, &MAC);
        assert_eq!((answer[0], answer[4], &answer[26..]), (136, 0x60, &MAC[..]));
        let sum = pseudo_header(&target, &asker, true, proto::ICMPV6, ADVERTISEMENT_LEN);
        assert_eq!(finish(add(sum, &answer)), 0);
    }
}
