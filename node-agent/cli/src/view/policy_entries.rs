//! Entries of the maps that policies live in.

use serde::Serialize;
use skep_abi::{Bits, PeerKey, PortKey, PrefixKey, RuleList, RuleListKey, rule_list_flags};
use skep_agent_core::dataplane::Names;

use crate::show;
use crate::table::Row;

/// An entry of `rule_lists`.
#[derive(Debug, Serialize)]
pub(crate) struct RuleListRow {
    list: u32,
    word: u32,
    any_peer: Vec<usize>,
    any_port: Vec<usize>,
    flags: String,
    name: String,
    #[serde(skip)]
    shown: [String; 2],
}

impl RuleListRow {
    pub(crate) fn new((key, value): &(RuleListKey, RuleList), names: &Names) -> Self {
        let flags = [
            (rule_list_flags::PEERS, "peers"),
            (rule_list_flags::PREFIXES, "prefixes"),
            (rule_list_flags::PORTS, "ports"),
        ];
        Self {
            list: key.list,
            word: key.word,
            any_peer: show::bits(&value.any_peer),
            any_port: show::bits(&value.any_port),
            flags: show::flags(value.flags, &flags),
            name: show::rule_list(key.list, names),
            shown: [show::bit_ranges(&value.any_peer), show::bit_ranges(&value.any_port)],
        }
    }
}

impl Row for RuleListRow {
    const HEADER: &'static [&'static str] = &["LIST", "WORD", "ANY-PEER", "ANY-PORT", "ASKS", "POLICIES"];

    fn cells(&self) -> Vec<String> {
        let [any_peer, any_port] = self.shown.clone();
        vec![self.list.to_string(), self.word.to_string(), any_peer, any_port, self.flags.clone(), self.name.clone()]
    }
}

/// An entry of `peer_rules`, `port_rules` or `prefixes`.
#[derive(Debug, Serialize)]
pub(crate) struct RulesRow {
    list: u32,
    word: u32,
    /// Identity, port prefix or address prefix.
    key: String,
    rules: Vec<usize>,
    /// What the key stands for.
    name: String,
    #[serde(skip)]
    shown: String,
}

impl RulesRow {
    pub(crate) fn of_peer((key, rules): &(PeerKey, Bits), names: &Names) -> Self {
        let name = show::identity(key.identity, names);
        Self::new(key.list, key.word, show::identity_number(key.identity), rules, name)
    }

    pub(crate) fn of_port((len, key, rules): &(u32, PortKey, Bits), names: &Names) -> Self {
        let ports = PortRange::new(*len, key);
        let name = show::rule_list(key.list, names);
        Self::new(key.list, key.word.into(), format!("{} {}", show::protocol(key.proto), ports.shown()), rules, name)
    }

    pub(crate) fn of_prefix((len, key, rules): &(u32, PrefixKey, Bits), names: &Names) -> Self {
        let prefix = show::prefix(key.addr, len.saturating_sub(PrefixKey::BASE_BITS));
        Self::new(key.list, key.word, prefix, rules, show::rule_list(key.list, names))
    }

    fn new(list: u32, word: u32, key: String, rules: &Bits, name: String) -> Self {
        Self { list, word, key, rules: show::bits(rules), name, shown: show::bit_ranges(rules) }
    }
}

impl Row for RulesRow {
    const HEADER: &'static [&'static str] = &["LIST", "WORD", "KEY", "RULES", "NAME"];

    fn cells(&self) -> Vec<String> {
        vec![self.list.to_string(), self.word.to_string(), self.key.clone(), self.shown.clone(), self.name.clone()]
    }
}

/// The ports of a `port_rules` key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PortRange {
    pub(crate) first: u16,
    pub(crate) last: u16,
}

impl PortRange {
    pub(crate) fn new(prefix_len: u32, key: &PortKey) -> Self {
        let free = 16 - prefix_len.saturating_sub(PortKey::BASE_BITS).min(16);
        let first = u16::from_be(key.port_be);
        Self { first, last: first | u16::MAX.checked_shr(16 - free).unwrap_or(0) }
    }

    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.first <= other.first && other.last <= self.last
    }

    /// `80`, `8000-8010` or `any`.
    pub(crate) fn shown(&self) -> String {
        match (self.first, self.last) {
            (0, u16::MAX) => "any".to_owned(),
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}-{last}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_prefixes_are_ranges() {
        let key = |port: u16| PortKey { list: 1, word: 0, proto: 6, pad: 0, port_be: port.to_be(), tail: [0; 6] };
        for (len, port, shown) in [(64, 0, "any"), (80, 80, "80"), (77, 8000, "8000-8007"), (65, 32768, "32768-65535")]
        {
            assert_eq!(PortRange::new(len, &key(port)).shown(), shown);
        }
    }
}
