//! Watches: complete, ordered, resumable; progress behind the events.

use std::time::Duration;

use skep_store::{Event, KeyRange, Revision, Store, Watch, WatchBatch};

use crate::{brief, bytes, commit, delete, events, on_every_store, put};

on_every_store!(
    events_carry_the_key_before_and_after,
    a_transaction_is_one_batch_in_its_own_order,
    a_watch_resumes_from_any_revision,
    the_present_is_announced_once_and_then_only_progress_is,
    progress_never_overtakes_an_event,
    a_cancelled_wait_loses_nothing,
    watchers_of_other_ranges_hear_nothing,
);

async fn events_carry_the_key_before_and_after<S: Store>(store: &S) {
    let mut watch = store.watch(KeyRange::key("a"), 0).await.unwrap();
    commit(store, vec![put("a", "1")]).await;
    let created = store.get(b"a").await.unwrap().1.unwrap();
    commit(store, vec![put("a", "2")]).await;
    let updated = store.get(b"a").await.unwrap().1.unwrap();
    commit(store, vec![delete("a")]).await;
    assert_eq!(events(&mut watch).await, (2, vec![Event::Put { kv: created.clone(), prev: None }]));
    assert_eq!(events(&mut watch).await, (3, vec![Event::Put { kv: updated.clone(), prev: Some(created) }]));
    assert_eq!(events(&mut watch).await, (4, vec![Event::Delete { prev: updated, revision: 4 }]));
}

async fn a_transaction_is_one_batch_in_its_own_order<S: Store>(store: &S) {
    let mut watch = store.watch(KeyRange::prefix("k"), 1).await.unwrap();
    commit(store, vec![put("k2", "1"), put("other", "1"), put("k1", "1")]).await;
    let (revision, batch) = events(&mut watch).await;
    assert_eq!((revision, batch.iter().map(brief).collect::<Vec<_>>()), (2, vec!["k2=1".into(), "k1=1".into()]));
}

async fn a_watch_resumes_from_any_revision<S: Store>(store: &S) {
    for n in 0..100 {
        let key = format!("{}/{n}", if n % 2 == 0 { "even" } else { "odd" });
        commit(store, vec![put(&key, "v")]).await;
    }
    for after in [0, 1, 2, 50, 51, 99, 100] {
        let mut watch = store.watch(KeyRange::prefix("even/"), after).await.unwrap();
        let mut seen = Vec::new();
        loop {
            match watch.next().await.unwrap() {
                WatchBatch::Events(revision, _) => seen.push(revision),
                WatchBatch::Progress(revision) => break assert_eq!(revision, 101),
            }
        }
        let expected: Vec<Revision> = (2..=101).filter(|r| r % 2 == 0 && *r > after).collect();
        assert_eq!(seen, expected, "after {after}");
    }
}

async fn the_present_is_announced_once_and_then_only_progress_is<S: Store>(store: &S) {
    let mut watch = store.watch(KeyRange::prefix("quiet"), 1).await.unwrap();
    assert_eq!(watch.next().await, Ok(WatchBatch::Progress(1)));
    let idle = tokio::time::timeout(Duration::from_millis(200), watch.next()).await;
    assert!(idle.is_err(), "{idle:?}");
    commit(store, vec![put("loud", "1")]).await;
    assert_eq!(watch.next().await, Ok(WatchBatch::Progress(2)));
}

async fn progress_never_overtakes_an_event<S: Store>(store: &S) {
    let mut watch = store.watch(KeyRange::prefix("k"), 1).await.unwrap();
    let write = async {
        for n in 0..300 {
            commit(store, vec![put(if n % 3 == 0 { "k" } else { "other" }, "v")]).await;
            if n % 50 == 0 {
                tokio::time::sleep(Duration::from_millis(60)).await;
            }
        }
    };
    let read = async {
        let (mut last, mut count) = (0, 0);
        while count < 100 {
            match watch.next().await.unwrap() {
                WatchBatch::Events(revision, batch) => {
                    assert!(revision > last, "{revision} after {last}");
                    (last, count) = (revision, count + batch.len());
                }
                WatchBatch::Progress(revision) => {
                    assert!(revision >= last, "progress {revision} after {last}");
                    last = revision;
                }
            }
        }
    };
    futures_util::future::join(write, read).await;
}

async fn a_cancelled_wait_loses_nothing<S: Store>(store: &S) {
    let mut watch = store.watch(KeyRange::all(), 1).await.unwrap();
    let write = async {
        for _ in 0..50 {
            commit(store, vec![put("k", "v")]).await;
            tokio::time::sleep(Duration::from_micros(300)).await;
        }
    };
    let read = async {
        let mut expected = 2;
        while expected < 52 {
            if let Ok(batch) = tokio::time::timeout(Duration::from_micros(100), watch.next()).await
                && let WatchBatch::Events(revision, _) = batch.unwrap()
            {
                assert_eq!(revision, expected);
                expected += 1;
            }
        }
    };
    futures_util::future::join(write, read).await;
}

async fn watchers_of_other_ranges_hear_nothing<S: Store>(store: &S) {
    let mut left = store.watch(KeyRange::prefix("l/"), 1).await.unwrap();
    let mut right = store.watch(KeyRange { start: bytes("r/"), end: None }, 1).await.unwrap();
    commit(store, vec![put("l/1", "v")]).await;
    commit(store, vec![put("r/1", "v")]).await;
    assert_eq!(events(&mut left).await.0, 2);
    assert_eq!(events(&mut right).await.0, 3);
    commit(store, vec![put("l/2", "v")]).await;
    assert_eq!(events(&mut left).await.0, 4);
}

#[tokio::test]
async fn a_range_that_nobody_watches_any_more_can_be_watched_again() {
    let store = crate::memory();
    for round in 1..20 {
        let mut watches = Vec::new();
        for _ in 0..4 {
            watches.push(store.watch(KeyRange::key("a"), store.revision()).await.unwrap());
        }
        commit(&store, vec![put("a", "v")]).await;
        for watch in &mut watches {
            assert_eq!(events(watch).await.0, round + 1);
        }
        // Two of them leave at the same time.
        let threads: Vec<_> = watches.into_iter().map(|watch| std::thread::spawn(move || drop(watch))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
