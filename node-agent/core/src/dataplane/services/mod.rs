//! Services, and host ports, to frontends, slots and backends.
//!
//! ```text
//!  Owner (a Service; a pod with host ports)
//!    └ Group (one port, one family): which endpoints there are
//!        └ EndpointSet (all of them, those of this node, ...): slots        ◄── Frontend: address, port, scope
//! ```
//!
//! A set that changes:
//!
//! ```text
//!  drain n    backends, slots of generation g+1  ─►  frontends flip to g+1
//!  drain n+1  slots of generation g and backends without use are removed
//! ```
//!
//! A packet that read a frontend before the flip finds its slots and backends until drain n+1.

mod announce;
mod backends;
mod claims;
mod compile;
mod endpoints;
mod maglev;
mod names;
mod objects;
mod owner;
mod reconcile;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use skep_abi::{Addr, Frontend, FrontendKey, SlotKey, SourceRangeKey};

use super::nodes::{NodeChange, Nodes};
use super::staged::Staged;
use super::{Cidr, GoneBackend, HealthCheck, MapContents, MapWrite, ObjectName, Write, abi_addr};
use announce::Announcements;
use backends::Backends;
use claims::Claims;
use objects::Objects;
use owner::{Owner, OwnerName};
use table::{Set, Table};

pub(crate) use names::NameSource;

/// The fold of Services, EndpointSlices and host ports.
#[derive(Debug, Default)]
pub(crate) struct Services {
    objects: Objects,
    /// Owner by the number of its set.
    owner_of: Table<u32, u32>,
    claims: Claims,
    backends: Backends,
    announcements: Announcements,
    last_id: u32,
    /// What the last write replaced.
    retired: Vec<SlotKey>,
    retired_ranges: Vec<(u32, SourceRangeKey)>,
    retired_sets: Vec<u32>,
    /// Sets that no packet can come to any more.
    gone_sets: Vec<u32>,
    /// Frontends found in the maps, until the first write.
    found: BTreeMap<FrontendKey, Frontend>,
    prune: bool,
    /// Sets of which the last write's slots or backends could not be written.
    failed: BTreeSet<u32>,
}

impl Services {
    pub(crate) fn objects(&mut self) -> &mut Objects {
        &mut self.objects
    }

    /// Takes over the numbers in the maps, and lets the next write compare everything with them.
    pub(crate) fn adopt(&mut self, contents: &MapContents) {
        if self.owner_of.is_empty() {
            self.found = contents.frontends.clone();
            self.backends.adopt(&contents.backends);
            let ids = contents.frontends.values().map(|frontend| frontend.service);
            self.last_id = ids.chain(contents.slots.keys().map(|slot| slot.service)).max().unwrap_or(0);
        }
        self.backends.touch_all();
        self.retired.clear();
        self.retired_ranges.clear();
        self.objects.touch_all();
        self.announcements.adopt();
        self.prune = true;
    }

    /// A node came, went or changed.
    pub(crate) fn node_changed(&mut self, change: &NodeChange, nodes: &Nodes) {
        if !change.addresses.is_empty() {
            self.backends.node_changed(&change.node, &change.addresses);
            self.announcements.touch_all();
            if change.node == *nodes.own_name() {
                self.objects.touch_host_ports();
            }
        }
        if change.own_zone {
            self.objects.touch_all();
        }
        if change.eligibility {
            self.announcements.touch_all();
        }
    }

    pub(crate) fn has_retired(&self) -> bool {
        !self.retired.is_empty()
            || !self.retired_ranges.is_empty()
            || !self.retired_sets.is_empty()
            || self.backends.has_retired()
    }

    /// Notes a write that failed. Frontends of its set stay at the generation that they have, which is kept for them.
    pub(crate) fn write_failed(&mut self, write: &MapWrite) {
        match *write {
            MapWrite::Slot(Write::Put(slot, _)) => {
                self.failed.insert(slot.service);
            }
            MapWrite::Frontend(Write::Put(_, value)) => {
                self.failed.insert(value.service);
            }
            MapWrite::SourceRange(Write::Put((_, range), _)) => {
                self.failed.insert(range.service);
            }
            MapWrite::Backend(Write::Put(id, _)) => {
                let Some(handle) = self.backends.find(id) else { return };
                let users = self.objects.owners().flat_map(Owner::sets).filter(|set| set.backends.contains(&handle));
                self.failed.extend(users.map(|set| set.id));
            }
            _ => return,
        }
        // Found again when the maps are adopted again.
        self.retired.retain(|slot| !self.failed.contains(&slot.service));
        self.retired_ranges.retain(|(_, range)| !self.failed.contains(&range.service));
        self.backends.keep_retired();
    }

    /// Whether a frontend would flip to a set that is not whole.
    pub(crate) fn is_void(&self, write: &MapWrite) -> bool {
        matches!(write, MapWrite::Frontend(Write::Put(_, value)) if self.failed.contains(&value.service))
    }

    /// Stages what changed since the last call, and the removal of what that one replaced.
    pub(crate) fn write(&mut self, nodes: &Nodes, staged: &mut Staged) {
        self.failed.clear();
        let retired = std::mem::take(&mut self.retired);
        let retired_ranges = std::mem::take(&mut self.retired_ranges);
        self.gone_sets.append(&mut self.retired_sets);
        let mut touched = Vec::new();
        for number in self.objects.take_dirty() {
            self.write_owner(number, nodes, staged, &mut touched);
        }
        self.backends.write(nodes, staged);
        touched.sort_unstable();
        touched.dedup();
        for key in touched {
            self.write_frontend(key, staged);
        }
        for slot in retired {
            // A slot that an earlier agent left behind may have come into use.
            if !self.owns(&slot) {
                staged.delete_slot(slot);
            }
        }
        for key in retired_ranges {
            // The number of a set is not used again while any of its ranges is there, unless an agent found it.
            if !self.owner_of.contains_key(&key.1.service) {
                staged.delete_source_range(key);
            }
        }
        self.announcements.write(nodes, staged);
        if std::mem::take(&mut self.prune) {
            self.found.clear();
            self.prune(staged);
        }
    }

    fn write_frontend(&self, key: FrontendKey, staged: &mut Staged) {
        let owner = self.claims.owner(&key, &self.objects);
        let wanted = owner.and_then(|owner| {
            let wanted = owner.wanted(&key)?;
            Some((owner, wanted, owner.set(wanted)?))
        });
        match wanted {
            Some((owner, wanted, set)) => staged.put_frontend(
                key,
                Frontend {
                    service: set.id,
                    generation: set.generation,
                    count: count(set.slots()),
                    flags: wanted.flags,
                    affinity_timeout: owner.affinity_timeout,
                },
            ),
            None => staged.delete_frontend(key),
        }
    }

    /// Removes what the maps hold and nothing here owns.
    fn prune(&mut self, staged: &mut Staged) {
        let contents = staged.contents();
        let frontends: Vec<_> = contents.frontends.keys().filter(|key| !self.claims.contains(key)).copied().collect();
        let sizes: Table<u32, (u32, u32)> = self
            .objects
            .owners()
            .flat_map(Owner::sets)
            .map(|set| (set.id, (set.generation, count(set.slots()))))
            .collect();
        let owned = |slot: &SlotKey| {
            sizes
                .get(&slot.service)
                .is_some_and(|&(generation, count)| slot.generation == generation && slot.index < count)
        };
        let slots: Vec<_> = contents.slots.keys().filter(|slot| !owned(slot)).copied().collect();
        let ranged: Set<(u32, SourceRangeKey)> = self
            .objects
            .owners()
            .flat_map(Owner::sets)
            .flat_map(|set| set.ranges.iter().map(|range| range_key(set.id, range)))
            .collect();
        let ranges: Vec<_> = contents.source_ranges.keys().filter(|key| !ranged.contains(key)).copied().collect();
        for key in frontends {
            staged.delete_frontend(key);
        }
        // A packet may be on its way from a frontend that has just gone or flipped to such a slot: next time.
        self.retired.extend(slots);
        // Of a set that is there, a range that is not its own lets somebody in who must not.
        for key in ranges {
            if self.owner_of.contains_key(&key.1.service) {
                staged.delete_source_range(key);
            } else {
                self.retired_ranges.push(key);
            }
        }
        self.backends.prune(staged);
    }

    fn owns(&self, slot: &SlotKey) -> bool {
        let owner = self.owner_of.get(&slot.service).and_then(|&number| self.objects.owner(number));
        let set = owner.and_then(|owner| owner.sets().find(|set| set.id == slot.service));
        set.is_some_and(|set| set.generation == slot.generation && slot.index < count(set.slots()))
    }

    /// Load balancer addresses that this node answers for.
    pub(crate) fn announced(&self) -> &BTreeSet<IpAddr> {
        self.announcements.own()
    }

    /// What to answer at which health check port.
    pub(crate) fn health_checks(&self, nodes: &Nodes) -> Vec<HealthCheck> {
        self.objects.health_checks(nodes)
    }

    /// Backends that nobody lists any more, since the last call.
    pub(crate) fn take_gone_backends(&mut self) -> Vec<GoneBackend> {
        self.backends.take_gone()
    }

    /// Numbers of sets that no packet can come to any more, since the last call.
    pub(crate) fn take_gone_sets(&mut self) -> Vec<u32> {
        let mut gone = std::mem::take(&mut self.gone_sets);
        gone.retain(|id| !self.owner_of.contains_key(id));
        gone
    }

    /// Whether there is an endpoint set of this number.
    pub(crate) fn has_set(&self, id: u32) -> bool {
        self.owner_of.contains_key(&id)
    }

    /// Addresses of the cluster's DNS, when the agent itself is to answer there.
    pub(crate) fn cluster_dns_addresses(&self) -> &[IpAddr] {
        let owner = self.objects.find(&OwnerName::Service(ObjectName::new(CLUSTER_DNS.0, CLUSTER_DNS.1)));
        match owner.filter(|owner| owner.is_served_by_agent()).and_then(|owner| owner.service.as_deref()) {
            Some(service) => &service.cluster_ips,
            None => &[],
        }
    }

    /// What is needed to name sets and backends.
    pub(crate) fn name_source(&self, contents: &MapContents) -> NameSource {
        NameSource::new(self.objects.owners(), &contents.backends)
    }
}

/// Namespace and name of the Service of the cluster's DNS.
const CLUSTER_DNS: (&str, &str) = ("kube-system", "kube-dns");

fn is_cluster_dns(name: &ObjectName) -> bool {
    (name.namespace.as_str(), name.name.as_str()) == CLUSTER_DNS
}

fn range_key(service: u32, range: &Cidr) -> (u32, SourceRangeKey) {
    let addr: Addr = abi_addr(range.addr());
    (SourceRangeKey::BASE_BITS + range.mapped_len(), SourceRangeKey { service, addr })
}

fn count<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).unwrap_or(u32::MAX)
}

/// Spreads each bit over all (the finaliser of `SplitMix64`).
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests;
