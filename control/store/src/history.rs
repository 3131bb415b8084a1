//! The revisions that can still be listed and watched from. Pure: the time is an argument.
//!
//! ```text
//!            oldest                                   current
//!              |  records (one a revision)               |
//!   compacted  |--r--r--r--r--C--r--r--r--r--C--r--r--r--|      C = checkpoint: a shared copy of the map
//! ```
//!
//! The map at a revision is the nearest later checkpoint (or the current map) with fewer than [`CHECKPOINT_EVERY`]
//! records undone: constant time, and the maps' shared nodes keep a checkpoint to the size of what changed around it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crate::error::Error;
use crate::model::{KeyRange, Revision};
use crate::options::Retention;
use crate::state::{Map, Record};

/// A checkpoint is taken at every revision that is a multiple of this.
pub(crate) const CHECKPOINT_EVERY: Revision = 64;

/// Records that one [`History::scan`] looks at, at most, so that the lock around it is held for a short time.
const SCAN: usize = 1024;

/// Revisions by which the history may outgrow its bounds before it is trimmed, so that trimming is done in bulk.
const SLACK: u64 = 256;

#[derive(Debug)]
struct Entry {
    record: Arc<Record>,
    at: Instant,
    bytes: usize,
}

/// Result of a scan for a watcher.
#[derive(Debug)]
pub(crate) enum Scan {
    /// The next record that touches the range.
    Found(Arc<Record>),
    /// Nothing up to this revision.
    NothingUpTo(Revision),
}

/// A map and the records to be undone in it to get to an earlier revision.
#[derive(Debug)]
pub(crate) struct Past {
    base: Map,
    undo: Vec<Arc<Record>>,
}

impl Past {
    /// The map itself. Done outside of any lock.
    pub(crate) fn map(self) -> Map {
        let mut map = self.base;
        for change in self.undo.iter().rev().flat_map(|record| record.changes.iter().rev()) {
            match &change.prev {
                Some(prev) => {
                    map.insert(prev.key.clone(), Arc::clone(prev));
                }
                None => {
                    map.remove(change.key());
                }
            }
        }
        map
    }
}

/// Records of every revision after the oldest one.
#[derive(Debug)]
pub(crate) struct History {
    oldest: Revision,
    entries: VecDeque<Entry>,
    checkpoints: VecDeque<(Revision, Map)>,
    bytes: usize,
}

impl History {
    /// A history that begins at `oldest`.
    pub(crate) fn new(oldest: Revision) -> Self {
        Self { oldest, entries: VecDeque::new(), checkpoints: VecDeque::new(), bytes: 0 }
    }

    /// Oldest revision that can be listed or watched from.
    pub(crate) fn oldest(&self) -> Revision {
        self.oldest
    }

    /// Newest revision.
    pub(crate) fn newest(&self) -> Revision {
        self.oldest + self.entries.len() as Revision
    }

    /// Appends the next revision's record.
    pub(crate) fn push(&mut self, record: Arc<Record>, now: Instant) {
        debug_assert_eq!(record.revision, self.newest() + 1);
        let bytes = record.bytes();
        self.bytes += bytes;
        self.entries.push_back(Entry { record, at: now, bytes });
    }

    /// Keeps a copy of the map at `revision`, which must be later than those before.
    pub(crate) fn checkpoint(&mut self, revision: Revision, map: Map) {
        self.checkpoints.push_back((revision, map));
    }

    /// Whether `revision` can be listed or watched from.
    pub(crate) fn check(&self, revision: Revision) -> Result<(), Error> {
        if revision < self.oldest {
            Err(Error::Compacted { requested: revision, oldest: self.oldest })
        } else if revision > self.newest() {
            Err(Error::Future { requested: revision, current: self.newest() })
        } else {
            Ok(())
        }
    }

    /// The map as it was at `revision`, given the current one.
    pub(crate) fn at(&self, revision: Revision, current: &Map) -> Result<Past, Error> {
        self.check(revision)?;
        let later = self.checkpoints.partition_point(|(at, _)| *at < revision);
        let (from, base) = match self.checkpoints.get(later) {
            Some((at, map)) => (*at, map),
            None => (self.newest(), current),
        };
        let undo = self.entries.range(self.index(revision)..self.index(from));
        Ok(Past { base: base.clone(), undo: undo.map(|entry| Arc::clone(&entry.record)).collect() })
    }

    /// Looks for the first record after `after` that touches `range`, for a bounded number of records.
    pub(crate) fn scan(&self, after: Revision, range: &KeyRange) -> Result<Scan, Error> {
        self.check(after)?;
        let start = self.index(after);
        let end = self.entries.len().min(start + SCAN);
        let mut records = self.entries.range(start..end).map(|entry| &entry.record);
        let found = records.find(|record| record.touches(range));
        Ok(found.map_or(Scan::NothingUpTo(self.oldest + end as Revision), |record| Scan::Found(Arc::clone(record))))
    }

    /// Revision to compact to now, if the policy asks for it.
    pub(crate) fn due(&self, retention: &Retention, now: Instant) -> Option<Revision> {
        let count = self.entries.len() as u64;
        let mut excess_bytes = self.bytes.saturating_sub(retention.bytes);
        if count <= retention.revisions + SLACK && excess_bytes == 0 {
            return None;
        }
        let old = |entry: &Entry| now.saturating_duration_since(entry.at) > retention.age;
        let mut kept = count;
        for entry in &self.entries {
            if excess_bytes == 0 && (kept <= retention.revisions || !old(entry)) {
                break;
            }
            excess_bytes = excess_bytes.saturating_sub(entry.bytes);
            kept -= 1;
        }
        (kept < count).then(|| self.oldest + (count - kept))
    }

    /// Records up to and including `revision`: what a compaction to it drops.
    pub(crate) fn up_to(&self, revision: Revision) -> Vec<Arc<Record>> {
        let end = self.index(revision.clamp(self.oldest, self.newest()));
        self.entries.range(..end).map(|entry| Arc::clone(&entry.record)).collect()
    }

    /// The last record up to `revision` that touches `range`.
    pub(crate) fn last_match(&self, range: &KeyRange, revision: Revision) -> Option<Revision> {
        let end = self.index(revision.clamp(self.oldest, self.newest()));
        let mut records = self.entries.range(..end).rev().map(|entry| &entry.record);
        records.find(|record| record.touches(range)).map(|record| record.revision)
    }

    /// Makes `revision` the oldest one.
    pub(crate) fn compact(&mut self, revision: Revision) {
        while self.oldest < revision
            && let Some(entry) = self.entries.pop_front()
        {
            self.bytes -= entry.bytes;
            self.oldest += 1;
        }
        while self.checkpoints.front().is_some_and(|(at, _)| *at < revision) {
            self.checkpoints.pop_front();
        }
    }

    /// Index of the first record after `revision`.
    fn index(&self, revision: Revision) -> usize {
        usize::try_from(revision - self.oldest).unwrap_or(usize::MAX)
    }
}
