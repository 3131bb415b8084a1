//! Which node answers for which load balancer address.
//!
//! Every node comes to the same answer by itself: of the nodes that may, the one with the highest hash of address and node
//! (rendezvous hashing). When a node goes, only its own addresses move.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::endpoints::Readiness;
use super::mix;
use super::owner::{Owner, OwnerName};
use crate::dataplane::nodes::Nodes;
use crate::dataplane::staged::Staged;
use crate::dataplane::{EndpointSlice, Family, abi_addr};

/// The load balancer addresses, and which of them are this node's to answer for.
#[derive(Debug, Default)]
pub(super) struct Announcements {
    /// By address and Service; more than one while an address moves between Services. The first by name counts.
    addresses: BTreeMap<IpAddr, BTreeMap<Arc<OwnerName>, Candidates>>,
    of_owner: BTreeMap<u32, Vec<IpAddr>>,
    own: BTreeSet<IpAddr>,
    dirty: BTreeSet<IpAddr>,
    all_dirty: bool,
    prune: bool,
}

/// The nodes that a Service's address can be at.
#[derive(Debug, PartialEq, Eq)]
enum Candidates {
    Any,
    These(BTreeSet<Arc<str>>),
}

impl Announcements {
    /// Takes what a Service asks for.
    pub(super) fn update(&mut self, number: u32, owner: &Owner) {
        let service = owner.service.as_deref().filter(|service| !service.load_balancer_ips.is_empty());
        if service.is_none() && !self.of_owner.contains_key(&number) {
            return;
        }
        for addr in self.of_owner.remove(&number).into_iter().flatten() {
            self.dirty.insert(addr);
            if let Some(services) = self.addresses.get_mut(&addr) {
                services.remove(&owner.name);
                if services.is_empty() {
                    self.addresses.remove(&addr);
                }
            }
        }
        let Some(service) = service else { return };
        for &addr in &service.load_balancer_ips {
            let candidates = if service.external_local {
                Candidates::These(nodes_with_endpoints(&owner.slices, Family::of(addr)))
            } else {
                Candidates::Any
            };
            self.dirty.insert(addr);
            self.addresses.entry(addr).or_default().insert(Arc::clone(&owner.name), candidates);
        }
        self.of_owner.insert(number, service.load_balancer_ips.clone());
    }

    /// Nodes came or went, or may or may not answer any more.
    pub(super) fn touch_all(&mut self) {
        self.all_dirty = true;
    }

    /// Has the next write compare everything with what the maps hold.
    pub(super) fn adopt(&mut self) {
        self.all_dirty = true;
        self.prune = true;
    }

    /// Addresses that this node answers for.
    pub(super) fn own(&self) -> &BTreeSet<IpAddr> {
        &self.own
    }

    pub(super) fn write(&mut self, nodes: &Nodes, staged: &mut Staged) {
        let mut dirty = std::mem::take(&mut self.dirty);
        if std::mem::take(&mut self.all_dirty) {
            dirty.extend(self.addresses.keys());
        }
        if !dirty.is_empty() {
            let eligible: Vec<(u64, &str)> = nodes.eligible().map(|node| (hash(node.as_bytes()), node)).collect();
            for addr in dirty {
                if self.is_own(addr, &eligible, nodes) {
                    self.own.insert(addr);
                    staged.put_announced(abi_addr(addr));
                } else {
                    self.own.remove(&addr);
                    staged.delete_announced(abi_addr(addr));
                }
            }
        }
        if std::mem::take(&mut self.prune) {
            let own: BTreeSet<_> = self.own.iter().map(|&addr| abi_addr(addr)).collect();
            let stale: Vec<_> =
                staged.contents().announced.keys().filter(|addr| !own.contains(addr)).copied().collect();
            stale.into_iter().for_each(|addr| staged.delete_announced(addr));
        }
    }

    fn is_own(&self, addr: IpAddr, eligible: &[(u64, &str)], nodes: &Nodes) -> bool {
        let services = self.addresses.get(&addr);
        let Some(candidates) = services.and_then(|services| services.values().next()) else { return false };
        // Its node answers for it as it always did.
        if nodes.is_node_address(addr) {
            return false;
        }
        let address = hash(&abi_addr(addr).0);
        let may = eligible.iter().filter(|(_, node)| match candidates {
            Candidates::Any => true,
            Candidates::These(these) => these.contains(*node),
        });
        let winner = may.max_by_key(|(node, name)| (mix(address ^ node), *name));
        winner.is_some_and(|(_, name)| *name == nodes.own_name())
    }
}

/// Nodes with an endpoint that takes connections, in the order of preference that endpoint sets have.
fn nodes_with_endpoints(slices: &[Arc<EndpointSlice>], family: Family) -> BTreeSet<Arc<str>> {
    let endpoints = || slices.iter().flat_map(|slice| &slice.endpoints);
    let of = |state| -> BTreeSet<Arc<str>> {
        endpoints()
            .filter(|endpoint| Family::of(endpoint.address) == family && Readiness::of(endpoint) == state)
            .map(|endpoint| Arc::clone(&endpoint.node))
            .collect()
    };
    let ready = of(Readiness::Ready);
    if ready.is_empty() { of(Readiness::LastResort) } else { ready }
}

/// The first 8 bytes of the SHA-256.
fn hash(bytes: &[u8]) -> u64 {
    Sha256::digest(bytes).iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}
