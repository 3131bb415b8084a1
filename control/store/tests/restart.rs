//! What a restart keeps: keys, revisions, history, leases.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::time::{Duration, Instant};

use bytes::Bytes;
use skep_store::{Event, KeyRange, Op, Options, RedbStore, Store, Txn, TxnOutcome, Watch, WatchBatch};

async fn write(store: &RedbStore, key: &'static str, lease: i64) -> u64 {
    let op = Op::Put { key: Bytes::from_static(key.as_bytes()), value: Bytes::from_static(b"v"), lease };
    match store.txn(Txn { compares: vec![], ops: vec![op] }).await.unwrap() {
        TxnOutcome::Committed(revision) => revision,
        conflict => panic!("{conflict:?}"),
    }
}

#[tokio::test]
async fn a_watch_resumes_across_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let store = RedbStore::open(&path, Options::default()).unwrap();
    for _ in 0..10 {
        write(&store, "a", 0).await;
    }
    let mut before = store.watch(KeyRange::all(), 6).await.unwrap();
    let mut expected = Vec::new();
    while let WatchBatch::Events(revision, events) = before.next().await.unwrap() {
        expected.push((revision, events));
    }
    drop(store);
    let ended = before.next().await;
    assert!(ended.is_err(), "the store is closed: {ended:?}");
    drop(before);

    let store = RedbStore::open(&path, Options::default()).unwrap();
    assert_eq!((store.revision(), store.oldest_revision()), (11, 1));
    let mut after = store.watch(KeyRange::all(), 6).await.unwrap();
    for (revision, events) in expected {
        assert_eq!(after.next().await, Ok(WatchBatch::Events(revision, events)));
    }
    assert_eq!(write(&store, "b", 0).await, 12);
}

#[tokio::test]
async fn a_lease_survives_and_starts_anew() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let store = RedbStore::open(&path, Options::default()).unwrap();
    let (kept, ended) = (store.grant(1).await.unwrap(), store.grant(60).await.unwrap());
    write(&store, "kept", kept).await;
    write(&store, "ended", ended).await;
    store.revoke(ended).await.unwrap();
    drop(store);

    let start = Instant::now();
    let store = RedbStore::open(&path, Options::default()).unwrap();
    assert!(store.keep_alive(ended).await.is_err());
    assert_eq!(store.get(b"kept").await.unwrap().1.unwrap().lease, kept);
    let mut watch = store.watch(KeyRange::key("kept"), store.revision()).await.unwrap();
    loop {
        if let WatchBatch::Events(_, events) = watch.next().await.unwrap() {
            assert!(matches!(&events[..], [Event::Delete { .. }]), "{events:?}");
            break;
        }
    }
    assert!(start.elapsed() >= Duration::from_millis(900));
}
