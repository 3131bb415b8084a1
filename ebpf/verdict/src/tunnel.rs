//! How a packet of the overlay says whom it is from.
//!
//! An identity is a hash, and so the same on every node. 64 bits of it are few for an outsider's word: with labels that somebody
//! has searched for, a pod could have the identity of another. A packet therefore carries 46 bits more of the same hash, the
//! identity's tail. There is room in the VXLAN header and in the inner Ethernet header, whose addresses mean nothing between two
//! nodes:
//!
//! ```text
//! VNI                   24 bits   identity, bits 0..24
//! source address        40 bits   identity, bits 24..64         after 02
//! destination address   46 bits   tail, highest bits first      the two lowest bits of the first byte are 10
//! ```
//!
//! Both addresses are locally administered ones of single stations.

/// Bits of a tail.
pub const TAIL_BITS: u32 = 46;

/// The bits that say "locally administered" and "one station" in the first byte of an Ethernet address (IEEE 802).
const LOCAL: u8 = 0b10;

/// Bits of a VNI (RFC 7348 section 5).
const NUMBER: u64 = 0x00ff_ffff;

/// The VNI of an identity.
#[inline(always)]
pub const fn number(identity: u64) -> u32 {
    (identity & NUMBER) as u32
}

/// Destination and source address of the inner Ethernet header.
#[inline(always)]
pub const fn addresses(identity: u64, tail: u64) -> [u8; 12] {
    let (t, i) = (tail.to_be_bytes(), identity.to_be_bytes());
    let first = (tail >> 40) as u8;
    [first << 2 | LOCAL, t[3], t[4], t[5], t[6], t[7], LOCAL, i[0], i[1], i[2], i[3], i[4]]
}

/// Identity and tail that a packet carries.
#[inline(always)]
pub const fn identity(number: u32, addresses: &[u8; 12]) -> (u64, u64) {
    let a = addresses;
    let tail = u64::from_be_bytes([0, 0, a[0] >> 2, a[1], a[2], a[3], a[4], a[5]]);
    let upper = u64::from_be_bytes([a[7], a[8], a[9], a[10], a[11], 0, 0, 0]);
    (upper | number as u64 & NUMBER, tail)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_goes_in_comes_out(id: u64, tail in 0_u64..1 << TAIL_BITS) {
            let addresses = addresses(id, tail);
            prop_assert_eq!(identity(number(id), &addresses), (id, tail));
            // Neither is a group's, and neither is none.
            prop_assert_eq!([addresses[0] & 3, addresses[6] & 3], [LOCAL, LOCAL]);
            prop_assert!(number(id) < 1 << 24);
        }

        #[test]
        fn whatever_comes_is_read_within_bounds(number: u32, addresses: [u8; 12]) {
            prop_assert!(identity(number, &addresses).1 < 1 << TAIL_BITS);
        }
    }
}
