//! What readers and watchers see: the state up to the last durable revision.
//!
//! Only the writer changes it, after the disk has confirmed. A watcher has no queue of its own: it holds a position and
//! reads the shared history from there, so that a slow one costs nothing and falls out when the history is compacted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use tokio::sync::Notify;

use crate::error::Error;
use crate::history::{History, Past, Scan};
use crate::model::{KeyRange, Revision};
use crate::state::{Map, Record};

/// Watchers of one range; they are woken together.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) range: KeyRange,
    pub(crate) changed: Notify,
    /// No later revision touched the range. Written under the write lock only.
    last_match: AtomicU64,
    /// No compacted revision later than this one touched the range.
    last_compacted_match: AtomicU64,
}

impl Group {
    fn new(range: KeyRange, newest: Revision) -> Self {
        // What happened before is not known, and watchers that join may ask for it.
        let (last_match, last_compacted_match) = (AtomicU64::new(newest), AtomicU64::new(0));
        Self { range, changed: Notify::new(), last_match, last_compacted_match }
    }
}

#[derive(Debug)]
struct Inner {
    map: Map,
    history: History,
    groups: HashMap<KeyRange, Arc<Group>>,
}

/// The durable state, shared by all.
#[derive(Debug)]
pub(crate) struct Published {
    inner: RwLock<Inner>,
    /// A copy of the newest revision for readers who want nothing else.
    revision: AtomicU64,
    failure: OnceLock<String>,
    failed: Notify,
}

/// The next step of a watcher.
#[derive(Debug)]
pub(crate) enum Step {
    Events(Arc<Record>),
    /// Nothing happened in the range up to this revision; `true` if it is the newest one.
    Nothing(Revision, bool),
}

impl Published {
    pub(crate) fn new(map: Map, history: History) -> Self {
        Self {
            revision: AtomicU64::new(history.newest()),
            inner: RwLock::new(Inner { map, history, groups: HashMap::new() }),
            failure: OnceLock::new(),
            failed: Notify::new(),
        }
    }

    // A panic while the lock is held cannot leave the state half changed in a way that matters more than going on: the
    // writer is the only one who changes it, and if the writer dies the store is not available any more.
    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Newest durable revision.
    pub(crate) fn revision(&self) -> Revision {
        self.revision.load(Ordering::Acquire)
    }

    /// The map at the newest revision.
    pub(crate) fn current(&self) -> Result<(Revision, Map), Error> {
        self.available()?;
        let inner = self.read();
        Ok((inner.history.newest(), inner.map.clone()))
    }

    /// The map at a revision.
    pub(crate) fn at(&self, revision: Revision) -> Result<Past, Error> {
        self.available()?;
        let inner = self.read();
        inner.history.at(revision, &inner.map)
    }

    /// Reads the history; for the writer's decisions on compaction.
    pub(crate) fn history<R>(&self, read: impl FnOnce(&History) -> R) -> R {
        read(&self.read().history)
    }

    /// Makes durable records visible and wakes who waits for them.
    pub(crate) fn publish(
        &self,
        map: Map,
        records: Vec<Arc<Record>>,
        checkpoints: Vec<(Revision, Map)>,
        compact: Option<Revision>,
        now: Instant,
    ) {
        let mut touched = Vec::new();
        {
            let mut inner = self.write();
            let inner = &mut *inner;
            for group in inner.groups.values() {
                if let Some(record) = records.iter().rev().find(|record| record.touches(&group.range)) {
                    group.last_match.store(record.revision, Ordering::Release);
                    touched.push(Arc::clone(group));
                }
            }
            inner.map = map;
            for record in records {
                inner.history.push(record, now);
            }
            for (revision, map) in checkpoints {
                inner.history.checkpoint(revision, map);
            }
            if let Some(revision) = compact {
                for group in inner.groups.values() {
                    if let Some(last) = inner.history.last_match(&group.range, revision) {
                        group.last_compacted_match.store(last, Ordering::Release);
                    }
                }
                inner.history.compact(revision);
            }
            self.revision.store(inner.history.newest(), Ordering::Release);
        }
        for group in touched {
            group.changed.notify_waiters();
        }
    }

    /// Joins the watchers of a range.
    pub(crate) fn join(&self, range: KeyRange, after: Revision) -> Result<Arc<Group>, Error> {
        self.available()?;
        let mut inner = self.write();
        inner.history.check(after)?;
        let newest = inner.history.newest();
        let group = inner.groups.entry(range);
        let group = group.or_insert_with_key(|range| Arc::new(Group::new(range.clone(), newest)));
        Ok(Arc::clone(group))
    }

    /// Leaves the watchers of a range. Groups without watchers go, this one and any that two watchers left at once.
    pub(crate) fn leave(&self, group: &Arc<Group>) {
        // References to a group that nobody watches: the map's, and for this one the caller's.
        let unwatched = |known: &Arc<Group>| if Arc::ptr_eq(known, group) { 2 } else { 1 };
        self.write().groups.retain(|_, known| Arc::strong_count(known) > unwatched(known));
    }

    /// Looks for what a watcher at `after` has to hear next.
    pub(crate) fn step(&self, group: &Group, after: Revision) -> Result<Step, Error> {
        self.available()?;
        let inner = self.read();
        let newest = inner.history.newest();
        if group.last_match.load(Ordering::Acquire) <= after {
            return Ok(Step::Nothing(newest, true));
        }
        let oldest = inner.history.oldest();
        if after < oldest {
            // A watcher that has missed nothing of its own goes on behind the gap.
            let missed = group.last_compacted_match.load(Ordering::Acquire) > after;
            return if missed { Err(Error::Lagged(after)) } else { Ok(Step::Nothing(oldest, oldest == newest)) };
        }
        Ok(match inner.history.scan(after, &group.range)? {
            Scan::Found(record) => Step::Events(record),
            Scan::NothingUpTo(revision) => Step::Nothing(revision, revision == newest),
        })
    }

    /// Ends availability, once and for all.
    pub(crate) fn fail(&self, reason: &str) {
        // A second failure changes nothing: the first one is the cause.
        let _first = self.failure.set(reason.to_owned());
        self.failed.notify_waiters();
        for group in self.read().groups.values() {
            group.changed.notify_waiters();
        }
    }

    /// An error once the store has failed or closed.
    pub(crate) fn available(&self) -> Result<(), Error> {
        self.failure.get().map_or(Ok(()), |reason| Err(Error::Unavailable(reason.clone())))
    }

    /// Waits for the failure.
    pub(crate) async fn failure(&self) -> Error {
        loop {
            let failed = self.failed.notified();
            let mut failed = std::pin::pin!(failed);
            failed.as_mut().enable();
            if let Err(error) = self.available() {
                return error;
            }
            failed.await;
        }
    }
}
