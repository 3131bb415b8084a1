use std::collections::{BTreeMap, BTreeSet};

use skep_abi::{Addr, Backend, BackendState};

use super::super::staged::Staged;

/// What makes two endpoints the same backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BackendKey {
    pub(super) addr: Addr,
    pub(super) port: u16,
    pub(super) proto: u8,
}

/// How an endpoint set uses a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Use {
    /// It is in a slot.
    Slot,
    /// It is terminating: it keeps the connections that it has.
    Draining,
}

/// Backends, shared by every endpoint set that has the same address, port and protocol in it.
#[derive(Debug, Default)]
pub(super) struct Backends {
    by_key: BTreeMap<BackendKey, Entry>,
    by_id: BTreeMap<u32, BackendKey>,
    last_id: u32,
    /// Used differently since the last [`Backends::write`].
    touched: BTreeSet<BackendKey>,
    /// Lost their last slot in the last [`Backends::write`]; packets under way may still look them up.
    retired: BTreeSet<BackendKey>,
}

#[derive(Debug, Default)]
struct Entry {
    id: u32,
    slots: usize,
    draining: usize,
}

impl Backends {
    /// Takes over the numbers in the map; what stays unused is removed by [`Backends::prune`].
    pub(super) fn adopt(&mut self, map: &BTreeMap<u32, Backend>) {
        for (&id, backend) in map {
            let key = BackendKey { addr: backend.addr, port: u16::from_be(backend.port_be), proto: backend.proto };
            if !self.by_key.contains_key(&key) && !self.by_id.contains_key(&id) {
                self.by_key.insert(key, Entry { id, ..Entry::default() });
                self.by_id.insert(id, key);
            }
            self.last_id = self.last_id.max(id);
        }
        self.touched.extend(self.by_key.keys());
    }

    /// Counts one more use; returns the backend's number.
    pub(super) fn acquire(&mut self, key: BackendKey, usage: Use) -> u32 {
        self.touched.insert(key);
        let (by_id, last_id) = (&mut self.by_id, &mut self.last_id);
        let entry = self.by_key.entry(key).or_insert_with(|| {
            *last_id = next_id(*last_id, |id| by_id.contains_key(&id));
            by_id.insert(*last_id, key);
            Entry { id: *last_id, ..Entry::default() }
        });
        match usage {
            Use::Slot => entry.slots += 1,
            Use::Draining => entry.draining += 1,
        }
        entry.id
    }

    /// Counts one use less.
    pub(super) fn release(&mut self, key: BackendKey, usage: Use) {
        self.touched.insert(key);
        if let Some(entry) = self.by_key.get_mut(&key) {
            match usage {
                Use::Slot => entry.slots = entry.slots.saturating_sub(1),
                Use::Draining => entry.draining = entry.draining.saturating_sub(1),
            }
        }
    }

    pub(super) fn key(&self, id: u32) -> Option<BackendKey> {
        self.by_id.get(&id).copied()
    }

    pub(super) fn has_retired(&self) -> bool {
        !self.retired.is_empty()
    }

    /// Stages what changed. A backend that lost its last slot keeps its entry as it is until the write after this one.
    pub(super) fn write(&mut self, staged: &mut Staged) {
        let due = std::mem::take(&mut self.retired);
        for key in std::mem::take(&mut self.touched) {
            let Some(entry) = self.by_key.get(&key) else { continue };
            let fresh = !staged.contents().backends.contains_key(&entry.id);
            if entry.slots > 0 {
                staged.put_backend(entry.id, value(key, BackendState::Active));
            } else if fresh && entry.draining > 0 {
                staged.put_backend(entry.id, value(key, BackendState::Terminating));
            } else if !due.contains(&key) {
                self.retired.insert(key);
            }
        }
        for key in due {
            let Some(entry) = self.by_key.get(&key) else { continue };
            if entry.slots > 0 {
                continue;
            }
            if entry.draining > 0 {
                staged.put_backend(entry.id, value(key, BackendState::Terminating));
            } else {
                staged.delete_backend(entry.id);
                self.by_id.remove(&entry.id);
                self.by_key.remove(&key);
            }
        }
    }

    /// Keeps what the last write replaced: a frontend could not be flipped away from it.
    pub(super) fn keep_retired(&mut self) {
        self.retired.clear();
    }

    /// Stages the removal of entries that have no number here.
    pub(super) fn prune(&self, staged: &mut Staged) {
        let stale: Vec<u32> =
            staged.contents().backends.keys().filter(|id| !self.by_id.contains_key(id)).copied().collect();
        for id in stale {
            staged.delete_backend(id);
        }
    }

    /// Writes every entry again, should the map have lost it.
    pub(super) fn touch_all(&mut self) {
        self.touched.extend(self.by_key.keys());
    }
}

/// The first number after `last` that is not taken; never 0.
pub(super) fn next_id(last: u32, taken: impl Fn(u32) -> bool) -> u32 {
    let mut id = last.wrapping_add(1).max(1);
    while taken(id) {
        id = id.wrapping_add(1).max(1);
    }
    id
}

fn value(key: BackendKey, state: BackendState) -> Backend {
    Backend {
        addr: key.addr,
        node: Addr::NONE,
        port_be: key.port.to_be(),
        proto: key.proto,
        state: state as u8,
        flags: 0,
    }
}
