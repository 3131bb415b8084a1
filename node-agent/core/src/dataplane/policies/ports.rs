use std::collections::BTreeMap;

use skep_abi::{Bits, PortKey};

use super::image::{set, union};
use super::rules::{PortRange, Rule};

/// Port entries of a word of rules, by prefix length and key.
pub(super) fn compile(word: u32, rules: &[Rule]) -> BTreeMap<(u32, PortKey), Bits> {
    // By protocol, and within it by length and first port.
    let mut own: BTreeMap<(u8, u32, u16), Bits> = BTreeMap::new();
    for (bit, rule) in rules.iter().enumerate() {
        for range in rule.ports.iter().flatten() {
            for (first, len) in split(*range) {
                set(own.entry((range.protocol.number(), len, first)).or_default(), bit);
            }
        }
    }
    let covering = |proto: u8, len: u32, first: u16| {
        (0..=len).filter_map({
            let own = &own;
            move |shorter| own.get(&(proto, shorter, first & mask(shorter)))
        })
    };
    let mut entries = BTreeMap::new();
    for &(proto, len, first) in own.keys() {
        // Only the longest match is found: it carries what the shorter ones allow.
        let mut bits = Bits::default();
        for shorter in covering(proto, len, first) {
            union(&mut bits, shorter);
        }
        // Endpoints with more words than the programs look at are closed.
        let word = u16::try_from(word).unwrap_or(u16::MAX);
        let key = PortKey { list: 0, word, proto, pad: 0, port_be: first.to_be(), tail: [0; 6] };
        entries.insert((PortKey::BASE_BITS + len, key), bits);
    }
    entries
}

/// The fewest prefixes (first port, length) that make up a range.
fn split(range: PortRange) -> Vec<(u16, u32)> {
    let (mut first, end) = (u32::from(range.first), u32::from(range.last) + 1);
    let mut prefixes = Vec::new();
    while first < end {
        // The largest block that begins at `first` and does not go beyond the end.
        let aligned = first.trailing_zeros().min(16);
        let fits = (end - first).ilog2();
        let bits = aligned.min(fits);
        prefixes.push((u16::try_from(first).unwrap_or(u16::MAX), 16 - bits));
        first += 1 << bits;
    }
    prefixes
}

fn mask(len: u32) -> u16 {
    u16::MAX.checked_shl(16 - len).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::Protocol;

    fn prefixes(first: u16, last: u16) -> Vec<(u16, u32)> {
        split(PortRange { protocol: Protocol::Tcp, first, last })
    }

    #[test]
    fn a_range_is_the_fewest_prefixes() {
        assert_eq!(prefixes(0, u16::MAX), [(0, 0)]);
        assert_eq!(prefixes(80, 80), [(80, 16)]);
        assert_eq!(prefixes(u16::MAX, u16::MAX), [(u16::MAX, 16)]);
        assert_eq!(prefixes(8000, 8010), [(8000, 13), (8008, 15), (8010, 16)]);
        assert_eq!(prefixes(1, u16::MAX).len(), 16);
        assert_eq!(prefixes(1, u16::MAX - 1).len(), 30);
    }

    #[test]
    fn a_range_holds_exactly_its_ports() {
        for (first, last) in [(0, 0), (1, 9), (1024, 65535), (32000, 32767), (79, 81), (4095, 4097)] {
            let prefixes = prefixes(first, last);
            for port in 0..=u16::MAX {
                let inside = prefixes.iter().filter(|(start, len)| port & mask(*len) == *start).count();
                assert_eq!(inside, usize::from((first..=last).contains(&port)), "{port} in {first}-{last}");
            }
        }
    }
}
