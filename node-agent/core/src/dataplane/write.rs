use skep_abi::{
    Addr, Backend, Bits, Endpoint, Frontend, FrontendKey, NodeAddr, PeerKey, PortKey, PrefixKey, Route, RouteKey,
    RuleList, RuleListKey, SlotKey, SourceRangeKey,
};

/// One update of one map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write<K, V> {
    /// Insert or replace.
    Put(K, V),
    /// Remove; that the key is already gone is not an error.
    Delete(K),
}

/// One update of one of the maps that the agent owns. Keys of the LPM maps carry their prefix length in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapWrite {
    /// `frontends`.
    Frontend(Write<FrontendKey, Frontend>),
    /// `slots`.
    Slot(Write<SlotKey, u32>),
    /// `backends`.
    Backend(Write<u32, Backend>),
    /// `source_ranges`.
    SourceRange(Write<(u32, SourceRangeKey), u32>),
    /// `node_addrs`.
    NodeAddr(Write<Addr, NodeAddr>),
    /// `routes`.
    Route(Write<(u32, RouteKey), Route>),
    /// `announced`.
    Announced(Write<Addr, u32>),
    /// `endpoints`, by host-side interface index.
    Endpoint(Write<u32, Endpoint>),
    /// `identities`.
    Identity(Write<Addr, u64>),
    /// `identity_tails`.
    IdentityTail(Write<u64, u64>),
    /// `rule_lists`.
    RuleList(Write<RuleListKey, RuleList>),
    /// `peer_rules`.
    PeerRules(Write<PeerKey, Bits>),
    /// `port_rules`.
    PortRules(Write<(u32, PortKey), Bits>),
    /// `prefixes`.
    Prefix(Write<(u32, PrefixKey), Bits>),
}
