use std::collections::BTreeMap;

use skep_abi::{
    Addr, Backend, Bits, Endpoint, Frontend, FrontendKey, NodeAddr, PeerKey, PortKey, PrefixKey, Route, RouteKey,
    RuleList, RuleListKey, SlotKey, SourceRangeKey,
};

use super::{MapContents, MapWrite, Write};

/// What the maps hold, and the writes that are on their way there.
///
/// A batch has three parts. What nothing refers to yet comes first, then the values that packets start from (frontends,
/// endpoints, identities), then what nothing refers to any more. A write that would change nothing is left out.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    contents: MapContents,
    before: Vec<MapWrite>,
    flip: Vec<MapWrite>,
    after: Vec<MapWrite>,
}

impl Staged {
    pub(crate) fn contents(&self) -> &MapContents {
        &self.contents
    }

    /// Replaces what the maps are believed to hold; writes that were not drained are void.
    pub(crate) fn adopt(&mut self, contents: MapContents) {
        *self = Self { contents, ..Self::default() };
    }

    /// Takes a write back that could not be done: a later one of the same key is not left out.
    pub(crate) fn forget(&mut self, write: &MapWrite) {
        let gone = match *write {
            MapWrite::Frontend(Write::Put(key, _)) => MapWrite::Frontend(Write::Delete(key)),
            MapWrite::Slot(Write::Put(key, _)) => MapWrite::Slot(Write::Delete(key)),
            MapWrite::Backend(Write::Put(key, _)) => MapWrite::Backend(Write::Delete(key)),
            MapWrite::SourceRange(Write::Put(key, _)) => MapWrite::SourceRange(Write::Delete(key)),
            MapWrite::NodeAddr(Write::Put(key, _)) => MapWrite::NodeAddr(Write::Delete(key)),
            MapWrite::Route(Write::Put(key, _)) => MapWrite::Route(Write::Delete(key)),
            MapWrite::Announced(Write::Put(key, _)) => MapWrite::Announced(Write::Delete(key)),
            MapWrite::Endpoint(Write::Put(key, _)) => MapWrite::Endpoint(Write::Delete(key)),
            MapWrite::Identity(Write::Put(key, _)) => MapWrite::Identity(Write::Delete(key)),
            MapWrite::IdentityTail(Write::Put(key, _)) => MapWrite::IdentityTail(Write::Delete(key)),
            MapWrite::RuleList(Write::Put(key, _)) => MapWrite::RuleList(Write::Delete(key)),
            MapWrite::PeerRules(Write::Put(key, _)) => MapWrite::PeerRules(Write::Delete(key)),
            MapWrite::PortRules(Write::Put(key, _)) => MapWrite::PortRules(Write::Delete(key)),
            MapWrite::Prefix(Write::Put(key, _)) => MapWrite::Prefix(Write::Delete(key)),
            // An entry that could not be removed is one that nothing refers to; the next adoption finds it.
            _ => return,
        };
        self.contents.apply(&gone);
    }

    /// The batch, in order.
    pub(crate) fn drain(&mut self) -> Vec<MapWrite> {
        let mut writes = std::mem::take(&mut self.before);
        writes.append(&mut self.flip);
        writes.append(&mut self.after);
        writes
    }

    pub(crate) fn put_frontend(&mut self, key: FrontendKey, value: Frontend) {
        put(&mut self.contents.frontends, &mut self.flip, MapWrite::Frontend, key, value);
    }

    pub(crate) fn delete_frontend(&mut self, key: FrontendKey) {
        delete(&mut self.contents.frontends, &mut self.flip, MapWrite::Frontend, key);
    }

    pub(crate) fn put_slot(&mut self, key: SlotKey, backend: u32) {
        put(&mut self.contents.slots, &mut self.before, MapWrite::Slot, key, backend);
    }

    pub(crate) fn delete_slot(&mut self, key: SlotKey) {
        delete(&mut self.contents.slots, &mut self.after, MapWrite::Slot, key);
    }

    pub(crate) fn put_backend(&mut self, id: u32, value: Backend) {
        put(&mut self.contents.backends, &mut self.before, MapWrite::Backend, id, value);
    }

    pub(crate) fn delete_backend(&mut self, id: u32) {
        delete(&mut self.contents.backends, &mut self.after, MapWrite::Backend, id);
    }

    pub(crate) fn put_source_range(&mut self, key: (u32, SourceRangeKey)) {
        put(&mut self.contents.source_ranges, &mut self.before, MapWrite::SourceRange, key, 1);
    }

    pub(crate) fn delete_source_range(&mut self, key: (u32, SourceRangeKey)) {
        delete(&mut self.contents.source_ranges, &mut self.after, MapWrite::SourceRange, key);
    }

    pub(crate) fn put_node_addr(&mut self, addr: Addr, value: NodeAddr) {
        put(&mut self.contents.node_addrs, &mut self.flip, MapWrite::NodeAddr, addr, value);
    }

    pub(crate) fn delete_node_addr(&mut self, addr: Addr) {
        delete(&mut self.contents.node_addrs, &mut self.flip, MapWrite::NodeAddr, addr);
    }

    pub(crate) fn put_route(&mut self, key: (u32, RouteKey), value: Route) {
        put(&mut self.contents.routes, &mut self.flip, MapWrite::Route, key, value);
    }

    pub(crate) fn delete_route(&mut self, key: (u32, RouteKey)) {
        delete(&mut self.contents.routes, &mut self.flip, MapWrite::Route, key);
    }

    /// After the frontends: an address is not answered for before it is served.
    pub(crate) fn put_announced(&mut self, addr: Addr) {
        put(&mut self.contents.announced, &mut self.after, MapWrite::Announced, addr, 1);
    }

    pub(crate) fn delete_announced(&mut self, addr: Addr) {
        delete(&mut self.contents.announced, &mut self.before, MapWrite::Announced, addr);
    }

    pub(crate) fn put_endpoint(&mut self, ifindex: u32, value: Endpoint) {
        put(&mut self.contents.endpoints, &mut self.flip, MapWrite::Endpoint, ifindex, value);
    }

    pub(crate) fn delete_endpoint(&mut self, ifindex: u32) {
        delete(&mut self.contents.endpoints, &mut self.flip, MapWrite::Endpoint, ifindex);
    }

    pub(crate) fn put_identity(&mut self, addr: Addr, identity: u64) {
        put(&mut self.contents.identities, &mut self.flip, MapWrite::Identity, addr, identity);
    }

    pub(crate) fn delete_identity(&mut self, addr: Addr) {
        delete(&mut self.contents.identities, &mut self.flip, MapWrite::Identity, addr);
    }

    /// After what the identity is allowed.
    pub(crate) fn put_identity_tail(&mut self, identity: u64, tail: u64) {
        put(&mut self.contents.identity_tails, &mut self.flip, MapWrite::IdentityTail, identity, tail);
    }

    pub(crate) fn delete_identity_tail(&mut self, identity: u64) {
        delete(&mut self.contents.identity_tails, &mut self.before, MapWrite::IdentityTail, identity);
    }

    pub(crate) fn put_rule_list(&mut self, key: RuleListKey, value: RuleList) {
        put(&mut self.contents.rule_lists, &mut self.before, MapWrite::RuleList, key, value);
    }

    pub(crate) fn delete_rule_list(&mut self, key: RuleListKey) {
        delete(&mut self.contents.rule_lists, &mut self.after, MapWrite::RuleList, key);
    }

    pub(crate) fn put_peer(&mut self, key: PeerKey, rules: Bits) {
        put(&mut self.contents.peer_rules, &mut self.before, MapWrite::PeerRules, key, rules);
    }

    /// Removes what an identity that pods still have was allowed, before another address gets that identity.
    pub(crate) fn revoke_peer(&mut self, key: PeerKey) {
        delete(&mut self.contents.peer_rules, &mut self.before, MapWrite::PeerRules, key);
    }

    /// Removes the entry of an identity that no address has any more.
    pub(crate) fn delete_peer(&mut self, key: PeerKey) {
        delete(&mut self.contents.peer_rules, &mut self.after, MapWrite::PeerRules, key);
    }

    pub(crate) fn put_port(&mut self, key: (u32, PortKey), rules: Bits) {
        put(&mut self.contents.port_rules, &mut self.before, MapWrite::PortRules, key, rules);
    }

    pub(crate) fn delete_port(&mut self, key: (u32, PortKey)) {
        delete(&mut self.contents.port_rules, &mut self.after, MapWrite::PortRules, key);
    }

    pub(crate) fn put_prefix(&mut self, key: (u32, PrefixKey), rules: Bits) {
        put(&mut self.contents.prefixes, &mut self.before, MapWrite::Prefix, key, rules);
    }

    pub(crate) fn delete_prefix(&mut self, key: (u32, PrefixKey)) {
        delete(&mut self.contents.prefixes, &mut self.after, MapWrite::Prefix, key);
    }
}

fn put<K: Copy + Ord, V: Copy + PartialEq>(
    map: &mut BTreeMap<K, V>,
    part: &mut Vec<MapWrite>,
    write: fn(Write<K, V>) -> MapWrite,
    key: K,
    value: V,
) {
    if map.insert(key, value) != Some(value) {
        part.push(write(Write::Put(key, value)));
    }
}

fn delete<K: Copy + Ord, V>(
    map: &mut BTreeMap<K, V>,
    part: &mut Vec<MapWrite>,
    write: fn(Write<K, V>) -> MapWrite,
    key: K,
) {
    if map.remove(&key).is_some() {
        part.push(write(Write::Delete(key)));
    }
}
