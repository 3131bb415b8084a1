//! The bit-vector classifier.

use skep_abi::Bits;

/// Words of a rule list that are looked at: 16,384 rules.
///
/// The agent closes an endpoint whose policies need more.
pub const MAX_WORDS: u16 = 64;

/// No rule.
pub const NO_RULE: u32 = u32::MAX;

/// Adds the rules of an entry that a map holds, if it does.
#[inline(always)]
pub fn merge(into: &mut Bits, entry: Option<&Bits>) {
    if let Some(entry) = entry {
        let mut i = 0;
        while i < 4 {
            into.0[i] |= entry.0[i];
            i += 1;
        }
    }
}

/// The first rule that is in both vectors: it allows the connection.
///
/// `peers` are the rules that name no peer merged with those for the other side's identity and address, `ports` the rules
/// that name no port merged with those for the destination port.
#[inline(always)]
pub fn first_common(peers: &Bits, ports: &Bits) -> Option<u32> {
    let mut i = 0;
    while i < 4 {
        let both = peers.0[i] & ports.0[i];
        if both != 0 {
            return Some(i as u32 * 64 + lowest(both));
        }
        i += 1;
    }
    None
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
            let (peer, prefix, port) = (peer.map(thin), prefix.map(thin), port.map(thin));
            let has = |bits: &Bits, rule: u32| bits.0[rule as usize / 64] >> (rule % 64) & 1 == 1;
            let is_in = |bits: &Option<Bits>, rule| bits.as_ref().is_some_and(|bits| has(bits, rule));
            let expected = (0..256).find(|&rule| {
                (has(&thin(any_peer), rule) || is_in(&peer, rule) || is_in(&prefix, rule))
                    && (has(&thin(any_port), rule) || is_in(&port, rule))
            });
            let (mut peers, mut ports) = (thin(any_peer), thin(any_port));
            merge(&mut peers, peer.as_ref());
            merge(&mut peers, prefix.as_ref());
            merge(&mut ports, port.as_ref());
            prop_assert_eq!(first_common(&peers, &ports), expected);
        }
    }
}
