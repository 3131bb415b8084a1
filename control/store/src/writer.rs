//! The writer: one thread that orders proposals, makes them durable in groups, and then lets them be seen.
//!
//! ```text
//!   proposals --> apply to the pending state --> one commit for all --> publish --> answer each
//!                                                     | error
//!                                                     v
//!                                          the store has failed: no answer is a success any more
//! ```
//!
//! While a commit waits for the disk the next proposals gather, so the group grows with the load by itself.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::disk::{Batch, Disk};
use crate::error::Error;
use crate::history::CHECKPOINT_EVERY;
use crate::lease::Deadlines;
use crate::model::{LeaseId, Revision, Txn, TxnOutcome};
use crate::options::Retention;
use crate::published::Published;
use crate::state::{Applied, Map, Record, State};

/// Bounds of one group, in proposals and in bytes of their keys and values.
const GROUP_PROPOSALS: usize = 1024;
const GROUP_BYTES: usize = 16 << 20;

/// Reason that is given when the last handle is gone.
pub(crate) const CLOSED: &str = "it was closed";

/// Where an answer goes.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// What is asked of the writer.
#[derive(Debug)]
pub(crate) enum Request {
    Txn(Txn, Reply<TxnOutcome>),
    Compact(Revision, Reply<()>),
    Grant(u32, Reply<LeaseId>),
    KeepAlive(LeaseId, Reply<u32>),
    Revoke(LeaseId, Reply<()>),
}

/// A request and its place in the bounded queue, which is free again once the request is answered.
#[derive(Debug)]
pub(crate) struct Proposal {
    pub(crate) request: Request,
    pub(crate) place: OwnedSemaphorePermit,
}

impl Proposal {
    fn size(&self) -> usize {
        match &self.request {
            Request::Txn(txn, _) => txn.size(),
            _ => 0,
        }
    }
}

/// An answer that waits for the commit.
enum Answer {
    Txn(Reply<TxnOutcome>, Result<TxnOutcome, Error>),
    Lease(Reply<LeaseId>, Result<LeaseId, Error>),
    Seconds(Reply<u32>, Result<u32, Error>),
    Done(Reply<()>, Result<(), Error>),
}

impl Answer {
    /// Sends the answer, or the failure in its place. Nobody may be waiting any more: that is the caller's choice.
    fn send(self, failure: Option<&Error>) {
        fn to<T>(reply: Reply<T>, result: Result<T, Error>, failure: Option<&Error>) {
            let result = failure.map_or(result, |error| Err(error.clone()));
            let _gone = reply.send(result);
        }
        match self {
            Self::Txn(reply, result) => to(reply, result, failure),
            Self::Lease(reply, result) => to(reply, result, failure),
            Self::Seconds(reply, result) => to(reply, result, failure),
            Self::Done(reply, result) => to(reply, result, failure),
        }
    }
}

/// One group on its way.
#[derive(Default)]
struct Group {
    batch: Batch,
    checkpoints: Vec<(Revision, Map)>,
    answers: Vec<(Answer, OwnedSemaphorePermit)>,
}

/// The writer's own state, ahead of what is published by the group that is being committed.
pub(crate) struct Writer {
    state: State,
    deadlines: Deadlines,
    published: Arc<Published>,
    disk: Box<dyn Disk>,
    retention: Retention,
    ids: RandomState,
    granted: u64,
}

impl Writer {
    pub(crate) fn new(
        state: State,
        published: Arc<Published>,
        disk: Box<dyn Disk>,
        retention: Retention,
        now: Instant,
    ) -> Self {
        let mut deadlines = Deadlines::default();
        for (id, ttl) in state.leases.iter() {
            deadlines.set(id, ttl, now);
        }
        Self { state, deadlines, published, disk, retention, ids: RandomState::new(), granted: 0 }
    }

    /// Serves until every sender is gone or the disk fails.
    pub(crate) fn run(mut self, proposals: &Receiver<Proposal>) {
        loop {
            let wait = self
                .deadlines
                .next()
                .map_or(Duration::from_secs(3600), |at| at.saturating_duration_since(Instant::now()));
            let first = match proposals.recv_timeout(wait) {
                Ok(proposal) => Some(proposal),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => {
                    self.published.fail(CLOSED);
                    return;
                }
            };
            let group = self.gather(first, proposals);
            if let Err(error) = self.commit(group) {
                // What is still queued is dropped with the receiver; its callers see the failure.
                tracing::error!(%error, "the store stops");
                return;
            }
        }
    }

    fn gather(&mut self, first: Option<Proposal>, proposals: &Receiver<Proposal>) -> Group {
        let now = Instant::now();
        let mut group = Group::default();
        for lease in self.deadlines.expired(now) {
            // The lease is there: deadlines are kept in step with the state.
            if self.revoke(lease, &mut group).is_err() {
                tracing::error!(lease, "an expired lease is unknown");
            }
        }
        let (mut next, mut bytes) = (first, 0);
        while let Some(proposal) = next {
            bytes += proposal.size();
            self.take(proposal, &mut group, now);
            let full = group.answers.len() >= GROUP_PROPOSALS || bytes >= GROUP_BYTES;
            next = if full { None } else { proposals.try_recv().ok() };
        }
        if group.batch.compact.is_none()
            && let Some(revision) = self.published.history(|history| history.due(&self.retention, now))
        {
            self.compact(revision, &mut group);
        }
        group
    }

    fn take(&mut self, proposal: Proposal, group: &mut Group, now: Instant) {
        let answer = match proposal.request {
            Request::Txn(txn, reply) => Answer::Txn(reply, self.txn(txn, group)),
            Request::Compact(revision, reply) => {
                let checked = self.published.history(|history| history.check(revision));
                if checked.is_ok() && group.batch.compact.as_ref().is_none_or(|(before, _)| *before < revision) {
                    self.compact(revision, group);
                }
                Answer::Done(reply, checked)
            }
            Request::Grant(ttl, reply) => Answer::Lease(reply, self.grant(ttl, group, now)),
            Request::KeepAlive(lease, reply) => {
                let ttl = self.state.leases.ttl(lease).ok_or(Error::LeaseNotFound(lease));
                if let Ok(ttl) = ttl {
                    self.deadlines.set(lease, ttl, now);
                }
                Answer::Seconds(reply, ttl)
            }
            Request::Revoke(lease, reply) => Answer::Done(reply, self.revoke(lease, group)),
        };
        group.answers.push((answer, proposal.place));
    }

    fn txn(&mut self, txn: Txn, group: &mut Group) -> Result<TxnOutcome, Error> {
        Ok(match self.state.apply(txn)? {
            Applied::Written(record) => TxnOutcome::Committed(self.record(record, group)),
            Applied::Unchanged => TxnOutcome::Committed(self.state.revision),
            Applied::Conflict { index, current } => {
                TxnOutcome::Conflict { index, current: current.map(Arc::unwrap_or_clone) }
            }
        })
    }

    fn record(&self, record: Arc<Record>, group: &mut Group) -> Revision {
        let revision = record.revision;
        group.batch.records.push(record);
        if revision.is_multiple_of(CHECKPOINT_EVERY) {
            group.checkpoints.push((revision, self.state.map.clone()));
        }
        revision
    }

    fn grant(&mut self, ttl: u32, group: &mut Group, now: Instant) -> Result<LeaseId, Error> {
        if ttl == 0 {
            return Err(Error::Invalid("a lease must last at least one second".to_owned()));
        }
        let id = loop {
            self.granted += 1;
            let mut hasher = self.ids.build_hasher();
            hasher.write_u64(self.granted);
            // Without the sign bit, as clients expect positive numbers.
            let id = LeaseId::try_from(hasher.finish() >> 1).unwrap_or(LeaseId::MAX);
            if self.state.leases.grant(id, ttl) {
                break id;
            }
        };
        self.deadlines.set(id, ttl, now);
        group.batch.leases.insert(id, Some(ttl));
        Ok(id)
    }

    fn revoke(&mut self, lease: LeaseId, group: &mut Group) -> Result<(), Error> {
        let applied = self.state.revoke(lease)?;
        self.deadlines.remove(lease);
        group.batch.leases.insert(lease, None);
        if let Applied::Written(record) = applied {
            self.record(record, group);
        }
        Ok(())
    }

    fn compact(&self, revision: Revision, group: &mut Group) {
        let dropped = self.published.history(|history| history.up_to(revision));
        if !dropped.is_empty() {
            group.batch.compact = Some((revision, dropped));
        }
    }

    fn commit(&mut self, group: Group) -> Result<(), Error> {
        let Group { batch, checkpoints, answers } = group;
        let failure = match if batch.is_empty() { Ok(()) } else { self.disk.commit(&batch) } {
            Ok(()) => {
                if !batch.is_empty() {
                    let compact = batch.compact.map(|(revision, _)| revision);
                    let map = self.state.map.clone();
                    self.published.publish(map, batch.records, checkpoints, compact, Instant::now());
                }
                None
            }
            Err(reason) => {
                self.published.fail(&reason);
                Some(Error::Unavailable(reason))
            }
        };
        for (answer, _place) in answers {
            answer.send(failure.as_ref());
        }
        failure.map_or(Ok(()), Err)
    }
}
