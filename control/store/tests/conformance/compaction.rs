//! Compaction: asked for and by policy.

use std::time::Duration;

use skep_store::{Error, KeyRange, MemoryStore, Options, RedbStore, Retention, Store, Watch, WatchBatch};

use crate::{commit, delete, events, on_every_store, options, put};

on_every_store!(
    what_is_older_is_gone_and_what_is_left_is_whole,
    a_watcher_that_fell_behind_is_told,
    a_quiet_watcher_does_not_fall_behind,
);

async fn what_is_older_is_gone_and_what_is_left_is_whole<S: Store>(store: &S) {
    for n in 0..200 {
        commit(store, vec![put(&format!("k{}", n % 7), &n.to_string())]).await;
    }
    commit(store, vec![delete("k0")]).await;
    let mut lists = Vec::new();
    for revision in 150..=202 {
        lists.push(store.range(KeyRange::all(), Some(revision), 0).await.unwrap());
    }
    store.compact(150).await.unwrap();
    let gone = Error::Compacted { requested: 149, oldest: 150 };
    assert_eq!(store.range(KeyRange::all(), Some(149), 0).await, Err(gone.clone()));
    assert_eq!(store.watch(KeyRange::all(), 149).await.err(), Some(gone.clone()));
    assert_eq!(store.compact(149).await, Err(gone));
    assert_eq!(store.compact(203).await, Err(Error::Future { requested: 203, current: 202 }));
    for list in &lists {
        assert_eq!(store.range(KeyRange::all(), Some(list.revision), 0).await.as_ref(), Ok(list));
    }
    let mut watch = store.watch(KeyRange::all(), 150).await.unwrap();
    for revision in 151..=202 {
        assert_eq!(events(&mut watch).await.0, revision);
    }
    store.compact(202).await.unwrap();
    let list = store.range(KeyRange::all(), None, 0).await.unwrap();
    assert_eq!(Some(&list), lists.last());
    assert_eq!(commit(store, vec![put("k0", "again")]).await, 203);
}

async fn a_watcher_that_fell_behind_is_told<S: Store>(store: &S) {
    let mut watch = store.watch(KeyRange::all(), 1).await.unwrap();
    for _ in 0..10 {
        commit(store, vec![put("k", "v")]).await;
    }
    assert_eq!(events(&mut watch).await.0, 2);
    store.compact(8).await.unwrap();
    assert_eq!(watch.next().await, Err(Error::Lagged(2)));
}

async fn a_quiet_watcher_does_not_fall_behind<S: Store>(store: &S) {
    let mut watch = store.watch(KeyRange::prefix("quiet"), 1).await.unwrap();
    assert_eq!(watch.next().await, Ok(WatchBatch::Progress(1)));
    for _ in 0..10 {
        commit(store, vec![put("k", "v")]).await;
    }
    store.compact(11).await.unwrap();
    commit(store, vec![put("quiet", "v")]).await;
    assert_eq!(events(&mut watch).await.0, 12);
}

fn small(retention: Retention) -> Options {
    Options { retention, ..options() }
}

async fn history_after<S: Store>(store: &S, writes: u64, value: &str) -> u64 {
    let commits = (0..writes).map(|n| {
        let key = format!("k{}", n % 50);
        async move { commit(store, vec![put(&key, value)]).await }
    });
    futures_util::future::join_all(commits).await;
    // The policy is looked at with each group; one more write comes after every one of the above.
    commit(store, vec![put("last", value)]).await
}

#[tokio::test]
async fn the_policy_keeps_the_last_revisions_and_the_young_ones() {
    let retention = Retention { revisions: 100, age: Duration::ZERO, bytes: usize::MAX };
    let store = MemoryStore::new(small(retention)).unwrap();
    let newest = history_after(&store, 2000, "v").await;
    let kept = newest - store.oldest_revision();
    assert!((100..=400).contains(&kept), "{kept} kept");

    let young = Retention { age: Duration::from_secs(3600), ..retention };
    let store = MemoryStore::new(small(young)).unwrap();
    history_after(&store, 2000, "v").await;
    assert_eq!(store.oldest_revision(), 1);
}

#[tokio::test]
async fn the_policy_bounds_the_memory_of_large_values() {
    let retention = Retention { revisions: 10_000, age: Duration::from_secs(3600), bytes: 1 << 20 };
    let store = MemoryStore::new(small(retention)).unwrap();
    let newest = history_after(&store, 500, &"x".repeat(10_000)).await;
    let kept = newest - store.oldest_revision();
    assert!((50..=110).contains(&kept), "{kept} kept");
}

#[tokio::test]
async fn the_policy_leaves_no_rows_behind_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let retention = Retention { revisions: 100, age: Duration::ZERO, bytes: usize::MAX };
    let store = RedbStore::open(&path, small(retention)).unwrap();
    for _ in 0..5 {
        history_after(&store, 2000, &"x".repeat(1000)).await;
    }
    let (list, oldest) = (store.range(KeyRange::all(), None, 0).await.unwrap(), store.oldest_revision());
    drop(store);
    let size = std::fs::metadata(&path).unwrap().len();
    assert!(size < 8 << 20, "10,000 values of 1 kB, of which 51 are live, take {size} bytes");
    let store = RedbStore::open(&path, small(retention)).unwrap();
    assert_eq!(store.oldest_revision(), oldest);
    assert_eq!(store.range(KeyRange::all(), None, 0).await.unwrap(), list);
}
