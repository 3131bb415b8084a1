//! A keyed work queue: a key waits in it once, is worked on by one worker at a time, and comes back with back-off after a failure.
//!
//! ```text
//!            add                 pop                finish(ok)
//!  (absent) -----> ready/delayed -----> working --------------> (absent)
//!                      ^                  |  | add: marked dirty
//!                      +------------------+  +-- finish: ready again
//!                        finish(failed): delayed by the back-off
//! ```

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use jiff::{SignedDuration, Timestamp};

use crate::controllers::kind::Key;

/// First wait after a failure.
const FIRST_BACKOFF: SignedDuration = SignedDuration::from_millis(5);
/// Longest wait after repeated failures.
const LAST_BACKOFF: SignedDuration = SignedDuration::from_secs(30);

/// Work queue of one controller.
#[derive(Debug, Default)]
pub struct Queue {
    ready: VecDeque<Key>,
    waiting: HashSet<Key>,
    delayed: BTreeSet<(Timestamp, Key)>,
    due: HashMap<Key, Timestamp>,
    /// Keys being worked on; true when they changed meanwhile.
    working: BTreeMap<Key, bool>,
    failures: HashMap<Key, u32>,
}

impl Queue {
    /// Adds a key to be worked on now.
    pub fn add(&mut self, key: Key) {
        if let Some(dirty) = self.working.get_mut(&key) {
            *dirty = true;
            return;
        }
        if self.waiting.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    /// Adds a key to be worked on at a time; an earlier time that it has already stays.
    pub fn add_at(&mut self, key: Key, at: Timestamp) {
        match self.due.get(&key) {
            Some(known) if *known <= at => return,
            Some(known) => {
                self.delayed.remove(&(*known, key.clone()));
            }
            None => {}
        }
        self.due.insert(key.clone(), at);
        self.delayed.insert((at, key));
    }

    /// Moves the keys whose time has come, and takes the next one.
    pub fn pop(&mut self, now: Timestamp) -> Option<Key> {
        while let Some((at, _)) = self.delayed.first()
            && *at <= now
        {
            if let Some((_, key)) = self.delayed.pop_first() {
                self.due.remove(&key);
                self.add(key);
            }
        }
        let key = self.ready.pop_front()?;
        self.waiting.remove(&key);
        self.working.insert(key.clone(), false);
        Some(key)
    }

    /// Ends work on a key that went well.
    pub fn succeed(&mut self, key: &Key) {
        self.failures.remove(key);
        self.release(key);
    }

    /// Ends work on a key that failed: it comes back after a wait that doubles with every failure in a row.
    pub fn fail(&mut self, key: &Key, now: Timestamp) {
        let failures = self.failures.entry(key.clone()).or_default();
        let wait = FIRST_BACKOFF.saturating_mul(1 << (*failures).min(16)).min(LAST_BACKOFF);
        *failures = failures.saturating_add(1);
        self.working.remove(key);
        // What changed meanwhile waits as well: a key that keeps failing must not spin because its object keeps changing.
        self.add_at(key.clone(), now.saturating_add(wait).unwrap_or(now));
    }

    fn release(&mut self, key: &Key) {
        if self.working.remove(key) == Some(true) {
            self.add(key.clone());
        }
    }

    /// Ends work on a key without judging it; `true` when it changed meanwhile and was not put back.
    pub fn put_down(&mut self, key: &Key) -> bool {
        self.working.remove(key) == Some(true)
    }

    /// When the next delayed key is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Timestamp> {
        self.delayed.first().map(|(at, _)| *at)
    }

    /// Whether a key is ready to be taken now.
    #[must_use]
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }
}
