//! A disk that fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use redb::StorageBackend;
use redb::backends::InMemoryBackend;

use super::*;
use crate::history::History;
use crate::local::Local;
use crate::model::{KeyRange, Op, Txn, TxnOutcome, WatchBatch};
use crate::options::Options;
use crate::state::State;
use crate::store::Watch;

#[derive(Debug, Default)]
struct Switch {
    broken: AtomicBool,
    syncs: AtomicU64,
}

/// Real storage, whose sync fails when it is told to.
#[derive(Debug)]
struct Failing {
    storage: InMemoryBackend,
    switch: Arc<Switch>,
}

impl StorageBackend for Failing {
    fn len(&self) -> Result<u64, std::io::Error> {
        self.storage.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), std::io::Error> {
        self.storage.read(offset, out)
    }

    fn set_len(&self, len: u64) -> Result<(), std::io::Error> {
        self.storage.set_len(len)
    }

    fn sync_data(&self) -> Result<(), std::io::Error> {
        self.switch.syncs.fetch_add(1, Ordering::SeqCst);
        if self.switch.broken.load(Ordering::SeqCst) {
            return Err(std::io::Error::other("no space on the device of this test"));
        }
        self.storage.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), std::io::Error> {
        self.storage.write(offset, data)
    }
}

fn store() -> (Local, Arc<Switch>, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let switch = Arc::new(Switch::default());
    let backend = Failing { storage: InMemoryBackend::new(), switch: Arc::clone(&switch) };
    let database = Builder::new().create_with_backend(backend).unwrap();
    let (disk, loaded) = RedbDisk::adopt(database, &directory.path().join("store")).unwrap();
    let local = Local::start(loaded.state, loaded.history, Box::new(disk), Options::default()).unwrap();
    (local, switch, directory)
}

fn put(key: &str) -> Txn {
    let op = Op::Put { key: Bytes::copy_from_slice(key.as_bytes()), value: Bytes::from_static(b"v"), lease: 0 };
    Txn { compares: vec![], ops: vec![op] }
}

#[tokio::test]
async fn a_failed_sync_ends_availability_and_nothing_unsynced_is_seen() {
    let (store, switch, _directory) = store();
    assert_eq!(store.txn(put("a")).await, Ok(TxnOutcome::Committed(2)));
    let mut watch = store.watch(KeyRange::all(), 2).unwrap();
    assert_eq!(watch.next().await, Ok(WatchBatch::Progress(2)));

    switch.broken.store(true, Ordering::SeqCst);
    let failed = store.txn(put("b")).await;
    assert!(matches!(&failed, Err(Error::Unavailable(reason)) if reason.contains("device of this test")), "{failed:?}");

    // The disk works again, but what it holds is not known any more: nothing is tried.
    switch.broken.store(false, Ordering::SeqCst);
    let syncs = switch.syncs.load(Ordering::SeqCst);
    assert_eq!(store.txn(put("c")).await, failed);
    assert_eq!(store.get(b"a").map(|(revision, _)| revision), Err(store.failure().await));
    assert!(matches!(watch.next().await, Err(Error::Unavailable(_))));
    assert_eq!(store.revision(), 2);
    assert_eq!(switch.syncs.load(Ordering::SeqCst), syncs);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_sync_serves_the_proposals_that_wait() {
    let (store, switch, _directory) = store();
    let before = switch.syncs.load(Ordering::SeqCst);
    let keys: Vec<_> = (0..500).map(|n| format!("k{n}")).collect();
    futures_util::future::join_all(keys.iter().map(|key| store.txn(put(key)))).await;
    let syncs = switch.syncs.load(Ordering::SeqCst) - before;
    assert_eq!(store.revision(), 501);
    assert!(syncs < 250, "500 transactions took {syncs} syncs");
}

#[tokio::test]
async fn a_write_that_nobody_waits_for_is_made_all_the_same() {
    let (store, _switch, _directory) = store();
    let mut impatient = Box::pin(store.txn(put("a")));
    // Proposed by the first poll, and given up before it is known whether the writer was quicker.
    std::future::poll_fn(|context| {
        let _ = impatient.as_mut().poll(context);
        std::task::Poll::Ready(())
    })
    .await;
    drop(impatient);
    assert_eq!(store.txn(put("b")).await, Ok(TxnOutcome::Committed(3)));
}

/// A disk whose driver has a bug.
struct Panicking;

impl Disk for Panicking {
    fn commit(&mut self, _: &Batch) -> Result<(), String> {
        panic!("a bug of this test")
    }
}

#[tokio::test]
async fn a_panic_of_the_writer_ends_availability() {
    let (state, history) = (State::default(), History::new(1));
    let store = Local::start(state, history, Box::new(Panicking), Options::default()).unwrap();
    assert!(matches!(store.txn(put("a")).await, Err(Error::Unavailable(_))));
    let ended = Error::Unavailable("its writer ended unexpectedly".to_owned());
    assert_eq!(store.failure().await, ended);
    assert_eq!(store.get(b"a"), Err(ended));
}
