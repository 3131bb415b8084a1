//! The seam: what every store does, whatever keeps it.

use std::future::Future;

use crate::error::Error;
use crate::model::{KeyRange, KeyValue, LeaseId, RangeResult, Revision, Txn, TxnOutcome, WatchBatch};

/// Events of a range in order, without gaps and without repeats.
pub trait Watch: Send {
    /// Waits for the next batch. Cancel safe: a batch is lost only with the watcher. After an error the watch is over.
    fn next(&mut self) -> impl Future<Output = Result<WatchBatch, Error>> + Send;
}

/// The store, whatever keeps it: one member's disk, a memory, or a consensus of members.
pub trait Store: Send + Sync + 'static {
    /// The watcher type.
    type Watch: Watch;

    /// Commits a transaction. When this returns, the writes are durable. A caller that stops waiting does not take the
    /// transaction back.
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

    /// Forgets the history before `revision`: afterwards it is the oldest one that can be listed or watched from.
    fn compact(&self, revision: Revision) -> impl Future<Output = Result<(), Error>> + Send;

    /// Makes a lease of `ttl` seconds; its keys go when it runs out.
    fn grant(&self, ttl: u32) -> impl Future<Output = Result<LeaseId, Error>> + Send;

    /// Renews a lease; returns its seconds.
    fn keep_alive(&self, lease: LeaseId) -> impl Future<Output = Result<u32, Error>> + Send;

    /// Ends a lease and deletes its keys.
    fn revoke(&self, lease: LeaseId) -> impl Future<Output = Result<(), Error>> + Send;
}
