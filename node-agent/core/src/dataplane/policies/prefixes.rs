use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use skep_abi::{Bits, PrefixKey};

use super::image::set;
use super::rules::Rule;
use crate::dataplane::{Cidr, IpBlock, abi_addr};

/// What a prefix does to the number of blocks of a rule that hold an address.
#[derive(Default)]
struct Effects(Vec<(usize, i32)>);

/// Address entries of a word of rules, by prefix length and key.
///
/// Each `cidr` and each `except` gets an entry with the rules of which at least one block holds its addresses. The
/// longest match is then exact: no entry lies between it and the address, so nothing changes on the way.
pub(super) fn compile(word: u32, rules: &[Rule]) -> BTreeMap<(u32, PrefixKey), Bits> {
    let mut effects: BTreeMap<Cidr, Effects> = BTreeMap::new();
    for (bit, rule) in rules.iter().enumerate() {
        let Some(peers) = &rule.peers else { continue };
        for block in &peers.blocks {
            effects.entry(block.cidr).or_default().0.push((bit, 1));
            for except in outermost(block) {
                effects.entry(except).or_default().0.push((bit, -1));
            }
        }
        for &addr in &peers.addresses {
            effects.entry(Cidr::host(addr)).or_default().0.push((bit, 1));
        }
    }
    // In the maps IPv4 lies within IPv6: a short IPv6 prefix must not be the longest match of an IPv4 address.
    let all4 = Cidr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
    let mapped = IpAddr::V6(Ipv4Addr::UNSPECIFIED.to_ipv6_mapped());
    if let Ok(all4) = all4
        && effects.keys().any(|cidr| cidr.mapped_len() <= 96 && cidr.contains(mapped))
    {
        effects.entry(all4).or_default();
    }
    let bits = |cidr: &Cidr| {
        let mut holding: BTreeMap<usize, i32> = BTreeMap::new();
        for shorter in (0..=cidr.prefix_len()).filter_map(|len| Cidr::new(cidr.addr(), len).ok()) {
            for &(bit, effect) in effects.get(&shorter).iter().flat_map(|effects| &effects.0) {
                *holding.entry(bit).or_default() += effect;
            }
        }
        let mut bits = Bits::default();
        for (bit, _) in holding.into_iter().filter(|(_, blocks)| *blocks > 0) {
            set(&mut bits, bit);
        }
        bits
    };
    let key = |cidr: &Cidr| {
        let key = PrefixKey { list: 0, word, addr: abi_addr(cidr.addr()) };
        (PrefixKey::BASE_BITS + cidr.mapped_len(), key)
    };
    effects.keys().map(|cidr| (key(cidr), bits(cidr))).collect()
}

/// The exceptions of a block that lie in no other one of it, each once.
fn outermost(block: &IpBlock) -> Vec<Cidr> {
    let mut excepts = block.except.clone();
    excepts.sort_unstable_by_key(|except| (except.prefix_len(), *except));
    let mut outer: Vec<Cidr> = Vec::new();
    for except in excepts {
        if !outer.iter().any(|wider| wider.covers(&except)) {
            outer.push(except);
        }
    }
    outer
}
