//! An owner's plan meets what the maps hold.

use skep_abi::{Frontend, FrontendKey, SlotKey};

use super::backends::{Handle, Use, next_id};
use super::compile::{self, Plan, PlannedGroup, PlannedSet};
use super::endpoints::Readiness;
use super::owner::{EndpointSet, Group, SetKind, Wanted};
use super::{Services, range_key};
use crate::dataplane::MapContents;
use crate::dataplane::nodes::Nodes;
use crate::dataplane::staged::Staged;

impl Services {
    /// Brings the endpoint sets of an owner up to date. Keys whose frontends may have changed go to `touched`.
    pub(super) fn write_owner(
        &mut self,
        number: u32,
        nodes: &Nodes,
        staged: &mut Staged,
        touched: &mut Vec<FrontendKey>,
    ) {
        let Some(owner) = self.objects.owner(number) else { return };
        let Plan { groups, frontends, affinity_timeout } = compile::plan(owner, nodes);
        self.announcements.update(number, owner);
        let Some(owner) = self.objects.owner_mut(number) else { return };
        let mut old_groups = std::mem::take(&mut owner.groups);
        let old_frontends = std::mem::take(&mut owner.frontends);
        let mut new_groups = Vec::with_capacity(groups.len());
        for (at, planned) in groups.into_iter().enumerate() {
            let old = old_groups.iter().position(|old| old.port == planned.port && old.family == planned.family);
            let old = old.map(|old| old_groups.swap_remove(old));
            let wanted = frontends.iter().filter(|wanted| wanted.group == at);
            new_groups.push(self.write_group(number, old, planned, wanted, staged));
        }
        for old in old_groups {
            self.release(&old);
            old.sets.into_iter().for_each(|set| self.retire_set(&set));
        }
        for gone in old_frontends.iter().map(|wanted| wanted.key) {
            if frontends.binary_search_by_key(&gone, |wanted| wanted.key).is_err() {
                self.claims.remove(&gone, number);
                touched.push(gone);
            }
        }
        for wanted in &frontends {
            self.claims.add(wanted.key, number);
            touched.push(wanted.key);
        }
        if let Some(owner) = self.objects.owner_mut(number) {
            owner.groups = new_groups;
            owner.frontends = frontends;
            owner.affinity_timeout = affinity_timeout;
        }
        self.objects.remove_empty(number);
    }

    fn write_group<'a>(
        &mut self,
        owner: u32,
        old: Option<Group>,
        planned: PlannedGroup,
        frontends: impl Iterator<Item = &'a Wanted> + Clone,
        staged: &mut Staged,
    ) -> Group {
        // New uses are counted before old ones are dropped, so that what stays is never without use.
        let listed: Vec<Handle> =
            planned.candidates.iter().map(|candidate| self.backends.list(candidate.key, &candidate.node)).collect();
        let handle = |&at: &usize| listed.get(at).copied();
        let mut in_slots = vec![false; listed.len()];
        let mut old_sets = Vec::new();
        let mut uses_before = Vec::new();
        if let Some(mut old) = old {
            old_sets = std::mem::take(&mut old.sets);
            for set in &old_sets {
                uses_before.extend(set.backends.iter().map(|&handle| (handle, Use::Slot)));
            }
            uses_before.extend(old.listed.iter().map(|&handle| (handle, Use::Listed)));
            uses_before.extend(old.draining.iter().map(|&handle| (handle, Use::Draining)));
        }
        let mut sets = Vec::with_capacity(planned.sets.len());
        for set in planned.sets {
            for &at in &set.backends {
                if let Some(place) = in_slots.get_mut(at) {
                    *place = true;
                }
            }
            let backends: Vec<Handle> = set.backends.iter().filter_map(handle).collect();
            let table: Vec<Handle> = set.table.iter().filter_map(handle).collect();
            for &backend in &backends {
                self.backends.acquire(backend, Use::Slot);
            }
            let known = old_sets.iter().position(|old| old.kind == set.kind);
            let old = match known {
                Some(at) => old_sets.swap_remove(at),
                None => {
                    let keys = frontends.clone().filter(|wanted| wanted.kind == set.kind).map(|wanted| wanted.key);
                    let new = self.new_set(set.kind, keys, staged.contents());
                    uses_before.extend(new.backends.iter().map(|&handle| (handle, Use::Slot)));
                    new
                }
            };
            self.owner_of.insert(old.id, owner);
            sets.push(self.write_set(old, set, backends, table, staged));
        }
        old_sets.iter().for_each(|set| self.retire_set(set));
        let is_draining = |(at, handle): (usize, &Handle)| {
            let terminates = planned.candidates.get(at).is_some_and(|found| found.state == Readiness::LastResort);
            (terminates && !in_slots.get(at).copied().unwrap_or(false)).then_some(*handle)
        };
        let draining: Vec<Handle> = listed.iter().enumerate().filter_map(is_draining).collect();
        for &backend in &draining {
            self.backends.acquire(backend, Use::Draining);
        }
        for (handle, usage) in uses_before {
            self.backends.release(handle, usage);
        }
        Group { port: planned.port, family: planned.family, listed, draining, sets }
    }

    /// Writes the slots of a set as a new generation, if they changed.
    fn write_set(
        &mut self,
        mut set: EndpointSet,
        planned: PlannedSet,
        backends: Vec<Handle>,
        table: Vec<Handle>,
        staged: &mut Staged,
    ) -> EndpointSet {
        // In a Maglev table each slot means something; else the order of slots does not.
        let same = if table.is_empty() {
            set.table.is_empty() && same_backends(&set.backends, &backends)
        } else {
            set.slots() == table
        };
        if !same {
            self.retired.extend(set.slot_keys());
            set.generation = set.generation.wrapping_add(1);
            set.backends = backends;
            set.table = table;
        } else if !table.is_empty() {
            set.backends = backends;
            set.table = table;
        }
        for (slot, &backend) in set.slot_keys().zip(set.slots()) {
            staged.put_slot(slot, self.backends.id(backend));
        }
        for range in &planned.ranges {
            staged.put_source_range(range_key(set.id, range));
        }
        for range in set.ranges.iter().filter(|range| !planned.ranges.contains(range)) {
            staged.delete_source_range(range_key(set.id, range));
        }
        set.ranges = planned.ranges;
        set
    }

    /// A set that has no number yet: the one that its frontend has in the maps, or the next.
    ///
    /// The backends of a set that was found are not counted as used.
    fn new_set(
        &mut self,
        kind: SetKind,
        mut frontends: impl Iterator<Item = FrontendKey>,
        contents: &MapContents,
    ) -> EndpointSet {
        let empty = |id, generation| EndpointSet {
            kind,
            id,
            generation,
            backends: Vec::new(),
            table: Vec::new(),
            ranges: Vec::new(),
        };
        let found = frontends
            .find_map(|key| self.found.get(&key).filter(|found| !self.owner_of.contains_key(&found.service)).copied());
        let Some(found) = found else {
            self.last_id = next_id(self.last_id, |id| self.owner_of.contains_key(&id));
            return empty(self.last_id, 0);
        };
        let Some(slots) = self.found_slots(&found, contents) else {
            // A damaged generation: the next one replaces it, and pruning removes what is left of it.
            return empty(found.service, found.generation.wrapping_add(1));
        };
        let mut set = empty(found.service, found.generation);
        if found.flags & skep_abi::frontend_flags::MAGLEV != 0 {
            set.table = slots;
            set.backends = set.table.clone();
            set.backends.sort_unstable();
            set.backends.dedup();
        } else {
            set.backends = slots;
        }
        for &backend in &set.backends {
            self.backends.acquire(backend, Use::Slot);
        }
        set
    }

    /// The slots that the maps hold of a frontend, when all of them are there.
    fn found_slots(&self, found: &Frontend, contents: &MapContents) -> Option<Vec<Handle>> {
        let slot = |index| {
            let key = SlotKey { service: found.service, generation: found.generation, index };
            self.backends.find(*contents.slots.get(&key)?)
        };
        (0..found.count).map(slot).collect()
    }

    fn retire_set(&mut self, set: &EndpointSet) {
        self.owner_of.remove(&set.id);
        self.retired_sets.push(set.id);
        self.retired.extend(set.slot_keys());
        self.retired_ranges.extend(set.ranges.iter().map(|range| range_key(set.id, range)));
    }

    fn release(&mut self, group: &Group) {
        for set in &group.sets {
            set.backends.iter().for_each(|&handle| self.backends.release(handle, Use::Slot));
        }
        group.listed.iter().for_each(|&handle| self.backends.release(handle, Use::Listed));
        group.draining.iter().for_each(|&handle| self.backends.release(handle, Use::Draining));
    }
}

/// Whether two lists have the same backends, in whatever order.
fn same_backends(a: &[Handle], b: &[Handle]) -> bool {
    let sorted = |handles: &[Handle]| {
        let mut handles = handles.to_vec();
        handles.sort_unstable();
        handles
    };
    a.len() == b.len() && (a == b || sorted(a) == sorted(b))
}
