//! The state machine: transactions in, records of what changed out. Pure and deterministic.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use imbl::OrdMap;

use crate::error::Error;
use crate::lease::Leases;
use crate::model::{Compare, Event, KeyRange, KeyValue, LeaseId, Op, Revision, Txn};

/// Every key at one revision. A clone takes constant time and shares what does not change afterwards.
pub(crate) type Map = OrdMap<Bytes, Arc<KeyValue>>;

/// One key's change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// Before; `None` if it was not there.
    pub(crate) prev: Option<Arc<KeyValue>>,
    /// After; `None` if it was deleted. Never `None` together with `prev`.
    pub(crate) next: Option<Arc<KeyValue>>,
}

impl Change {
    /// The key.
    pub(crate) fn key(&self) -> &[u8] {
        self.next.as_ref().or(self.prev.as_ref()).map_or(&[], |kv| &kv.key[..])
    }

    fn event(&self, revision: Revision) -> Option<Event> {
        match (&self.next, &self.prev) {
            (Some(next), prev) => Some(Event::Put { kv: KeyValue::clone(next), prev: prev.as_deref().cloned() }),
            (None, Some(prev)) => Some(Event::Delete { prev: KeyValue::clone(prev), revision }),
            (None, None) => None,
        }
    }
}

/// What one revision changed, in the order of its transaction.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) revision: Revision,
    pub(crate) changes: Box<[Change]>,
}

impl Record {
    /// Whether a key in `range` changed.
    pub(crate) fn touches(&self, range: &KeyRange) -> bool {
        self.changes.iter().any(|change| range.contains(change.key()))
    }

    /// Events of the keys in `range`.
    pub(crate) fn events(&self, range: &KeyRange) -> Vec<Event> {
        let watched = self.changes.iter().filter(|change| range.contains(change.key()));
        watched.filter_map(|change| change.event(self.revision)).collect()
    }

    /// Bytes that this record keeps in memory once the keys have moved on.
    pub(crate) fn bytes(&self) -> usize {
        // Allocations of the record, the changes, and a key-value with its shared buffers.
        const FIXED: usize = 256;
        let values = self.changes.iter().map(|change| {
            let value = change.next.as_ref().map_or(0, |kv| kv.value.len());
            FIXED + change.key().len() + value
        });
        values.sum()
    }
}

/// What a transaction did.
#[derive(Debug)]
pub(crate) enum Applied {
    /// It made a revision.
    Written(Arc<Record>),
    /// Its conditions held and there was nothing to write.
    Unchanged,
    /// A condition did not hold.
    Conflict { index: usize, current: Option<Arc<KeyValue>> },
}

/// Keys and leases at the current revision.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) revision: Revision,
    pub(crate) map: Map,
    pub(crate) leases: Leases,
}

impl Default for State {
    fn default() -> Self {
        Self { revision: 1, map: Map::new(), leases: Leases::default() }
    }
}

impl State {
    /// Applies a transaction wholly or not at all.
    pub(crate) fn apply(&mut self, txn: Txn) -> Result<Applied, Error> {
        self.check(&txn)?;
        for (index, compare) in txn.compares.iter().enumerate() {
            let (current, holds) = match compare {
                Compare::Absent(key) => {
                    let current = self.map.get(key);
                    (current, current.is_none())
                }
                Compare::ModRevision(key, revision) => {
                    let current = self.map.get(key);
                    (current, current.is_some_and(|kv| kv.mod_revision == *revision))
                }
            };
            if !holds {
                return Ok(Applied::Conflict { index, current: current.cloned() });
            }
        }
        Ok(self.write(txn.ops))
    }

    /// Ends a lease: its keys are deleted at one revision.
    pub(crate) fn revoke(&mut self, lease: LeaseId) -> Result<Applied, Error> {
        let keys = self.leases.remove(lease).ok_or(Error::LeaseNotFound(lease))?;
        Ok(self.write(keys.into_iter().map(|key| Op::Delete { key }).collect()))
    }

    fn check(&self, txn: &Txn) -> Result<(), Error> {
        let mut written = BTreeSet::new();
        for op in &txn.ops {
            if op.key().is_empty() {
                return Err(Error::Invalid("a key must not be empty".to_owned()));
            }
            if txn.ops.len() > 1 && !written.insert(op.key()) {
                let key = String::from_utf8_lossy(op.key());
                return Err(Error::Invalid(format!("key {key:?} is written twice in one transaction")));
            }
            if let Op::Put { lease, .. } = op
                && *lease != 0
                && !self.leases.contains(*lease)
            {
                return Err(Error::LeaseNotFound(*lease));
            }
        }
        Ok(())
    }

    fn write(&mut self, ops: Vec<Op>) -> Applied {
        let revision = self.revision + 1;
        let changes: Box<[Change]> = ops.into_iter().filter_map(|op| self.change(op, revision)).collect();
        if changes.is_empty() {
            return Applied::Unchanged;
        }
        self.revision = revision;
        Applied::Written(Arc::new(Record { revision, changes }))
    }

    fn change(&mut self, op: Op, revision: Revision) -> Option<Change> {
        match op {
            Op::Put { key, value, lease } => {
                let prev = self.map.get(&key).cloned();
                let kv = match &prev {
                    // The key's bytes are shared with what was there, so that a history of one key holds them once.
                    Some(prev) => KeyValue {
                        key: prev.key.clone(),
                        value,
                        create_revision: prev.create_revision,
                        mod_revision: revision,
                        version: prev.version + 1,
                        lease,
                    },
                    None => {
                        KeyValue { key, value, create_revision: revision, mod_revision: revision, version: 1, lease }
                    }
                };
                let next = Arc::new(kv);
                self.set(prev.as_ref(), Some(&next));
                Some(Change { prev, next: Some(next) })
            }
            Op::Delete { key } => {
                let prev = self.map.get(&key).cloned()?;
                self.set(Some(&prev), None);
                Some(Change { prev: Some(prev), next: None })
            }
        }
    }

    /// Puts `next` in the place of `prev`, in the map and among the leases.
    pub(crate) fn set(&mut self, prev: Option<&Arc<KeyValue>>, next: Option<&Arc<KeyValue>>) {
        let (before, after) = (prev.map_or(0, |kv| kv.lease), next.map_or(0, |kv| kv.lease));
        if before != after {
            if let Some(prev) = prev {
                self.leases.detach(before, &prev.key);
            }
            if let Some(next) = next {
                self.leases.attach(after, next.key.clone());
            }
        }
        match (next, prev) {
            (Some(next), _) => {
                self.map.insert(next.key.clone(), Arc::clone(next));
            }
            (None, Some(prev)) => {
                self.map.remove(&prev.key);
            }
            (None, None) => {}
        }
    }
}
