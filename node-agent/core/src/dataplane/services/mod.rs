//! Services to frontends, slots and backends.
//!
//! An endpoint set is what one port of a Service stands for in one address family. A set that changes:
//!
//! ```text
//!  drain n    backends, slots of generation g+1  ─►  frontends flip to g+1
//!  drain n+1  slots of generation g and backends without use are removed
//! ```
//!
//! A packet that read a frontend before the flip finds its slots and backends until drain n+1.

mod backends;
mod endpoints;

use std::collections::{BTreeMap, BTreeSet};

use skep_abi::{Frontend, FrontendKey, SlotKey, frontend_flags};

use super::staged::Staged;
use super::{EndpointSlice, MapContents, MapWrite, ObjectName, Service, ServiceName, ServicePort, Write, abi_addr};
use backends::{Backends, Use, next_id};
use endpoints::{Endpoints, Family};

pub(crate) use endpoints::backend_names;

/// Which endpoint set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SetKey {
    service: ObjectName,
    port: String,
    family: Family,
}

/// What the maps hold of an endpoint set.
#[derive(Debug, Default)]
struct EndpointSet {
    id: u32,
    generation: u32,
    /// Backends by slot.
    slots: Vec<u32>,
    draining: Vec<u32>,
    frontends: BTreeSet<FrontendKey>,
    affinity_timeout: u32,
}

impl EndpointSet {
    fn slot_keys(&self) -> impl Iterator<Item = SlotKey> + use<> {
        let (service, generation) = (self.id, self.generation);
        (0..count(&self.slots)).map(move |index| SlotKey { service, generation, index })
    }
}

/// The fold of Services and EndpointSlices.
#[derive(Debug, Default)]
pub(crate) struct Services {
    services: BTreeMap<ObjectName, Service>,
    slices: BTreeMap<ObjectName, EndpointSlice>,
    /// Names of the slices of each Service.
    slices_of: BTreeMap<ObjectName, BTreeSet<String>>,
    dirty: BTreeSet<ObjectName>,
    sets: BTreeMap<SetKey, EndpointSet>,
    set_of: BTreeMap<u32, SetKey>,
    /// Who wants each frontend: more than one while an address moves between Services. The first has it.
    claims: BTreeMap<FrontendKey, BTreeSet<SetKey>>,
    backends: Backends,
    last_id: u32,
    /// What the last write replaced.
    retired: Vec<SlotKey>,
    /// Frontends found in the maps, until the first write.
    found: BTreeMap<FrontendKey, Frontend>,
    prune: bool,
    /// Sets of which the last write's slots or backends could not be written.
    failed: BTreeSet<u32>,
}

impl Services {
    pub(crate) fn put_service(&mut self, service: Service) {
        self.dirty.insert(service.name.clone());
        self.services.insert(service.name.clone(), service);
    }

    pub(crate) fn delete_service(&mut self, name: &ObjectName) {
        if self.services.remove(name).is_some() {
            self.dirty.insert(name.clone());
        }
    }

    pub(crate) fn put_slice(&mut self, slice: EndpointSlice) {
        if self.slices.get(&slice.name) == Some(&slice) {
            return;
        }
        self.delete_slice(&slice.name.clone());
        let service = ObjectName::new(&slice.name.namespace, &slice.service);
        self.slices_of.entry(service.clone()).or_default().insert(slice.name.name.clone());
        self.dirty.insert(service);
        self.slices.insert(slice.name.clone(), slice);
    }

    pub(crate) fn delete_slice(&mut self, name: &ObjectName) {
        let Some(old) = self.slices.remove(name) else { return };
        let service = ObjectName::new(&name.namespace, &old.service);
        if let Some(slices) = self.slices_of.get_mut(&service) {
            slices.remove(&name.name);
            if slices.is_empty() {
                self.slices_of.remove(&service);
            }
        }
        self.dirty.insert(service);
    }

    pub(crate) fn service_names(&self) -> impl Iterator<Item = &ObjectName> {
        self.services.keys()
    }

    pub(crate) fn slice_names(&self) -> impl Iterator<Item = &ObjectName> {
        self.slices.keys()
    }

    /// Takes over the numbers in the maps, and lets the next write compare everything with them.
    pub(crate) fn adopt(&mut self, contents: &MapContents) {
        if self.sets.is_empty() {
            self.found = contents.frontends.clone();
            self.backends.adopt(&contents.backends);
            let ids = contents.frontends.values().map(|frontend| frontend.service);
            self.last_id = ids.chain(contents.slots.keys().map(|slot| slot.service)).max().unwrap_or(0);
        }
        self.backends.touch_all();
        self.retired.clear();
        self.dirty.extend(self.services.keys().cloned());
        self.prune = true;
    }

    pub(crate) fn has_retired(&self) -> bool {
        !self.retired.is_empty() || self.backends.has_retired()
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
            MapWrite::Backend(Write::Put(id, _)) => {
                let users = self.sets.values().filter(|set| set.slots.contains(&id));
                self.failed.extend(users.map(|set| set.id));
            }
            _ => return,
        }
        // Found again when the maps are adopted again.
        self.retired.retain(|slot| !self.failed.contains(&slot.service));
        self.backends.keep_retired();
    }

    /// Whether a frontend would flip to a set that is not whole.
    pub(crate) fn is_void(&self, write: &MapWrite) -> bool {
        matches!(write, MapWrite::Frontend(Write::Put(_, value)) if self.failed.contains(&value.service))
    }

    /// Stages what changed since the last call, and the removal of what that one replaced.
    pub(crate) fn write(&mut self, staged: &mut Staged) {
        self.failed.clear();
        let retired = std::mem::take(&mut self.retired);
        let mut touched = BTreeSet::new();
        for name in std::mem::take(&mut self.dirty) {
            self.write_service(&name, staged, &mut touched);
        }
        self.backends.write(staged);
        for key in touched {
            self.write_frontend(key, staged);
        }
        for slot in retired {
            // A slot that an earlier agent left behind may have come into use.
            if !self.owns(&slot) {
                staged.delete_slot(slot);
            }
        }
        if std::mem::take(&mut self.prune) {
            self.found.clear();
            self.prune(staged);
        }
    }

    /// Brings the endpoint sets of a Service up to date. The keys whose frontends may have changed go to `touched`.
    fn write_service(&mut self, name: &ObjectName, staged: &mut Staged, touched: &mut BTreeSet<FrontendKey>) {
        let mut wanted: BTreeMap<SetKey, (ServicePort, BTreeSet<FrontendKey>)> = BTreeMap::new();
        let mut affinity_timeout = 0;
        if let Some(service) = self.services.get(name) {
            affinity_timeout = service.affinity_timeout_seconds;
            for port in &service.ports {
                for &ip in &service.cluster_ips {
                    let key = SetKey { service: name.clone(), port: port.name.clone(), family: Family::of(ip) };
                    let frontend = FrontendKey {
                        addr: abi_addr(ip),
                        port_be: port.port.to_be(),
                        proto: port.protocol.number(),
                        scope: 0,
                    };
                    wanted.entry(key).or_insert_with(|| (port.clone(), BTreeSet::new())).1.insert(frontend);
                }
            }
        }
        for key in self.sets_of(name) {
            if !wanted.contains_key(&key) {
                self.remove_set(&key, touched);
            }
        }
        for (key, (port, frontends)) in wanted {
            let endpoints = Endpoints::select(self.slices_of(name), &port, key.family);
            self.write_set(key, frontends, affinity_timeout, &endpoints, staged, touched);
        }
    }

    fn sets_of(&self, service: &ObjectName) -> Vec<SetKey> {
        let first = SetKey { service: service.clone(), port: String::new(), family: Family::V4 };
        self.sets.range(first..).map(|(key, _)| key).take_while(|key| key.service == *service).cloned().collect()
    }

    fn slices_of<'a>(&'a self, service: &'a ObjectName) -> impl Iterator<Item = &'a EndpointSlice> {
        self.slices_of
            .get(service)
            .into_iter()
            .flatten()
            .filter_map(|slice| self.slices.get(&ObjectName::new(&service.namespace, slice)))
    }

    fn write_set(
        &mut self,
        key: SetKey,
        frontends: BTreeSet<FrontendKey>,
        affinity_timeout: u32,
        endpoints: &Endpoints,
        staged: &mut Staged,
        touched: &mut BTreeSet<FrontendKey>,
    ) {
        let mut set = self.sets.remove(&key).unwrap_or_else(|| self.new_set(&frontends, staged.contents()));
        // New uses are counted before old ones are dropped, so that what stays is never without use.
        let acquire = |backends: &mut Backends, keys: &BTreeSet<_>, usage| -> Vec<u32> {
            keys.iter().map(|&key| backends.acquire(key, usage)).collect()
        };
        let slots = acquire(&mut self.backends, &endpoints.active, Use::Slot);
        let draining = acquire(&mut self.backends, &endpoints.draining, Use::Draining);
        self.release(&set);
        set.draining = draining;
        if !same_backends(&set.slots, &slots) {
            self.retired.extend(set.slot_keys());
            set.generation = set.generation.wrapping_add(1);
            set.slots = slots;
        }
        for (slot, &backend) in set.slot_keys().zip(&set.slots) {
            staged.put_slot(slot, backend);
        }
        for gone in set.frontends.difference(&frontends) {
            unclaim(&mut self.claims, gone, &key);
            touched.insert(*gone);
        }
        for &frontend in &frontends {
            self.claims.entry(frontend).or_default().insert(key.clone());
        }
        touched.extend(&frontends);
        set.frontends = frontends;
        set.affinity_timeout = affinity_timeout;
        self.set_of.insert(set.id, key.clone());
        self.sets.insert(key, set);
    }

    /// A set that has no number yet: the one that its frontend has in the maps, or the next.
    fn new_set(&mut self, frontends: &BTreeSet<FrontendKey>, contents: &MapContents) -> EndpointSet {
        let free = |id: u32| !self.set_of.contains_key(&id);
        let found = frontends.iter().filter_map(|key| self.found.get(key)).find(|found| free(found.service));
        let Some(found) = found.copied() else {
            self.last_id = next_id(self.last_id, |id| self.set_of.contains_key(&id));
            return EndpointSet { id: self.last_id, ..EndpointSet::default() };
        };
        let slot = |index| contents.slots.get(&SlotKey { service: found.service, generation: found.generation, index });
        let slots = (0..found.count).map_while(|index| slot(index).copied()).collect();
        let mut set = EndpointSet { id: found.service, generation: found.generation, slots, ..EndpointSet::default() };
        // Counted as used, because the set is released like any other when it changes.
        let keys: Option<Vec<_>> = set.slots.iter().map(|&id| self.backends.key(id)).collect();
        match keys {
            Some(keys) if count(&set.slots) == found.count => {
                for key in keys {
                    self.backends.acquire(key, Use::Slot);
                }
            }
            // A damaged generation: the next one replaces it, and pruning removes what is left of it.
            _ => {
                set.slots.clear();
                set.generation = set.generation.wrapping_add(1);
            }
        }
        set
    }

    fn release(&mut self, set: &EndpointSet) {
        for (ids, usage) in [(&set.slots, Use::Slot), (&set.draining, Use::Draining)] {
            for &id in ids {
                if let Some(key) = self.backends.key(id) {
                    self.backends.release(key, usage);
                }
            }
        }
    }

    fn remove_set(&mut self, key: &SetKey, touched: &mut BTreeSet<FrontendKey>) {
        let Some(set) = self.sets.remove(key) else { return };
        self.release(&set);
        self.set_of.remove(&set.id);
        self.retired.extend(set.slot_keys());
        for frontend in &set.frontends {
            unclaim(&mut self.claims, frontend, key);
            touched.insert(*frontend);
        }
    }

    fn write_frontend(&self, key: FrontendKey, staged: &mut Staged) {
        let owner = self.claims.get(&key).and_then(BTreeSet::first).and_then(|set| self.sets.get(set));
        match owner {
            Some(set) => staged.put_frontend(
                key,
                Frontend {
                    service: set.id,
                    generation: set.generation,
                    count: count(&set.slots),
                    flags: if set.affinity_timeout > 0 { frontend_flags::AFFINITY } else { 0 },
                    affinity_timeout: set.affinity_timeout,
                },
            ),
            None => staged.delete_frontend(key),
        }
    }

    /// Removes what the maps hold and nothing here owns.
    fn prune(&mut self, staged: &mut Staged) {
        let contents = staged.contents();
        let frontends: Vec<_> =
            contents.frontends.keys().filter(|key| !self.claims.contains_key(key)).copied().collect();
        let slots: Vec<_> = contents.slots.keys().filter(|slot| !self.owns(slot)).copied().collect();
        for key in frontends {
            staged.delete_frontend(key);
        }
        // A packet may be on its way from a frontend that has just gone or flipped to such a slot: next time.
        self.retired.extend(slots);
        self.backends.prune(staged);
    }

    fn owns(&self, slot: &SlotKey) -> bool {
        let set = self.set_of.get(&slot.service).and_then(|key| self.sets.get(key));
        set.is_some_and(|set| set.generation == slot.generation && slot.index < count(&set.slots))
    }

    /// Service ids and what they stand for.
    pub(crate) fn names(&self) -> BTreeMap<u32, ServiceName> {
        let name = |key: &SetKey| ServiceName {
            namespace: key.service.namespace.clone(),
            name: key.service.name.clone(),
            port: key.port.clone(),
        };
        self.set_of.iter().map(|(&id, key)| (id, name(key))).collect()
    }

    pub(crate) fn slices(&self) -> impl Iterator<Item = &EndpointSlice> {
        self.slices.values()
    }
}

fn unclaim(claims: &mut BTreeMap<FrontendKey, BTreeSet<SetKey>>, frontend: &FrontendKey, set: &SetKey) {
    if let Some(claimed) = claims.get_mut(frontend) {
        claimed.remove(set);
        if claimed.is_empty() {
            claims.remove(frontend);
        }
    }
}

/// Whether the slots hold the same backends, in whatever order.
fn same_backends(a: &[u32], b: &[u32]) -> bool {
    let sorted = |ids: &[u32]| {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        ids
    };
    a.len() == b.len() && (a == b || sorted(a) == sorted(b))
}

fn count(slots: &[u32]) -> u32 {
    u32::try_from(slots.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
