//! Pods that wait for a node.
//!
//! ```text
//!            observe          pop             place
//!   (new) ----------> active -----> decided -----------> (bound: removed)
//!                       ^  ^           | no node / binding failed
//!      wait is over     |  |           v
//!    back-off ----------+  |     unschedulable -- woken, wait not over --> back-off
//!                          +------------+ woken, or a minute passed
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodSpec};

use crate::controllers::Key;

const FIRST_BACKOFF: SignedDuration = SignedDuration::from_secs(1);
const LAST_BACKOFF: SignedDuration = SignedDuration::from_secs(10);
/// A pod that no node would take is looked at again after this long though nothing relevant was seen.
const UNSCHEDULABLE_FOR: SignedDuration = SignedDuration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Active,
    Decided,
    /// Waits until the time, whatever happens.
    BackOff(Timestamp),
    /// Waits for a change; back-off ends at the first time, the wait at the second.
    Unschedulable(Timestamp, Timestamp),
}

#[derive(Debug)]
struct Entry {
    uid: String,
    spec: Option<Arc<Pod>>,
    priority: Reverse<i32>,
    arrival: u64,
    attempts: u32,
    state: State,
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct Queue {
    entries: HashMap<Key, Entry>,
    active: BTreeSet<(Reverse<i32>, u64, Key)>,
    /// Times of entries in back-off, and of unschedulable ones.
    timed: BTreeSet<(Timestamp, Key)>,
    unschedulable: BTreeSet<Key>,
    arrivals: u64,
}

impl Queue {
    /// Takes note of a pod that waits; a new or changed one becomes active.
    pub(super) fn observe(&mut self, key: &Key, pod: &Arc<Pod>, now: Timestamp) {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let spec = |pod: &Pod| -> Option<PodSpec> { pod.spec.clone() };
        if let Some(entry) = self.entries.get_mut(key).filter(|entry| entry.uid == uid) {
            let changed = entry.spec.as_ref().is_some_and(|known| spec(known) != spec(pod));
            entry.spec = Some(pod.clone());
            if changed {
                self.wake_one(key, now);
            }
            return;
        }
        self.remove(key);
        let priority = Reverse(pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default());
        self.arrivals += 1;
        let entry =
            Entry { uid, spec: Some(pod.clone()), priority, arrival: self.arrivals, attempts: 0, state: State::Active };
        self.active.insert((entry.priority, entry.arrival, key.clone()));
        self.entries.insert(key.clone(), entry);
    }

    /// Forgets a pod.
    pub(super) fn remove(&mut self, key: &Key) {
        self.unlist(key);
        self.entries.remove(key);
    }

    fn unlist(&mut self, key: &Key) {
        let Some(entry) = self.entries.get(key) else { return };
        match entry.state {
            State::Active => {
                self.active.remove(&(entry.priority, entry.arrival, key.clone()));
            }
            State::BackOff(until) => {
                self.timed.remove(&(until, key.clone()));
            }
            State::Unschedulable(_, until) => {
                self.timed.remove(&(until, key.clone()));
                self.unschedulable.remove(key);
            }
            State::Decided => {}
        }
    }

    fn enter(&mut self, key: &Key, state: State) {
        self.unlist(key);
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.state = state;
        match state {
            State::Active => {
                self.active.insert((entry.priority, entry.arrival, key.clone()));
            }
            State::BackOff(until) => {
                self.timed.insert((until, key.clone()));
            }
            State::Unschedulable(_, until) => {
                self.timed.insert((until, key.clone()));
                self.unschedulable.insert(key.clone());
            }
            State::Decided => {}
        }
    }

    /// The pod to decide on next: highest priority first, then first come.
    pub(super) fn pop(&mut self, now: Timestamp) -> Option<Key> {
        while let Some((at, key)) = self.timed.first().cloned()
            && at <= now
        {
            self.enter(&key, State::Active);
        }
        let (_, _, key) = self.active.first().cloned()?;
        self.enter(&key, State::Decided);
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.attempts = entry.attempts.saturating_add(1);
        }
        Some(key)
    }

    fn back_off_end(&self, key: &Key, now: Timestamp) -> Timestamp {
        let attempts = self.entries.get(key).map_or(0, |entry| entry.attempts);
        let wait = FIRST_BACKOFF.saturating_mul(1 << attempts.saturating_sub(1).min(8)).min(LAST_BACKOFF);
        now.saturating_add(wait).unwrap_or(now)
    }

    /// Puts a pod away that no node would take.
    pub(super) fn set_aside(&mut self, key: &Key, now: Timestamp) {
        let end = self.back_off_end(key, now);
        self.enter(key, State::Unschedulable(end, now.saturating_add(UNSCHEDULABLE_FOR).unwrap_or(now)));
    }

    /// Puts a pod back whose binding failed.
    pub(super) fn back_off(&mut self, key: &Key, now: Timestamp) {
        let end = self.back_off_end(key, now);
        self.enter(key, State::BackOff(end));
    }

    /// Whether a node was decided on for this very pod and its binding is on the way.
    pub(super) fn is_decided(&self, key: &Key, uid: &str) -> bool {
        self.entries.get(key).is_some_and(|entry| entry.uid == uid && entry.state == State::Decided)
    }

    /// Something changed that may make room: unschedulable pods are tried again, those in back-off when it ends.
    pub(super) fn wake(&mut self, now: Timestamp) {
        for key in self.unschedulable.clone() {
            self.wake_one(&key, now);
        }
    }

    fn wake_one(&mut self, key: &Key, now: Timestamp) {
        if let Some(State::Unschedulable(end, _)) = self.entries.get(key).map(|entry| entry.state) {
            self.enter(key, if end <= now { State::Active } else { State::BackOff(end) });
        }
    }

    /// When the next wait is over; `None` when nobody waits for a time.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.timed.first().map(|(at, _)| *at)
    }
}
