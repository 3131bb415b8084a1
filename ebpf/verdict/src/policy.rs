//! The bit-vector classifier.

use skep_abi::{Bits, RuleList};

/// Words of a rule list that are looked at: 16,384 rules.
///
/// The agent closes an endpoint whose policies need more.
pub const MAX_WORDS: u16 = 64;

/// No rule.
pub const NO_RULE: u32 = u32::MAX;

/// The first rule of a word that allows the connection.
///
/// `peer`, `prefix` and `port` are what the maps hold for the other side's identity, its address and the destination port;
/// nothing where there is no entry.
#[inline(always)]
pub fn first_rule(list: &RuleList, peer: Option<&Bits>, prefix: Option<&Bits>, port: Option<&Bits>) -> Option<u32> {
    let mut i = 0;
    while i < 4 {
        let peers = list.any_peer.0[i] | bits(peer, i) | bits(prefix, i);
        let ports = list.any_port.0[i] | bits(port, i);
        let both = peers & ports;
        if both != 0 {
            return Some(i as u32 * 64 + lowest(both));
        }
        i += 1;
    }
    None
}

#[inline(always)]
fn bits(bits: Option<&Bits>, i: usize) -> u64 {
    match bits {
        Some(bits) => bits.0[i],
        None => 0,
    }
}

/// Index of the lowest set bit. BPF has no instruction that counts zeroes; halving needs no table in read-only memory.
#[inline(always)]
fn lowest(x: u64) -> u32 {
    let mut x = x;
    let mut n = 0;
    if x & 0xffff_ffff == 0 {
        n += 32;
        x >>= 32;
    }
    if x & 0xffff == 0 {
        n += 16;
        x >>= 16;
    }
    if x & 0xff == 0 {
        n += 8;
        x >>= 8;
    }
    if x & 0xf == 0 {
        n += 4;
        x >>= 4;
    }
    if x & 0x3 == 0 {
        n += 2;
        x >>= 2;
    }
    n + (x & 1 == 0) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lowest_bit_is_what_the_processor_says(x in 1_u64..) {
            prop_assert_eq!(lowest(x), x.trailing_zeros());
        }

        #[test]
        fn the_first_rule_that_both_sides_allow_decides(
            any_peer: [u64; 4], any_port: [u64; 4], peer: Option<[u64; 4]>, prefix: Option<[u64; 4]>, port: Option<[u64; 4]>,
            mask: [u64; 4],
        ) {
            let thin = |bits: [u64; 4]| Bits([bits[0] & mask[0], bits[1] & mask[1], bits[2] & mask[2], bits[3] & mask[3]]);
            let list = RuleList { any_peer: thin(any_peer), any_port: thin(any_port), flags: 0, pad: 0 };
            let (peer, prefix, port) = (peer.map(thin), prefix.map(thin), port.map(thin));
            let has = |bits: &Bits, rule: u32| bits.0[rule as usize / 64] >> (rule % 64) & 1 == 1;
            let is_in = |bits: &Option<Bits>, rule| bits.as_ref().is_some_and(|bits| has(bits, rule));
            let expected = (0..256).find(|&rule| {
                (has(&list.any_peer, rule) || is_in(&peer, rule) || is_in(&prefix, rule))
                    && (has(&list.any_port, rule) || is_in(&port, rule))
            });
            prop_assert_eq!(first_rule(&list, peer.as_ref(), prefix.as_ref(), port.as_ref()), expected);
        }
    }
}
