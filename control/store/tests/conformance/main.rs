//! What every store does: the same tests on each of them.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod compaction;
mod history;
mod lease;
mod transaction;
mod watch;

use std::time::Duration;

use bytes::Bytes;
use skep_store::{Compare, Error, Event, MemoryStore, Op, Options, RedbStore, Revision, Store, Txn, TxnOutcome};
use skep_store::{Watch, WatchBatch};

/// Short intervals, so that no test waits long.
pub fn options() -> Options {
    Options { progress_interval: Duration::from_millis(50), ..Options::default() }
}

/// A redb store and the directory that holds it.
pub struct OnDisk {
    pub store: RedbStore,
    _directory: tempfile::TempDir,
}

pub fn memory() -> MemoryStore {
    MemoryStore::new(options()).unwrap()
}

pub fn redb() -> OnDisk {
    let directory = tempfile::tempdir().unwrap();
    let store = RedbStore::open(&directory.path().join("store"), options()).unwrap();
    OnDisk { store, _directory: directory }
}

/// Runs each test on each store.
macro_rules! on_every_store {
    ($($test:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test] async fn $test() { super::$test(&$crate::memory()).await; })*
        }
        mod redb {
            $(#[tokio::test] async fn $test() { super::$test(&$crate::redb().store).await; })*
        }
    };
}
pub(crate) use on_every_store;

pub fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

pub fn put(key: &str, value: &str) -> Op {
    Op::Put { key: bytes(key), value: bytes(value), lease: 0 }
}

pub fn delete(key: &str) -> Op {
    Op::Delete { key: bytes(key) }
}

pub async fn try_txn<S: Store>(store: &S, compares: Vec<Compare>, ops: Vec<Op>) -> Result<TxnOutcome, Error> {
    store.txn(Txn { compares, ops }).await
}

/// Commits without conditions.
pub async fn commit<S: Store>(store: &S, ops: Vec<Op>) -> Revision {
    match try_txn(store, vec![], ops).await.unwrap() {
        TxnOutcome::Committed(revision) => revision,
        conflict => panic!("{conflict:?}"),
    }
}

/// Waits for the next events, passing over progress.
pub async fn events<W: Watch>(watch: &mut W) -> (Revision, Vec<Event>) {
    loop {
        match tokio::time::timeout(Duration::from_secs(10), watch.next()).await.unwrap().unwrap() {
            WatchBatch::Events(revision, events) => return (revision, events),
            WatchBatch::Progress(_) => {}
        }
    }
}

/// `key=value` of a put, `-key` of a deletion.
pub fn brief(event: &Event) -> String {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    match event {
        Event::Put { kv, .. } => format!("{}={}", text(&kv.key), text(&kv.value)),
        Event::Delete { prev, .. } => format!("-{}", text(&prev.key)),
    }
}
