//! Internet checksums of packets whose bytes change.
//!
//! All sums are of words as they lie in memory, in this machine's byte order: the result then lies right by itself (RFC 1071
//! section 2, byte order independence), and words of 32 bits may stand for two of 16.

use skep_abi::Addr;

/// What a checksum changes by when some of the bytes that it covers do (RFC 1624, equation 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change(u64);

impl Change {
    /// Nothing changes.
    pub const NONE: Self = Self(0);

    /// Two bytes, at an even place, change too.
    #[inline(always)]
    #[must_use]
    pub fn and_u16(self, old: u16, new: u16) -> Self {
        Self(self.0 + u64::from(!old) + u64::from(new))
    }

    /// An address changes, too. That one of IPv4 is mapped does not count: the prefix is the same before and after.
    #[inline(always)]
    #[must_use]
    pub fn and_addr(self, old: &Addr, new: &Addr) -> Self {
        let mut sum = self.0;
        for word in 0..4 {
            sum += u64::from(!word_of(old, word)) + u64::from(word_of(new, word));
        }
        Self(sum)
    }

    /// The checksum after the change.
    ///
    /// As the kernel's, and for the same reason, it is never 0xffff but for a change of nothing but zeroes: the complement of
    /// a 32-bit word is no zero.
    #[inline(always)]
    #[must_use]
    pub fn apply(self, checksum: u16) -> u16 {
        !fold(self.0 + u64::from(!u32::from(checksum)))
    }
}

/// The sum of a pseudo header (RFC 9293 section 3.1, RFC 8200 section 8.1), not complemented. `len` is that of the transport
/// header and what follows it.
#[inline(always)]
pub fn pseudo_header(src: &Addr, dst: &Addr, protocol: u8, len: u32) -> u16 {
    // The mapping prefix of an IPv4 address is a word of ones, and that is a zero to these sums.
    let mut sum = u64::from((len as u16).to_be()) + u64::from(u16::from(protocol).to_be());
    for word in 0..4 {
        sum += u64::from(word_of(src, word)) + u64::from(word_of(dst, word));
    }
    fold(sum)
}

#[inline(always)]
fn word_of(addr: &Addr, word: usize) -> u32 {
    let (a, at) = (&addr.0, word * 4);
    u32::from_ne_bytes([a[at], a[at + 1], a[at + 2], a[at + 3]])
}

/// A sum in 16 bits, carries added again. Only that of nothing but zeroes is zero.
#[inline(always)]
fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    sum as u16
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    /// The checksum, byte by byte as RFC 1071 describes it.
    fn whole(bytes: &[u8]) -> u16 {
        let mut sum = 0_u64;
        for pair in bytes.chunks(2) {
            sum += u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
        }
        while sum > 0xffff {
            sum = (sum >> 16) + (sum & 0xffff);
        }
        !(sum as u16)
    }

    /// Two checksums that say the same: zero has two forms.
    fn same(a: u16, b: u16) -> bool {
        a == b || (matches!(a, 0 | 0xffff) && matches!(b, 0 | 0xffff))
    }

    proptest! {
        #[test]
        fn a_change_leads_to_the_checksum_of_the_changed_bytes(
            old in prop::collection::vec(any::<u8>(), 60..200),
            addrs in any::<[[u8; 16]; 2]>(),
            ports in any::<[u16; 2]>(),
            zeroes in any::<[bool; 2]>(),
        ) {
            let mut old: Vec<u8> = old;
            if zeroes[0] {
                old[..40].fill(0);
            }
            let addrs = addrs.map(|addr| if zeroes[1] { [0; 16] } else { addr });
            let mut new = old.clone();
            new[4..20].copy_from_slice(&addrs[0]);
            new[20..36].copy_from_slice(&addrs[1]);
            new[36..38].copy_from_slice(&ports[0].to_ne_bytes());
            new[38..40].copy_from_slice(&ports[1].to_ne_bytes());
            let addr = |bytes: &[u8], at: usize| Addr::v6(bytes[at..at + 16].try_into().unwrap());
            let port = |at: usize| u16::from_ne_bytes([old[at], old[at + 1]]);
            let change = Change::NONE
                .and_addr(&addr(&old, 4), &addr(&new, 4))
                .and_addr(&addr(&old, 20), &addr(&new, 20))
                .and_u16(port(36), ports[0])
                .and_u16(port(38), ports[1]);
            let changed = change.apply(whole(&old).to_be());
            prop_assert!(same(changed.to_be(), whole(&new)), "{:04x} {:04x}", changed.to_be(), whole(&new));
            // And back again.
            let back = Change::NONE
                .and_addr(&addr(&new, 4), &addr(&old, 4))
                .and_addr(&addr(&new, 20), &addr(&old, 20))
                .and_u16(ports[0], port(36))
                .and_u16(ports[1], port(38));
            prop_assert!(same(back.apply(changed).to_be(), whole(&old)));
        }

        #[test]
        fn a_pseudo_header_is_summed_without_the_mapping_prefix(
            v4 in any::<[[u8; 4]; 2]>(),
            v6 in any::<[[u8; 16]; 2]>(),
            protocol in any::<u8>(),
            len in any::<u16>(),
        ) {
            let rest = [&[0, protocol][..], &len.to_be_bytes()].concat();
            let of_v4 = !whole(&[&v4[0][..], &v4[1], &rest].concat());
            let of_v6 = !whole(&[&v6[0][..], &v6[1], &rest].concat());
            let [a, b] = v4.map(Addr::v4);
            let sum = pseudo_header(&a, &b, protocol, len.into()).to_be();
            prop_assert!(same(sum, of_v4) && sum != 0, "{sum:04x} {of_v4:04x}");
            let [a, b] = v6.map(Addr::v6);
            prop_assert!(same(pseudo_header(&a, &b, protocol, len.into()).to_be(), of_v6));
        }
    }

    #[test]
    fn the_examples_of_rfc_1624() {
        // Section 4: 0x5555 becomes 0x3285 under the checksum 0xdd2f.
        assert_eq!(Change::NONE.and_u16(0x5555, 0x3285).apply(0xdd2f), 0x0000);
        assert_eq!(Change::NONE.apply(0x1234), 0x1234);
    }
}
