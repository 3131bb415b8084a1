use std::collections::BTreeMap;

use skep_abi::{
    Addr, Backend, Bits, Endpoint, Frontend, FrontendKey, NodeAddr, PeerKey, PortKey, PrefixKey, Route, RouteKey,
    RuleList, RuleListKey, SlotKey, SourceRangeKey, map,
};

use super::{MapWrite, Write};

/// Entries of each map that the agent owns, by its name.
pub type MapCounts = [(&'static str, usize); 14];

/// Contents of the maps that the agent owns. Keys of the LPM maps carry their prefix length in front.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapContents {
    /// `frontends`.
    pub frontends: BTreeMap<FrontendKey, Frontend>,
    /// `slots`.
    pub slots: BTreeMap<SlotKey, u32>,
    /// `backends`.
    pub backends: BTreeMap<u32, Backend>,
    /// `source_ranges`.
    pub source_ranges: BTreeMap<(u32, SourceRangeKey), u32>,
    /// `node_addrs`.
    pub node_addrs: BTreeMap<Addr, NodeAddr>,
    /// `routes`.
    pub routes: BTreeMap<(u32, RouteKey), Route>,
    /// `announced`.
    pub announced: BTreeMap<Addr, u32>,
    /// `endpoints`, by host-side interface index.
    pub endpoints: BTreeMap<u32, Endpoint>,
    /// `identities`.
    pub identities: BTreeMap<Addr, u64>,
    /// `identity_tails`.
    pub identity_tails: BTreeMap<u64, u64>,
    /// `rule_lists`.
    pub rule_lists: BTreeMap<RuleListKey, RuleList>,
    /// `peer_rules`.
    pub peer_rules: BTreeMap<PeerKey, Bits>,
    /// `port_rules`.
    pub port_rules: BTreeMap<(u32, PortKey), Bits>,
    /// `prefixes`.
    pub prefixes: BTreeMap<(u32, PrefixKey), Bits>,
}

impl MapContents {
    /// How many entries each map has, by its name.
    #[must_use]
    pub fn counts(&self) -> MapCounts {
        [
            (map::FRONTENDS, self.frontends.len()),
            (map::SLOTS, self.slots.len()),
            (map::BACKENDS, self.backends.len()),
            (map::SOURCE_RANGES, self.source_ranges.len()),
            (map::NODE_ADDRS, self.node_addrs.len()),
            (map::ROUTES, self.routes.len()),
            (map::ANNOUNCED, self.announced.len()),
            (map::ENDPOINTS, self.endpoints.len()),
            (map::IDENTITIES, self.identities.len()),
            (map::IDENTITY_TAILS, self.identity_tails.len()),
            (map::RULE_LISTS, self.rule_lists.len()),
            (map::PEER_RULES, self.peer_rules.len()),
            (map::PORT_RULES, self.port_rules.len()),
            (map::PREFIXES, self.prefixes.len()),
        ]
    }

    /// How many entries these are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.counts().iter().map(|(_, entries)| entries).sum()
    }

    /// Whether every map is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the maps hold after `write`.
    pub fn apply(&mut self, write: &MapWrite) {
        match *write {
            MapWrite::Frontend(write) => set(&mut self.frontends, write),
            MapWrite::Slot(write) => set(&mut self.slots, write),
            MapWrite::Backend(write) => set(&mut self.backends, write),
            MapWrite::SourceRange(write) => set(&mut self.source_ranges, write),
            MapWrite::NodeAddr(write) => set(&mut self.node_addrs, write),
            MapWrite::Route(write) => set(&mut self.routes, write),
            MapWrite::Announced(write) => set(&mut self.announced, write),
            MapWrite::Endpoint(write) => set(&mut self.endpoints, write),
            MapWrite::Identity(write) => set(&mut self.identities, write),
            MapWrite::IdentityTail(write) => set(&mut self.identity_tails, write),
            MapWrite::RuleList(write) => set(&mut self.rule_lists, write),
            MapWrite::PeerRules(write) => set(&mut self.peer_rules, write),
            MapWrite::PortRules(write) => set(&mut self.port_rules, write),
            MapWrite::Prefix(write) => set(&mut self.prefixes, write),
        }
    }
}

fn set<K: Ord, V>(map: &mut BTreeMap<K, V>, write: Write<K, V>) {
    match write {
        Write::Put(key, value) => map.insert(key, value),
        Write::Delete(key) => map.remove(&key),
    };
}
