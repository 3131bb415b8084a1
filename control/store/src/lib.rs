//! A revisioned key-value store with etcd's semantics.
//!
//! One global revision grows by one with every transaction that writes. Each key knows the revision that created it,
//! the one that wrote it last, and how often it was written. Every revision that is not yet compacted can be listed
//! and watched from. An acknowledged write is on disk.

use std::collections::VecDeque;
use std::future::Future;

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// First key.
    pub start: Bytes,
    /// Key behind the last one; `None` reaches to the end.
    pub end: Option<Bytes>,
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

/// Writes that happen together, at one revision, if every condition holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    /// Conditions; all must hold.
    pub compares: Vec<Compare>,
    /// Writes. At most one a key.
    pub ops: Vec<Op>,
}

/// Outcome of a [`Txn`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxnOutcome {
    /// Every condition held; the writes are durable at this revision (the current one if there was nothing to write).
    Committed(Revision),
    /// A condition did not hold: its index, and what the key holds now.
    Conflict {
        /// Index into [`Txn::compares`].
        index: usize,
        /// Current value, if any.
        current: Option<KeyValue>,
    },
}

/// Result of a [`Store::range`].
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
    /// Every event up to and including this revision has been delivered.
    Progress(Revision),
}

/// Why the store could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The revision's history is gone.
    #[error("required revision {requested} has been compacted, the oldest one retained is {oldest}")]
    Compacted {
        /// Revision that was asked for.
        requested: Revision,
        /// Oldest revision still there.
        oldest: Revision,
    },
    /// The revision has not happened yet.
    #[error("required revision {requested} is a future revision, the current one is {current}")]
    Future {
        /// Revision that was asked for.
        requested: Revision,
        /// Current revision.
        current: Revision,
    },
    /// No such lease.
    #[error("requested lease {0} not found")]
    LeaseNotFound(LeaseId),
    /// The watcher did not keep up and must start again from its last revision.
    #[error("watcher fell behind at revision {0}")]
    Lagged(Revision),
    /// The store is shutting down, or its disk failed.
    #[error("store is not available: {0}")]
    Unavailable(String),
}

/// Events of a range in order, without gaps and without repeats.
pub trait Watch: Send {
    /// Waits for the next batch. After an error the watch is over.
    fn next(&mut self) -> impl Future<Output = Result<WatchBatch, Error>> + Send;
}

/// The store, whatever keeps it: one member's disk, a memory, or a consensus of members.
pub trait Store: Send + Sync + 'static {
    /// The watcher type.
    type Watch: Watch;

    /// Commits a transaction. When this returns, the writes are durable.
    fn txn(&self, txn: Txn) -> impl Future<Output = Result<TxnOutcome, Error>> + Send;

    /// Reads one key as it is now.
    fn get(&self, key: &[u8]) -> impl Future<Output = Result<(Revision, Option<KeyValue>), Error>> + Send;

    /// Lists a range at `revision` (now, if `None`), at most `limit` keys (all, if 0).
    fn range(
        &self,
        range: KeyRange,
        revision: Option<Revision>,
        limit: usize,
    ) -> impl Future<Output = Result<RangeResult, Error>> + Send;

    /// Watches a range for events with a revision greater than `after`.
    fn watch(&self, range: KeyRange, after: Revision) -> impl Future<Output = Result<Self::Watch, Error>> + Send;

    /// The current revision.
    fn revision(&self) -> Revision;

    /// Forgets the history before `revision`.
    fn compact(&self, revision: Revision) -> impl Future<Output = Result<(), Error>> + Send;

    /// Makes a lease of `ttl` seconds; its keys go when it runs out.
    fn grant(&self, ttl: u32) -> impl Future<Output = Result<LeaseId, Error>> + Send;

    /// Renews a lease.
    fn keep_alive(&self, lease: LeaseId) -> impl Future<Output = Result<u32, Error>> + Send;

    /// Ends a lease and deletes its keys.
    fn revoke(&self, lease: LeaseId) -> impl Future<Output = Result<(), Error>> + Send;
}

/// Placeholder until the implementation lands.
pub type Pending = VecDeque<Event>;
