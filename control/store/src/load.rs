//! Rebuilds state and history from rows, and refuses rows that do not fit together. Pure.

use std::sync::Arc;
use std::time::Instant;

use crate::error::Error;
use crate::history::{CHECKPOINT_EVERY, History};
use crate::model::{LeaseId, Revision};
use crate::row::Row;
use crate::state::{Change, Record, State};

/// What a disk held.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) state: State,
    pub(crate) history: History,
}

/// Takes rows in the order of their keys.
#[derive(Debug)]
pub(crate) struct Loader {
    state: State,
    history: History,
    /// Rows of the revision that is being read.
    rows: Vec<Row>,
    now: Instant,
}

impl Loader {
    /// A loader of a store whose history begins at `oldest`.
    pub(crate) fn new(oldest: Revision, leases: Vec<(LeaseId, u32)>, now: Instant) -> Self {
        let mut state = State { revision: oldest, ..State::default() };
        for (id, ttl) in leases {
            state.leases.grant(id, ttl);
        }
        Self { state, history: History::new(oldest), rows: Vec::new(), now }
    }

    /// Takes the next row.
    pub(crate) fn row(&mut self, row: Row) -> Result<(), Error> {
        if self.rows.first().is_some_and(|first| first.revision != row.revision) {
            self.end_revision()?;
        }
        self.rows.push(row);
        Ok(())
    }

    /// Ends with the revision that the disk says is its newest.
    pub(crate) fn finish(mut self, newest: Revision) -> Result<Loaded, Error> {
        self.end_revision()?;
        if self.state.revision != newest {
            let found = self.state.revision;
            return Err(Error::Corrupt(format!("revision {newest} is the newest one, but the rows end at {found}")));
        }
        let lost = self.state.map.values().find(|kv| kv.lease != 0 && !self.state.leases.contains(kv.lease));
        if let Some(kv) = lost {
            let key = String::from_utf8_lossy(&kv.key);
            return Err(Error::Corrupt(format!("lease {} of key {key:?} is missing", kv.lease)));
        }
        Ok(Loaded { state: self.state, history: self.history })
    }

    fn end_revision(&mut self) -> Result<(), Error> {
        let mut rows = std::mem::take(&mut self.rows);
        rows.sort_by_key(|row| row.ordinal);
        let Some(revision) = rows.first().map(|row| row.revision) else { return Ok(()) };
        if revision <= self.history.oldest() {
            rows.drain(..).try_for_each(|row| self.base(row))?;
        } else {
            let expected = self.state.revision + 1;
            if revision != expected {
                return Err(Error::Corrupt(format!("revision {expected} is missing, the next one is {revision}")));
            }
            let changes = rows.drain(..).map(|row| self.change(row)).collect::<Result<_, _>>()?;
            self.state.revision = revision;
            self.history.push(Arc::new(Record { revision, changes }), self.now);
            if revision.is_multiple_of(CHECKPOINT_EVERY) {
                self.history.checkpoint(revision, self.state.map.clone());
            }
        }
        self.rows = rows;
        Ok(())
    }

    /// A key as it was at the oldest revision.
    fn base(&mut self, row: Row) -> Result<(), Error> {
        let Some(kv) = row.kv else { return Err(misfit(&row, "a deletion outlived its compaction")) };
        if self.state.map.contains_key(&row.key) {
            return Err(Error::Corrupt(format!("key {:?} is there twice", String::from_utf8_lossy(&row.key))));
        }
        self.state.set(None, Some(&kv));
        Ok(())
    }

    fn change(&mut self, row: Row) -> Result<Change, Error> {
        let prev = self.state.map.get(&row.key).cloned();
        match (&row.kv, &prev) {
            (Some(kv), Some(prev)) if kv.create_revision == prev.create_revision && kv.version == prev.version + 1 => {}
            (Some(kv), None) if kv.create_revision == row.revision && kv.version == 1 => {}
            (None, Some(_)) => {}
            _ => return Err(misfit(&row, "it does not follow from what was there before")),
        }
        self.state.set(prev.as_ref(), row.kv.as_ref());
        Ok(Change { prev, next: row.kv })
    }
}

fn misfit(row: &Row, why: &str) -> Error {
    Error::Corrupt(format!("key {:?} at revision {}: {why}", String::from_utf8_lossy(&row.key), row.revision))
}
