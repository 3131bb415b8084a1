//! A store in this process: the handle that callers hold. What keeps the writes is the writer's [`Disk`].

use std::ops::Bound;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use tokio::sync::{Semaphore, oneshot};

use crate::disk::Disk;
use crate::error::Error;
use crate::history::History;
use crate::model::{KeyRange, KeyValue, LeaseId, RangeResult, Revision, Txn, TxnOutcome};
use crate::options::Options;
use crate::published::Published;
use crate::state::State;
use crate::watcher::Watcher;
use crate::writer::{CLOSED, Proposal, Reply, Request, Writer};

/// Proposals that may wait at once; more callers wait for a place.
const QUEUE: usize = 4096;

/// The inside of a store.
#[derive(Debug)]
pub(crate) struct Local {
    published: Arc<Published>,
    places: Arc<Semaphore>,
    options: Options,
    /// Taken on drop, which tells the writer to end.
    proposals: Option<Sender<Proposal>>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Local {
    /// Starts the writer on what a disk holds.
    pub(crate) fn start(state: State, history: History, disk: Box<dyn Disk>, options: Options) -> Result<Self, Error> {
        let published = Arc::new(Published::new(state.map.clone(), history));
        let writer = Writer::new(state, Arc::clone(&published), disk, options.retention, Instant::now());
        let (proposals, queue) = channel();
        let thread = Builder::new()
            .name("store-writer".to_owned())
            .spawn({
                let last_words = LastWords(Arc::clone(&published));
                move || {
                    let _last_words = last_words;
                    writer.run(&queue);
                }
            })
            .map_err(|error| Error::Unavailable(format!("its writer thread does not start: {error}")))?;
        Ok(Self {
            published,
            places: Arc::new(Semaphore::new(QUEUE)),
            options,
            proposals: Some(proposals),
            writer: Mutex::new(Some(thread)),
        })
    }

    async fn ask<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T, Error> {
        self.published.available()?;
        let closed = || self.published.available().err().unwrap_or_else(|| Error::Unavailable(CLOSED.to_owned()));
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| closed())?;
        let (reply, answer) = oneshot::channel();
        let proposal = Proposal { request: request(reply), place };
        self.proposals.as_ref().ok_or_else(closed)?.send(proposal).map_err(|_| closed())?;
        // Without an answer the writer is gone, and it has said why.
        answer.await.map_err(|_| closed())?
    }

    pub(crate) async fn txn(&self, txn: Txn) -> Result<TxnOutcome, Error> {
        let (size, limit) = (txn.size(), self.options.max_txn_bytes);
        if size > limit {
            return Err(Error::TooLarge { size, limit });
        }
        self.ask(|reply| Request::Txn(txn, reply)).await
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<(Revision, Option<KeyValue>), Error> {
        let (revision, map) = self.published.current()?;
        Ok((revision, map.get(key).map(|kv| KeyValue::clone(kv))))
    }

    pub(crate) fn range(
        &self,
        range: &KeyRange,
        revision: Option<Revision>,
        limit: usize,
    ) -> Result<RangeResult, Error> {
        let (revision, map) = match revision {
            None => self.published.current()?,
            Some(revision) => (revision, self.published.at(revision)?.map()),
        };
        if range.end.as_ref().is_some_and(|end| *end <= range.start) {
            return Ok(RangeResult { revision, ..RangeResult::default() });
        }
        let end = range.end.as_ref().map_or(Bound::Unbounded, |end| Bound::Excluded(&end[..]));
        let mut keys = map.range::<_, [u8]>((Bound::Included(&range.start[..]), end));
        let limit = if limit == 0 { usize::MAX } else { limit };
        let kvs = keys.by_ref().take(limit).map(|(_, kv)| KeyValue::clone(kv)).collect();
        Ok(RangeResult { revision, kvs, remaining: keys.count() })
    }

    pub(crate) fn watch(&self, range: KeyRange, after: Revision) -> Result<Watcher, Error> {
        // Revision 1 is the empty store, so nothing is missed between 0 and it.
        let after = after.max(1);
        let group = self.published.join(range, after)?;
        Ok(Watcher::new(Arc::clone(&self.published), group, after, self.options.progress_interval))
    }

    pub(crate) fn revision(&self) -> Revision {
        self.published.revision()
    }

    pub(crate) fn oldest(&self) -> Revision {
        self.published.history(History::oldest)
    }

    pub(crate) async fn compact(&self, revision: Revision) -> Result<(), Error> {
        self.ask(|reply| Request::Compact(revision, reply)).await
    }

    pub(crate) async fn grant(&self, ttl: u32) -> Result<LeaseId, Error> {
        self.ask(|reply| Request::Grant(ttl, reply)).await
    }

    pub(crate) async fn keep_alive(&self, lease: LeaseId) -> Result<u32, Error> {
        self.ask(|reply| Request::KeepAlive(lease, reply)).await
    }

    pub(crate) async fn revoke(&self, lease: LeaseId) -> Result<(), Error> {
        self.ask(|reply| Request::Revoke(lease, reply)).await
    }

    pub(crate) async fn failure(&self) -> Error {
        self.published.failure().await
    }
}

/// Ends availability when the writer's thread ends for any reason, a panic too.
struct LastWords(Arc<Published>);

impl Drop for LastWords {
    fn drop(&mut self) {
        self.0.fail("its writer ended unexpectedly");
    }
}

impl Drop for Local {
    /// Waits for the writer's last commit, so that the disk is free when the last handle is gone.
    fn drop(&mut self) {
        self.proposals = None;
        let thread = self.writer.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the store's writer panicked");
        }
    }
}

/// The methods of a public store, which are those of its `Local`.
macro_rules! store {
    ($name:ident) => {
        impl $name {
            /// Waits until the store has failed, and says why. It never recovers by itself: whoever runs it should end
            /// the process, so that a restart reads what the disk really holds.
            pub async fn failure(&self) -> $crate::Error {
                self.0.failure().await
            }

            /// Oldest revision that can be listed and watched from.
            pub fn oldest_revision(&self) -> $crate::Revision {
                self.0.oldest()
            }
        }

        impl $crate::Store for $name {
            type Watch = $crate::Watcher;

            async fn txn(&self, txn: $crate::Txn) -> Result<$crate::TxnOutcome, $crate::Error> {
                self.0.txn(txn).await
            }

            async fn get(&self, key: &[u8]) -> Result<($crate::Revision, Option<$crate::KeyValue>), $crate::Error> {
                self.0.get(key)
            }

            async fn range(
                &self,
                range: $crate::KeyRange,
                revision: Option<$crate::Revision>,
                limit: usize,
            ) -> Result<$crate::RangeResult, $crate::Error> {
                self.0.range(&range, revision, limit)
            }

            async fn watch(
                &self,
                range: $crate::KeyRange,
                after: $crate::Revision,
            ) -> Result<$crate::Watcher, $crate::Error> {
                self.0.watch(range, after)
            }

            fn revision(&self) -> $crate::Revision {
                self.0.revision()
            }

            async fn compact(&self, revision: $crate::Revision) -> Result<(), $crate::Error> {
                self.0.compact(revision).await
            }

            async fn grant(&self, ttl: u32) -> Result<$crate::LeaseId, $crate::Error> {
                self.0.grant(ttl).await
            }

            async fn keep_alive(&self, lease: $crate::LeaseId) -> Result<u32, $crate::Error> {
                self.0.keep_alive(lease).await
            }

            async fn revoke(&self, lease: $crate::LeaseId) -> Result<(), $crate::Error> {
                self.0.revoke(lease).await
            }
        }
    };
}
pub(crate) use store;
