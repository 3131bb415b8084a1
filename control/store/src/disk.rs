//! Where a store's writes become durable.

use std::sync::Arc;

use crate::lease::LeaseChanges;
use crate::model::Revision;
use crate::state::Record;

/// Everything that must become durable together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Records of consecutive revisions.
    pub(crate) records: Vec<Arc<Record>>,
    /// Leases made and ended.
    pub(crate) leases: LeaseChanges,
    /// A compaction: the new oldest revision, and the records up to it, whose superseded values go.
    pub(crate) compact: Option<(Revision, Vec<Arc<Record>>)>,
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.leases.is_empty() && self.compact.is_none()
    }
}

/// Keeps batches. When `commit` returns `Ok` the batch survives a crash; after an error nothing is known about it, and
/// `commit` is not called again.
pub(crate) trait Disk: Send {
    /// Commits a batch. The error says what failed.
    fn commit(&mut self, batch: &Batch) -> Result<(), String>;
}

/// Keeps nothing: the store lives as long as its process.
#[derive(Debug)]
pub(crate) struct Nowhere;

impl Disk for Nowhere {
    fn commit(&mut self, _: &Batch) -> Result<(), String> {
        Ok(())
    }
}
