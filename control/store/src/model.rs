//! What the store holds and what it says: keys, transactions, events.

use bytes::Bytes;

/// A revision of the whole store. 1 is the empty store, as in etcd.
pub type Revision = u64;

/// A lease's number; 0 is none.
pub type LeaseId = i64;

/// A key, its value and its history in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: Bytes,
    /// The value as it was written.
    pub value: Bytes,
    /// Revision that created the key (after its last deletion).
    pub create_revision: Revision,
    /// Revision that wrote it last.
    pub mod_revision: Revision,
    /// Number of writes since creation, from 1.
    pub version: u64,
    /// Lease that the key lives with; 0 is none.
    pub lease: LeaseId,
}

/// Half-open range of keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// First key.
    pub start: Bytes,
    /// Key behind the last one; `None` reaches to the end.
    pub end: Option<Bytes>,
}

impl KeyRange {
    /// Every key that begins with `prefix`.
    pub fn prefix(prefix: impl Into<Bytes>) -> Self {
        let start: Bytes = prefix.into();
        // The end is the prefix with its last byte counted up; a byte of 0xff has no successor and is dropped first.
        let end = start.iter().rposition(|&byte| byte != 0xff).map(|last| {
            let mut end = start[..=last].to_vec();
            end[last] += 1;
            Bytes::from(end)
        });
        Self { start, end }
    }

    /// One key alone.
    pub fn key(key: impl Into<Bytes>) -> Self {
        let start: Bytes = key.into();
        let mut end = Vec::with_capacity(start.len() + 1);
        end.extend_from_slice(&start);
        end.push(0);
        Self { start, end: Some(Bytes::from(end)) }
    }

    /// Every key.
    pub fn all() -> Self {
        Self { start: Bytes::new(), end: None }
    }

    /// Whether `key` lies in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= &self.start[..] && self.end.as_ref().is_none_or(|end| key < &end[..])
    }
}

/// Condition on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The key does not exist.
    Absent(Bytes),
    /// The key exists and was last written at this revision.
    ModRevision(Bytes, Revision),
}

/// One write of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Sets a key.
    Put {
        /// The key.
        key: Bytes,
        /// The value.
        value: Bytes,
        /// Lease, 0 for none.
        lease: LeaseId,
    },
    /// Deletes a key, if it is there.
    Delete {
        /// The key.
        key: Bytes,
    },
}

impl Op {
    /// The key that is written.
    pub fn key(&self) -> &Bytes {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }
}

/// Writes that happen together, at one revision, if every condition holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    /// Conditions; all must hold.
    pub compares: Vec<Compare>,
    /// Writes. At most one a key.
    pub ops: Vec<Op>,
}

impl Txn {
    /// Bytes of keys and values, which is what a transaction's size is bounded by.
    pub fn size(&self) -> usize {
        let compares = self.compares.iter().map(|compare| match compare {
            Compare::Absent(key) | Compare::ModRevision(key, _) => key.len(),
        });
        let ops = self.ops.iter().map(|op| match op {
            Op::Put { key, value, .. } => key.len() + value.len(),
            Op::Delete { key } => key.len(),
        });
        compares.chain(ops).sum()
    }
}

/// Outcome of a [`Txn`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxnOutcome {
    /// Every condition held; the writes are durable at this revision (the current one if there was nothing to write:
    /// no operation, or only deletions of absent keys).
    Committed(Revision),
    /// A condition did not hold: its index, and what the key holds now.
    Conflict {
        /// Index into [`Txn::compares`].
        index: usize,
        /// Current value, if any.
        current: Option<KeyValue>,
    },
}

/// Result of a [`Store::range`](crate::Store::range).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeResult {
    /// Revision that the result is of.
    pub revision: Revision,
    /// Keys in order, at most as many as the limit.
    pub kvs: Vec<KeyValue>,
    /// Keys of the range that the limit left out.
    pub remaining: usize,
}

/// What happened to one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The key was written.
    Put {
        /// As it is now.
        kv: KeyValue,
        /// As it was before, `None` if this created it.
        prev: Option<KeyValue>,
    },
    /// The key was deleted.
    Delete {
        /// As it was before.
        prev: KeyValue,
        /// Revision of the deletion.
        revision: Revision,
    },
}

/// What a watcher receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchBatch {
    /// Every event of the watched range at one revision, in the order of the transaction.
    Events(Revision, Vec<Event>),
    /// Every event up to and including this revision has been delivered. Comes once when the watcher has caught up
    /// with the present for the first time, then whenever the store went on without events for this watcher.
    Progress(Revision),
}
