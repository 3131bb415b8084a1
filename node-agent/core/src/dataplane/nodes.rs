use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use skep_abi::{Addr, NodeAddr, Route, RouteKey, node_addr_flags, route_flags};

use super::staged::Staged;
use super::{Cidr, Family, NodeRoute, abi_addr};

/// The cluster's nodes: their addresses, the way to their pods, and who may answer for load balancers.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    own: String,
    nodes: BTreeMap<String, NodeRoute>,
    /// By range and node: two nodes claim a range only while it moves between them.
    claims: BTreeMap<Cidr, BTreeSet<String>>,
    /// Next hop to each pod range of the other nodes.
    next_hops: BTreeMap<Cidr, IpAddr>,
    /// By address and node, for the same reason.
    holders: BTreeMap<IpAddr, BTreeSet<String>>,
    no_masquerade: Vec<Cidr>,
    dirty: bool,
}

/// What is new about a node, for those that depend on it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NodeChange {
    pub(crate) node: String,
    /// Addresses that it has or had, when they changed.
    pub(crate) addresses: Vec<IpAddr>,
    /// It is this node, and its zone is another.
    pub(crate) own_zone: bool,
    /// It may answer for load balancers now, or no longer.
    pub(crate) eligibility: bool,
}

impl Nodes {
    pub(crate) fn new(own: &str) -> Self {
        Self { own: own.to_owned(), dirty: true, ..Self::default() }
    }

    /// Sets the ranges outside of the cluster that pods reach with their own address.
    pub(crate) fn set_no_masquerade(&mut self, ranges: Vec<Cidr>) {
        self.no_masquerade = ranges;
        self.dirty = true;
    }

    /// Takes a node; nothing is returned when nothing changed.
    pub(crate) fn put(&mut self, route: NodeRoute) -> Option<NodeChange> {
        let old = self.nodes.get(&route.name);
        if old == Some(&route) {
            return None;
        }
        let change = self.change(old, Some(&route))?;
        self.forget(&route.name);
        for &cidr in &route.pod_cidrs {
            self.claims.entry(cidr).or_default().insert(route.name.clone());
        }
        for &addr in &route.addresses {
            self.holders.entry(addr).or_default().insert(route.name.clone());
        }
        let cidrs = route.pod_cidrs.clone();
        self.nodes.insert(route.name.clone(), route);
        cidrs.into_iter().for_each(|cidr| self.choose(cidr));
        Some(change)
    }

    pub(crate) fn delete(&mut self, node: &str) -> Option<NodeChange> {
        let change = self.change(self.nodes.get(node), None)?;
        self.forget(node);
        Some(change)
    }

    fn change(&self, old: Option<&NodeRoute>, new: Option<&NodeRoute>) -> Option<NodeChange> {
        let node = new.or(old)?.name.clone();
        let addresses = |route: Option<&NodeRoute>| route.map(|route| route.addresses.clone()).unwrap_or_default();
        let zone = |route: Option<&NodeRoute>| route.map(|route| route.zone.clone()).unwrap_or_default();
        let (mut all, now) = (addresses(old), addresses(new));
        if all == now {
            all.clear();
        } else {
            all.extend(now);
        }
        Some(NodeChange {
            own_zone: node == self.own && zone(old) != zone(new),
            eligibility: old.is_some_and(is_eligible) != new.is_some_and(is_eligible),
            node,
            addresses: all,
        })
    }

    fn forget(&mut self, node: &str) {
        self.dirty = true;
        let Some(old) = self.nodes.remove(node) else { return };
        for addr in &old.addresses {
            remove_holder(&mut self.holders, addr, node);
        }
        for cidr in old.pod_cidrs {
            remove_holder(&mut self.claims, &cidr, node);
            self.choose(cidr);
        }
    }

    /// The node that has a range. This node wins, then the first by name.
    fn claimant(&self, cidr: &Cidr) -> Option<&NodeRoute> {
        let claims = self.claims.get(cidr)?;
        self.nodes.get(claims.get(&self.own).or_else(|| claims.first())?)
    }

    fn choose(&mut self, cidr: Cidr) {
        // A node without an address of the family cannot be reached by a route of the kernel's.
        let node = self.claimant(&cidr).filter(|node| node.name != self.own);
        match node.and_then(|node| first_of(&node.addresses, cidr.family())) {
            Some(next_hop) => self.next_hops.insert(cidr, next_hop),
            None => self.next_hops.remove(&cidr),
        };
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.nodes.keys()
    }

    /// Name of this node.
    pub(crate) fn own_name(&self) -> &str {
        &self.own
    }

    /// Topology zone of this node, "" when unknown.
    pub(crate) fn own_zone(&self) -> &str {
        self.nodes.get(&self.own).map_or("", |node| &node.zone)
    }

    /// Addresses of this node.
    pub(crate) fn own_addresses(&self) -> &[IpAddr] {
        self.nodes.get(&self.own).map_or(&[], |node| &node.addresses)
    }

    /// The address of another node in a family.
    pub(crate) fn address(&self, node: &str, family: Family) -> Option<IpAddr> {
        if node == self.own {
            return None;
        }
        first_of(&self.nodes.get(node)?.addresses, family)
    }

    /// Whether an address is a node's.
    pub(crate) fn is_node_address(&self, addr: IpAddr) -> bool {
        self.holders.contains_key(&addr)
    }

    /// Nodes that may answer for load balancer addresses.
    pub(crate) fn eligible(&self) -> impl Iterator<Item = &str> {
        self.nodes.values().filter(|node| is_eligible(node)).map(|node| node.name.as_str())
    }

    /// Next hop to each pod range of the other nodes.
    pub(crate) fn next_hops(&self) -> &BTreeMap<Cidr, IpAddr> {
        &self.next_hops
    }

    /// Has the next write compare everything with what the maps hold.
    pub(crate) fn adopt(&mut self) {
        self.dirty = true;
    }

    /// Brings `node_addrs` and `routes` up to date.
    pub(crate) fn write(&mut self, staged: &mut Staged) {
        if !std::mem::take(&mut self.dirty) {
            return;
        }
        let addrs = self.node_addrs();
        let stale: Vec<_> =
            staged.contents().node_addrs.keys().filter(|addr| !addrs.contains_key(addr)).copied().collect();
        addrs.into_iter().for_each(|(addr, value)| staged.put_node_addr(addr, value));
        stale.into_iter().for_each(|addr| staged.delete_node_addr(addr));
        let routes = self.routes();
        let stale: Vec<_> = staged.contents().routes.keys().filter(|key| !routes.contains_key(key)).copied().collect();
        routes.into_iter().for_each(|(key, value)| staged.put_route(key, value));
        stale.into_iter().for_each(|key| staged.delete_route(key));
    }

    fn node_addrs(&self) -> BTreeMap<Addr, NodeAddr> {
        let local = |nodes: &BTreeSet<String>| if nodes.contains(&self.own) { node_addr_flags::LOCAL } else { 0 };
        let addresses = self.holders.iter().map(|(&addr, nodes)| (addr, local(nodes)));
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)]
            .map(|addr| (addr, node_addr_flags::LOCAL | node_addr_flags::HOST_ONLY));
        addresses.chain(loopback).map(|(addr, flags)| (abi_addr(addr), NodeAddr { flags })).collect()
    }

    fn routes(&self) -> BTreeMap<(u32, RouteKey), Route> {
        // Within a pod range nothing is masqueraded anyway, and an entry of its own would hide the range's.
        let ranges = self.no_masquerade.iter().filter(|range| !self.claims.keys().any(|pods| pods.covers(range)));
        let outside = Route { node: Addr::NONE, flags: route_flags::NO_MASQUERADE, pad: 0 };
        let mut routes: BTreeMap<_, _> = ranges.map(|range| (route_key(range), outside)).collect();
        for cidr in self.claims.keys() {
            let Some(node) = self.claimant(cidr) else { continue };
            let route = if node.name == self.own {
                Route { node: Addr::NONE, flags: route_flags::LOCAL_PODS, pad: 0 }
            } else {
                // An overlay carries one family over the other.
                let via = first_of(&node.addresses, cidr.family()).or_else(|| node.addresses.first().copied());
                Route { node: via.map_or(Addr::NONE, abi_addr), flags: route_flags::REMOTE_PODS, pad: 0 }
            };
            routes.insert(route_key(cidr), route);
        }
        routes
    }
}

fn is_eligible(node: &NodeRoute) -> bool {
    node.ready && !node.exclude_from_load_balancers
}

fn first_of(addresses: &[IpAddr], family: Family) -> Option<IpAddr> {
    addresses.iter().copied().find(|&addr| Family::of(addr) == family)
}

fn route_key(cidr: &Cidr) -> (u32, RouteKey) {
    (cidr.mapped_len(), RouteKey { addr: abi_addr(cidr.addr()) })
}

fn remove_holder<K: Ord>(holders: &mut BTreeMap<K, BTreeSet<String>>, key: &K, node: &str) {
    if let Some(nodes) = holders.get_mut(key) {
        nodes.remove(node);
        if nodes.is_empty() {
            holders.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::samples::node;

    fn hops(nodes: &Nodes) -> Vec<String> {
        nodes.next_hops().iter().map(|(cidr, hop)| format!("{cidr} via {hop}")).collect()
    }

    fn routes(nodes: &Nodes) -> Vec<String> {
        let row = |((len, key), route): ((u32, RouteKey), Route)| {
            let (addr, via) = (IpAddr::from(key.addr.0).to_canonical(), IpAddr::from(route.node.0).to_canonical());
            let len = if addr.is_ipv4() { len - 96 } else { len };
            format!("{addr}/{len} {} {via}", route.flags)
        };
        let mut rows: Vec<_> = nodes.routes().into_iter().map(row).collect();
        rows.sort();
        rows
    }

    #[test]
    fn each_range_goes_via_the_address_of_its_family() {
        let mut nodes = Nodes::new("a");
        nodes.put(node("b", &["192.0.2.2", "fd00::2", "192.0.2.3"], &["10.244.1.0/24", "fd01::/64"]));
        nodes.put(node("c", &["192.0.2.4"], &["10.244.2.0/24", "fd02::/64"]));
        nodes.put(node("a", &["192.0.2.1"], &["10.244.0.0/24"]));
        assert_eq!(
            hops(&nodes),
            ["10.244.1.0/24 via 192.0.2.2", "10.244.2.0/24 via 192.0.2.4", "fd01::/64 via fd00::2"]
        );
        nodes.put(node("b", &["192.0.2.9"], &["10.244.1.0/24"]));
        assert_eq!(hops(&nodes), ["10.244.1.0/24 via 192.0.2.9", "10.244.2.0/24 via 192.0.2.4"]);
        nodes.delete("b");
        nodes.delete("c");
        assert!(hops(&nodes).is_empty());
    }

    #[test]
    fn a_range_that_moves_between_nodes_always_has_a_way() {
        let mut nodes = Nodes::new("a");
        nodes.put(node("b", &["192.0.2.2"], &["10.244.1.0/24"]));
        nodes.put(node("c", &["192.0.2.3"], &["10.244.1.0/24"]));
        assert_eq!(hops(&nodes), ["10.244.1.0/24 via 192.0.2.2"]);
        nodes.delete("b");
        assert_eq!(hops(&nodes), ["10.244.1.0/24 via 192.0.2.3"]);
        nodes.put(node("a", &["192.0.2.1"], &["10.244.1.0/24"]));
        assert!(hops(&nodes).is_empty());
    }

    #[test]
    fn routes_say_whose_pods_an_address_is() {
        let mut nodes = Nodes::new("a");
        nodes.set_no_masquerade(
            ["192.168.0.0/16", "10.244.1.128/25", "10.244.0.0/16"].map(|text| text.parse().unwrap()).into(),
        );
        nodes.put(node("a", &["192.0.2.1"], &["10.244.0.0/24"]));
        nodes.put(node("b", &["192.0.2.2"], &["10.244.1.0/24", "fd01::/64"]));
        assert_eq!(
            routes(&nodes),
            [
                "10.244.0.0/16 4 ::",
                "10.244.0.0/24 1 ::",
                "10.244.1.0/24 2 192.0.2.2",
                "192.168.0.0/16 4 ::",
                "fd01::/64 2 192.0.2.2",
            ]
        );
    }

    #[test]
    fn an_address_is_local_when_this_node_has_it_too() {
        let mut nodes = Nodes::new("a");
        nodes.put(node("a", &["192.0.2.1"], &[]));
        nodes.put(node("b", &["192.0.2.1", "192.0.2.2"], &[]));
        let flags = |nodes: &Nodes, text: &str| {
            nodes.node_addrs().get(&abi_addr(text.parse().unwrap())).map(|value| value.flags)
        };
        let host_only = node_addr_flags::LOCAL | node_addr_flags::HOST_ONLY;
        assert_eq!(
            ["192.0.2.1", "192.0.2.2", "127.0.0.1", "::1"].map(|text| flags(&nodes, text)),
            [Some(node_addr_flags::LOCAL), Some(0), Some(host_only), Some(host_only)]
        );
        nodes.delete("b");
        assert_eq!([flags(&nodes, "192.0.2.1"), flags(&nodes, "192.0.2.2")], [Some(node_addr_flags::LOCAL), None]);
    }

    #[test]
    fn a_change_says_who_must_look_again() {
        let mut nodes = Nodes::new("a");
        let mut own = node("a", &["192.0.2.1"], &["10.244.0.0/24"]);
        let addr = |text: &str| -> IpAddr { text.parse().unwrap() };
        let change = nodes.put(own.clone()).unwrap();
        assert_eq!((change.addresses, change.own_zone, change.eligibility), (vec![addr("192.0.2.1")], false, true));
        assert_eq!(nodes.put(own.clone()), None);
        own.zone = "z".to_owned();
        own.ready = false;
        own.addresses = vec![addr("192.0.2.9")];
        let change = nodes.put(own).unwrap();
        let both = vec![addr("192.0.2.1"), addr("192.0.2.9")];
        assert_eq!((change.addresses, change.own_zone, change.eligibility), (both, true, true));
        assert_eq!(nodes.eligible().count(), 0);
        let change = nodes.put(NodeRoute { zone: "z".to_owned(), ..node("b", &["192.0.2.2"], &[]) }).unwrap();
        assert!(!change.own_zone && change.eligibility);
        assert_eq!(nodes.eligible().collect::<Vec<_>>(), ["b"]);
        assert_eq!(nodes.delete("x"), None);
    }
}
