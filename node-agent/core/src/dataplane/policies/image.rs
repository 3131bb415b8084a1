use std::collections::BTreeMap;

use skep_abi::{Bits, PeerKey, PortKey, PrefixKey, RuleList, RuleListKey, rule_list_flags};

use super::rules::{Peers, Rule};
use super::{ports, prefixes};
use crate::dataplane::MapContents;
use crate::dataplane::identity::{Group, Identities};
use crate::dataplane::staged::Staged;

/// Rules in one word.
pub(super) const WORD: usize = 256;

/// Entries of one rule list. The list's number is 0 in every key: it is put in on the way to the maps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Image {
    pub(super) words: Vec<RuleList>,
    pub(super) ports: BTreeMap<(u32, PortKey), Bits>,
    pub(super) prefixes: BTreeMap<(u32, PrefixKey), Bits>,
    pub(super) peers: BTreeMap<PeerKey, Bits>,
}

impl Image {
    /// Compiles rules; peers by selector only of the identities in use. At least one word, so that a list that allows
    /// nothing is there to be seen.
    pub(super) fn compile(rules: &[Rule], identities: &Identities) -> Self {
        let mut image = Self::default();
        for (word, rules) in words(rules) {
            let mut list = RuleList { any_peer: Bits::default(), any_port: Bits::default(), flags: 0, pad: 0 };
            for (bit, rule) in rules.iter().enumerate() {
                match &rule.peers {
                    None => set(&mut list.any_peer, bit),
                    Some(peers) => {
                        if !peers.pods.is_empty() || !peers.identities.is_empty() {
                            list.flags |= rule_list_flags::PEERS;
                        }
                        if !peers.blocks.is_empty() || !peers.addresses.is_empty() {
                            list.flags |= rule_list_flags::PREFIXES;
                        }
                    }
                }
                match &rule.ports {
                    None => set(&mut list.any_port, bit),
                    Some(_) => list.flags |= rule_list_flags::PORTS,
                }
            }
            image.words.push(list);
            image.ports.extend(ports::compile(word, rules));
            image.prefixes.extend(prefixes::compile(word, rules));
        }
        if image.words.is_empty() {
            image.words.push(RuleList { any_peer: Bits::default(), any_port: Bits::default(), flags: 0, pad: 0 });
        }
        for (identity, group) in identities.iter() {
            image.peers.extend(peer_rules(rules, identity, group));
        }
        image
    }

    /// Whether the lists differ in peers by selector only, which can be changed entry by entry.
    pub(super) fn same_frame(&self, other: &Self) -> bool {
        self.words == other.words && self.ports == other.ports && self.prefixes == other.prefixes
    }

    /// The images of all lists in the maps, by number.
    pub(super) fn found(contents: &MapContents) -> BTreeMap<u32, Self> {
        let mut found: BTreeMap<u32, Self> = BTreeMap::new();
        for (&key, &value) in &contents.rule_lists {
            let image = found.entry(key.list).or_default();
            // Words come in order; one that is missing makes the image unlike any compiled one.
            if image.words.len() == key.word as usize {
                image.words.push(value);
            }
        }
        for (&key, &bits) in &contents.peer_rules {
            found.entry(key.list).or_default().peers.insert(PeerKey { list: 0, ..key }, bits);
        }
        for (&(len, key), &bits) in &contents.port_rules {
            found.entry(key.list).or_default().ports.insert((len, PortKey { list: 0, ..key }), bits);
        }
        for (&(len, key), &bits) in &contents.prefixes {
            found.entry(key.list).or_default().prefixes.insert((len, PrefixKey { list: 0, ..key }), bits);
        }
        found
    }

    /// Stages every entry as list `list`.
    pub(super) fn put(&self, list: u32, staged: &mut Staged) {
        for (word, &value) in (0..).zip(&self.words) {
            staged.put_rule_list(RuleListKey { list, word }, value);
        }
        for (&key, &bits) in &self.peers {
            staged.put_peer(PeerKey { list, ..key }, bits);
        }
        for (&(len, key), &bits) in &self.ports {
            staged.put_port((len, PortKey { list, ..key }), bits);
        }
        for (&(len, key), &bits) in &self.prefixes {
            staged.put_prefix((len, PrefixKey { list, ..key }), bits);
        }
    }

    /// Stages the removal of every entry of list `list`.
    pub(super) fn delete(&self, list: u32, staged: &mut Staged) {
        for (word, _) in (0..).zip(&self.words) {
            staged.delete_rule_list(RuleListKey { list, word });
        }
        for &key in self.peers.keys() {
            staged.delete_peer(PeerKey { list, ..key });
        }
        for &(len, key) in self.ports.keys() {
            staged.delete_port((len, PortKey { list, ..key }));
        }
        for &(len, key) in self.prefixes.keys() {
            staged.delete_prefix((len, PrefixKey { list, ..key }));
        }
    }
}

/// The peer entries of one identity: a word that selects it in no rule has none.
pub(super) fn peer_rules(rules: &[Rule], identity: u64, group: &Group) -> BTreeMap<PeerKey, Bits> {
    let mut entries = BTreeMap::new();
    for (word, rules) in words(rules) {
        let mut bits = Bits::default();
        for (bit, rule) in rules.iter().enumerate() {
            if rule.peers.as_ref().is_some_and(|peers: &Peers| peers.select(identity, group)) {
                set(&mut bits, bit);
            }
        }
        if bits != Bits::default() {
            entries.insert(PeerKey { identity, list: 0, word }, bits);
        }
    }
    entries
}

fn words(rules: &[Rule]) -> impl Iterator<Item = (u32, &[Rule])> {
    (0..).zip(rules.chunks(WORD))
}

/// Sets bit `bit`; one that is beyond the word does not exist.
pub(super) fn set(bits: &mut Bits, bit: usize) {
    if let Some(element) = bits.0.get_mut(bit / 64) {
        *element |= 1 << (bit % 64);
    }
}

pub(super) fn union(bits: &mut Bits, other: &Bits) {
    for (element, other) in bits.0.iter_mut().zip(other.0) {
        *element |= other;
    }
}
