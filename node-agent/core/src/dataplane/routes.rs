use std::collections::BTreeMap;
use std::net::IpAddr;

use super::{Cidr, NodeRoute};

/// The way to the pods of the other nodes.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    nodes: BTreeMap<String, NodeRoute>,
    /// By range and node: two nodes claim a range only while it moves between them.
    claims: BTreeMap<Cidr, BTreeMap<String, IpAddr>>,
    routes: BTreeMap<Cidr, IpAddr>,
}

impl Routes {
    /// Takes the route of a node, which must not be this one.
    pub(crate) fn put(&mut self, route: NodeRoute) {
        self.delete(&route.name);
        for &cidr in &route.pod_cidrs {
            // A node without an address of the family cannot be reached this way.
            let next_hop = route.addresses.iter().find(|addr| addr.is_ipv4() == cidr.addr().is_ipv4());
            if let Some(&next_hop) = next_hop {
                self.claims.entry(cidr).or_default().insert(route.name.clone(), next_hop);
                self.choose(cidr);
            }
        }
        self.nodes.insert(route.name.clone(), route);
    }

    pub(crate) fn delete(&mut self, node: &str) {
        let Some(old) = self.nodes.remove(node) else { return };
        for cidr in old.pod_cidrs {
            if let Some(claims) = self.claims.get_mut(&cidr) {
                claims.remove(node);
                if claims.is_empty() {
                    self.claims.remove(&cidr);
                }
            }
            self.choose(cidr);
        }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.nodes.keys()
    }

    pub(crate) fn next_hops(&self) -> &BTreeMap<Cidr, IpAddr> {
        &self.routes
    }

    fn choose(&mut self, cidr: Cidr) {
        match self.claims.get(&cidr).and_then(|claims| claims.values().next()) {
            Some(&next_hop) => self.routes.insert(cidr, next_hop),
            None => self.routes.remove(&cidr),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(name: &str, addresses: &[&str], cidrs: &[&str]) -> NodeRoute {
        NodeRoute {
            name: name.to_owned(),
            addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
            pod_cidrs: cidrs.iter().map(|text| text.parse().unwrap()).collect(),
        }
    }

    fn shown(routes: &Routes) -> Vec<String> {
        routes.next_hops().iter().map(|(cidr, hop)| format!("{cidr} via {hop}")).collect()
    }

    #[test]
    fn each_range_goes_via_the_address_of_its_family() {
        let mut routes = Routes::default();
        routes.put(route("b", &["192.0.2.2", "fd00::2", "192.0.2.3"], &["10.244.1.0/24", "fd01::/64"]));
        routes.put(route("c", &["192.0.2.4"], &["10.244.2.0/24", "fd02::/64"]));
        assert_eq!(
            shown(&routes),
            ["10.244.1.0/24 via 192.0.2.2", "10.244.2.0/24 via 192.0.2.4", "fd01::/64 via fd00::2"]
        );
        routes.put(route("b", &["192.0.2.9"], &["10.244.1.0/24"]));
        assert_eq!(shown(&routes), ["10.244.1.0/24 via 192.0.2.9", "10.244.2.0/24 via 192.0.2.4"]);
    }

    #[test]
    fn a_range_that_two_nodes_claim_stays_until_both_are_gone() {
        let mut routes = Routes::default();
        routes.put(route("b", &["192.0.2.2"], &["10.244.1.0/24"]));
        routes.put(route("a", &["192.0.2.1"], &["10.244.1.0/24"]));
        assert_eq!(shown(&routes), ["10.244.1.0/24 via 192.0.2.1"]);
        routes.delete("a");
        assert_eq!(shown(&routes), ["10.244.1.0/24 via 192.0.2.2"]);
        routes.delete("b");
        routes.delete("b");
        assert!(shown(&routes).is_empty());
    }
}
