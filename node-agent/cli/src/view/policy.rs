use std::collections::BTreeMap;

use serde::Serialize;
use skep_abi::{Addr, Bits, Direction, Endpoint, PrefixKey, RuleList, endpoint_flags};
use skep_agent_core::dataplane::{MapContents, Names, PodName};

use super::policy_entries::PortRange;
use crate::show;
use crate::table::{Row, columns};

/// The compiled policies of a pod.
#[derive(Debug, Serialize)]
pub(crate) struct PodPolicy {
    pod: String,
    identity: String,
    labels: String,
    closed: bool,
    ingress: DirectionPolicy,
    egress: DirectionPolicy,
}

/// The compiled policies of a pod in one direction.
#[derive(Debug, Serialize)]
struct DirectionPolicy {
    /// Some policy selects the pod: only what a rule allows passes.
    isolated: bool,
    list: u32,
    policies: Vec<String>,
    rules: Vec<RuleRow>,
}

/// One bit of a rule list.
#[derive(Debug, Serialize)]
struct RuleRow {
    bit: usize,
    policy: String,
    /// Place of the rule in the policy.
    rule: Option<usize>,
    any_peer: bool,
    peers: Vec<String>,
    any_port: bool,
    ports: Vec<String>,
}

/// Number of the endpoint of a pod, given as `namespace/name` or `name`; `None` when no endpoint has it.
pub(crate) fn find(pod: &str, names: &Names) -> Option<u32> {
    let (namespace, name) = pod.split_once('/').unwrap_or(("default", pod));
    let wanted = PodName { namespace: namespace.to_owned(), name: name.to_owned() };
    // The youngest, should two lives of the pod be there.
    names.endpoints.iter().filter(|(_, name)| **name == wanted).map(|(id, _)| *id).max()
}

impl PodPolicy {
    pub(crate) fn new(endpoint: &Endpoint, maps: &MapContents, names: &Names) -> Self {
        Self {
            pod: show::endpoint(endpoint.id, names),
            identity: show::identity_number(endpoint.identity),
            labels: show::identity(endpoint.identity, names),
            closed: endpoint.flags & endpoint_flags::CLOSED != 0,
            ingress: DirectionPolicy::new(endpoint, Direction::Ingress, maps, names),
            egress: DirectionPolicy::new(endpoint, Direction::Egress, maps, names),
        }
    }

    /// As text for people.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("pod       {}\nidentity  {} ({})\n", self.pod, self.identity, self.labels);
        if self.closed {
            text.push_str("closed    nothing passes: its policies are not known or could not be written\n");
        }
        for (name, direction) in [("ingress", &self.ingress), ("egress", &self.egress)] {
            text.push('\n');
            if !direction.isolated {
                text.push_str(&format!("{name}: no policy, everything passes\n"));
                continue;
            }
            text.push_str(&format!("{name}: list {}, policies {}\n", direction.list, direction.policies.join(", ")));
            if direction.rules.is_empty() {
                text.push_str("no rule, nothing passes\n");
            } else {
                text.push_str(&columns(&direction.rules));
            }
        }
        text
    }
}

impl DirectionPolicy {
    fn new(endpoint: &Endpoint, direction: Direction, maps: &MapContents, names: &Names) -> Self {
        let list = match direction {
            Direction::Ingress => endpoint.rule_list[0],
            Direction::Egress => endpoint.rule_list[1],
        };
        let name = names.rule_lists.get(&list);
        let mut rules = Vec::new();
        for (key, word) in maps.rule_lists.iter().filter(|(key, _)| key.list == list) {
            rules.extend(rules_of(list, key.word, word, maps, names));
        }
        for rule in &mut rules {
            if let Some(name) = name.and_then(|name| name.rules.get(rule.bit)) {
                rule.policy.clone_from(&name.policy);
                rule.rule = Some(name.rule);
            }
        }
        let policies = name.map(|name| name.policies.clone()).unwrap_or_default();
        Self { isolated: list != 0, list, policies, rules }
    }
}

/// The rules of a word that have any bit set anywhere.
fn rules_of(list: u32, word: u32, value: &RuleList, maps: &MapContents, names: &Names) -> Vec<RuleRow> {
    let mut peers: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for (key, bits) in maps.peer_rules.iter().filter(|(key, _)| (key.list, key.word) == (list, word)) {
        let name = show::identity(key.identity, names);
        let shown = if name.is_empty() { show::identity_number(key.identity) } else { name.replace(' ', ":") };
        for bit in show::bits(bits) {
            peers.entry(bit).or_default().push(shown.clone());
        }
    }
    let prefixes = maps.prefixes.iter().filter(|((_, key), _)| (key.list, key.word) == (list, word));
    let prefixes: Vec<_> = prefixes.map(|((len, key), bits)| (len - PrefixKey::BASE_BITS, key.addr, *bits)).collect();
    let ports = maps.port_rules.iter().filter(|((_, key), _)| (key.list, u32::from(key.word)) == (list, word));
    let ports: Vec<_> = ports.map(|((len, key), bits)| (key.proto, PortRange::new(*len, key), *bits)).collect();

    let rule = |bit: usize| {
        let mut shown = peers.remove(&bit).unwrap_or_default();
        shown.extend(blocks(&prefixes, bit));
        let row = RuleRow {
            bit: word as usize * 256 + bit,
            policy: String::new(),
            rule: None,
            any_peer: show::has_bit(&value.any_peer, bit),
            peers: shown,
            any_port: show::has_bit(&value.any_port, bit),
            ports: ranges(&ports, bit),
        };
        (row.any_peer || row.any_port || !row.peers.is_empty() || !row.ports.is_empty()).then_some(row)
    };
    (0..256).filter_map(rule).collect()
}

/// The prefixes of a rule, each with those that are taken out of it.
fn blocks(prefixes: &[(u32, Addr, Bits)], bit: usize) -> Vec<String> {
    let covers = |outer: &(u32, Addr, Bits), inner: &(u32, Addr, Bits)| {
        outer.0 < inner.0
            && inner.1.0.iter().zip(outer.1.0).enumerate().all(|(i, (a, b))| {
                let bits = outer.0.saturating_sub(8 * u32::try_from(i).unwrap_or(u32::MAX)).min(8);
                let mask = u8::MAX.checked_shl(8 - bits).unwrap_or(0);
                a & mask == b & mask
            })
    };
    let parent =
        |prefix: &(u32, Addr, Bits)| prefixes.iter().filter(|other| covers(other, prefix)).max_by_key(|other| other.0);
    let has = |prefix: &(u32, Addr, Bits)| show::has_bit(&prefix.2, bit);
    let shown = |prefix: &(u32, Addr, Bits)| show::prefix(prefix.1, prefix.0);
    let mut blocks = Vec::new();
    // What only repeats the prefix around it is left out.
    for block in prefixes.iter().filter(|prefix| has(prefix) && !parent(prefix).is_some_and(has)) {
        let taken =
            prefixes.iter().filter(|inner| !has(inner) && covers(block, inner) && parent(inner).is_some_and(has));
        let taken: Vec<_> = taken.map(shown).collect();
        let except = if taken.is_empty() { String::new() } else { format!(" except {}", taken.join(",")) };
        blocks.push(format!("{}{except}", shown(block)));
    }
    blocks
}

/// The ports of a rule; prefixes that follow each other are one range.
fn ranges(ports: &[(u8, PortRange, Bits)], bit: usize) -> Vec<String> {
    let mut own: Vec<_> =
        ports.iter().filter(|(.., bits)| show::has_bit(bits, bit)).map(|(proto, range, _)| (*proto, *range)).collect();
    // Wide ones first, so that a prefix that only repeats a wider one comes after it.
    own.sort_by_key(|(proto, range)| (*proto, range.first, std::cmp::Reverse(range.last)));
    let mut merged: Vec<(u8, PortRange)> = Vec::new();
    for (proto, range) in own {
        match merged.last_mut() {
            Some((same, last)) if *same == proto && last.covers(&range) => {}
            Some((same, last)) if *same == proto && u32::from(last.last) + 1 == u32::from(range.first) => {
                last.last = range.last;
            }
            _ => merged.push((proto, range)),
        }
    }
    merged.into_iter().map(|(proto, range)| format!("{} {}", show::protocol(proto), range.shown())).collect()
}

impl Row for RuleRow {
    const HEADER: &'static [&'static str] = &["RULE", "POLICY", "PORTS", "PEERS"];

    fn cells(&self) -> Vec<String> {
        let place = self.rule.map(|rule| format!("[{rule}]")).unwrap_or_default();
        let list = |any: bool, values: &[String]| match (any, values) {
            (true, _) => "any".to_owned(),
            (false, []) => "none".to_owned(),
            (false, values) => values.join("; "),
        };
        vec![
            self.bit.to_string(),
            format!("{}{place}", self.policy),
            list(self.any_port, &self.ports),
            list(self.any_peer, &self.peers),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn a_pods_rules_are_read_back_from_the_bits() {
        let (maps, names) = (samples::contents(), samples::names());
        assert_eq!(find("shop/client", &names), Some(7));
        assert_eq!(find("client", &names), None);
        let policy = PodPolicy::new(&maps.endpoints[&12], &maps, &names);
        assert_eq!(
            policy.text(),
            "\
pod       shop/client
identity  00000000000000ab (shop app=client)

ingress: list 3, policies allow, deny
RULE   POLICY     PORTS                   PEERS
0      allow[0]   TCP 80; TCP 8000-8010   shop:app=client
1      allow[1]   any                     10.0.0.0/8 except 10.1.0.0/16
2      allow[2]   TCP any                 any

egress: no policy, everything passes
"
        );
        let json = serde_json::to_value(&policy).unwrap();
        assert_eq!(json["ingress"]["rules"][1]["peers"][0], "10.0.0.0/8 except 10.1.0.0/16");
        assert_eq!(json["egress"]["isolated"], false);
    }

    #[test]
    fn a_closed_pod_says_so() {
        let (maps, names) = (samples::contents(), samples::names());
        let text = PodPolicy::new(&maps.endpoints[&13], &maps, &names).text();
        assert!(text.contains("closed") && text.contains("no rule, nothing passes"), "{text}");
    }
}
