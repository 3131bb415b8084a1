//! Runs the controllers and the scheduler over one index, without doing anything itself: changes in, work out, reports back in.
//!
//! ```text
//!   watch streams -- apply --> Index -- Touched --> queues (one per controller) --> reconcile --> Work --> the shell
//!                                ^                     ^                                                     |
//!                                +--- own writes seen -+------------------- finish(Report) <-----------------+
//! ```
//!
//! A key that wrote something is not reconciled again before the index shows those writes. That is what keeps a late watch from
//! making the same pod twice.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};

use jiff::{SignedDuration, Timestamp};

use crate::controllers::action::{Action, Outcome};
use crate::controllers::index::{Change, Index, Touched};
use crate::controllers::kind::Key;
use crate::controllers::queue::Queue;
use crate::scheduler::Scheduler;

/// How long a key waits for its own writes to be seen before it is looked at regardless: a watch that lost one heals by then.
const EXPECTATION_TIMEOUT: SignedDuration = SignedDuration::from_mins(5);

/// When a reconciliation takes place, and its source of arbitrary choices.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The time.
    pub now: Timestamp,
    /// Differs from turn to turn; the same seeds give the same names.
    pub seed: u64,
}

/// One controller.
pub trait Controller: Send {
    /// Name of the controller, under which it writes and records Events.
    fn name(&self) -> &'static str;

    /// Keys to look at when the engine starts, whatever the index holds.
    fn initial(&self) -> Vec<Key> {
        Vec::new()
    }

    /// Keys that a change concerns.
    fn affected(&self, touched: &Touched, index: &Index) -> Vec<Key>;

    /// Compares what is with what should be. Pure: the same key, index and turn give the same outcome.
    fn reconcile(&self, key: &Key, index: &Index, turn: Turn) -> Outcome;
}

/// Whose work it is; given back with the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ticket {
    /// A controller's key.
    Controller {
        /// Which controller.
        station: usize,
        /// Its key.
        key: Key,
        /// When the key wanted to be looked at again.
        again: Option<SignedDuration>,
    },
    /// A scheduling decision about a pod.
    Scheduler {
        /// The pod.
        pod: Key,
        /// Its UID.
        uid: String,
    },
}

/// Actions to execute in order; the first failure ends them.
#[derive(Clone, Debug)]
pub struct Work {
    /// To be given back to [`Engine::finish`].
    pub ticket: Ticket,
    /// Who acts: user name suffix for the API and source of Events.
    pub component: &'static str,
    /// What to do.
    pub actions: Vec<Action>,
}

/// How work went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Revision of the last write that was acknowledged, whatever came after; 0 when nothing was written.
    pub revision: u64,
    /// Whether an action failed (the rest was then not executed).
    pub failed: bool,
}

#[derive(Debug)]
struct Pending {
    revision: u64,
    until: Timestamp,
}

struct Station {
    controller: Box<dyn Controller>,
    queue: Queue,
    pending: HashMap<Key, Pending>,
    /// Keys that wait for their own writes to be seen.
    blocked: BTreeSet<Key>,
}

/// The controllers, the scheduler, their queues and their index.
pub struct Engine {
    index: Index,
    stations: Vec<Station>,
    scheduler: Scheduler,
    turn: usize,
    seed: u64,
}

impl Engine {
    /// An engine over an empty index.
    #[must_use]
    pub fn new(controllers: Vec<Box<dyn Controller>>, scheduler: Scheduler, seed: u64) -> Self {
        let stations = controllers
            .into_iter()
            .map(|controller| {
                let mut queue = Queue::default();
                controller.initial().into_iter().for_each(|key| queue.add(key));
                Station { controller, queue, pending: HashMap::new(), blocked: BTreeSet::new() }
            })
            .collect();
        Self { index: Index::default(), stations, scheduler, turn: 0, seed }
    }

    /// The index.
    #[must_use]
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Folds a change in and queues the keys that it concerns.
    pub fn apply(&mut self, change: Change, now: Timestamp) {
        for touched in self.index.apply(change, now) {
            self.scheduler.observe(&touched, &self.index, now);
            for station in &mut self.stations {
                for key in station.controller.affected(&touched, &self.index) {
                    station.queue.add(key);
                }
            }
        }
        for station in &mut self.stations {
            station.unblock(&self.index, now);
        }
    }

    /// The next piece of work, if there is any now. Reconciliations that ask for nothing are settled here.
    pub fn next(&mut self, now: Timestamp) -> Option<Work> {
        if !self.index.synced() {
            return None;
        }
        for _ in 0..=self.stations.len() {
            let turn = self.turn;
            self.turn = (turn + 1) % (self.stations.len() + 1);
            let work = if turn == self.stations.len() { self.schedule(now) } else { self.reconcile(turn, now) };
            if work.is_some() {
                return work;
            }
        }
        None
    }

    fn schedule(&mut self, now: Timestamp) -> Option<Work> {
        self.seed = self.seed.wrapping_add(1);
        let decision = self.scheduler.decide(&self.index, now, self.seed)?;
        Some(Work {
            ticket: Ticket::Scheduler { pod: decision.pod.clone(), uid: decision.uid.clone() },
            component: crate::scheduler::NAME,
            actions: decision.actions,
        })
    }

    fn reconcile(&mut self, number: usize, now: Timestamp) -> Option<Work> {
        let station = self.stations.get_mut(number)?;
        while let Some(key) = station.queue.pop(now) {
            if !station.settled(&key, &self.index, now) {
                station.queue.put_down(&key);
                station.blocked.insert(key);
                continue;
            }
            self.seed = self.seed.wrapping_add(1);
            let outcome = station.controller.reconcile(&key, &self.index, Turn { now, seed: self.seed });
            if outcome.actions.is_empty() {
                station.queue.succeed(&key);
                if let Some(wait) = outcome.requeue_after {
                    station.queue.add_at(key, after(now, wait));
                }
                continue;
            }
            return Some(Work {
                ticket: Ticket::Controller { station: number, key, again: outcome.requeue_after },
                component: station.controller.name(),
                actions: outcome.actions,
            });
        }
        None
    }

    /// Takes back a ticket with the fate of its work.
    pub fn finish(&mut self, ticket: Ticket, report: Report, now: Timestamp) {
        match ticket {
            Ticket::Scheduler { pod, uid } => self.scheduler.finish(&pod, &uid, !report.failed, now),
            Ticket::Controller { station, key, again } => {
                let Some(station) = self.stations.get_mut(station) else { return };
                if report.revision > self.index.revision() {
                    let until = after(now, EXPECTATION_TIMEOUT);
                    station.pending.insert(key.clone(), Pending { revision: report.revision, until });
                }
                if report.failed {
                    station.queue.fail(&key, now);
                } else {
                    station.queue.succeed(&key);
                    if let Some(wait) = again {
                        station.queue.add_at(key, after(now, wait));
                    }
                }
            }
        }
    }

    /// When there will be work though nothing happens; `None` when never.
    #[must_use]
    pub fn deadline(&self) -> Option<Timestamp> {
        if !self.index.synced() {
            return None;
        }
        let queues = self.stations.iter().filter_map(|station| station.queue.deadline());
        let pending = self.stations.iter().flat_map(|station| {
            station.blocked.iter().filter_map(|key| station.pending.get(key)).map(|pending| pending.until)
        });
        queues.chain(pending).chain(self.scheduler.deadline()).min()
    }

    /// Releases the keys whose wait for their own writes is over because of the time alone.
    pub fn tick(&mut self, now: Timestamp) {
        for station in &mut self.stations {
            station.unblock(&self.index, now);
        }
    }
}

impl Station {
    /// Whether the index shows what this key wrote last.
    fn settled(&mut self, key: &Key, index: &Index, now: Timestamp) -> bool {
        let Some(pending) = self.pending.get(key) else { return true };
        let settled = pending.until <= now || index.revision() >= pending.revision;
        if settled {
            self.pending.remove(key);
        }
        settled
    }

    fn unblock(&mut self, index: &Index, now: Timestamp) {
        if self.blocked.is_empty() {
            return;
        }
        for key in std::mem::take(&mut self.blocked) {
            if self.settled(&key, index, now) {
                self.queue.add(key);
            } else {
                self.blocked.insert(key);
            }
        }
    }
}

fn after(now: Timestamp, wait: SignedDuration) -> Timestamp {
    now.saturating_add(wait).unwrap_or(Timestamp::MAX)
}
