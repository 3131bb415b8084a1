//! Transactions: revisions, versions, conditions, refusals.

use bytes::Bytes;
use skep_store::{Compare, Error, KeyRange, KeyValue, Op, Store, TxnOutcome};

use crate::{bytes, commit, delete, on_every_store, put, try_txn};

on_every_store!(
    the_empty_store_is_at_revision_1,
    a_put_counts_revision_and_version,
    a_recreated_key_begins_anew,
    one_transaction_is_one_revision,
    a_transaction_without_effect_makes_no_revision,
    a_failed_condition_changes_nothing_and_shows_what_is_there,
    conditions_are_those_of_the_moment,
    bad_transactions_are_refused_whole,
    concurrent_writers_get_one_revision_each,
);

async fn the_empty_store_is_at_revision_1<S: Store>(store: &S) {
    assert_eq!(store.revision(), 1);
    assert_eq!(store.get(b"a").await, Ok((1, None)));
    let list = store.range(KeyRange::all(), None, 0).await.unwrap();
    assert_eq!((list.revision, list.kvs.len(), list.remaining), (1, 0, 0));
}

async fn a_put_counts_revision_and_version<S: Store>(store: &S) {
    assert_eq!(commit(store, vec![put("a", "1")]).await, 2);
    assert_eq!(commit(store, vec![put("b", "1")]).await, 3);
    // The same value again is a write like any other.
    assert_eq!(commit(store, vec![put("a", "1")]).await, 4);
    let expected =
        KeyValue { key: bytes("a"), value: bytes("1"), create_revision: 2, mod_revision: 4, version: 2, lease: 0 };
    assert_eq!(store.get(b"a").await, Ok((4, Some(expected))));
}

async fn a_recreated_key_begins_anew<S: Store>(store: &S) {
    commit(store, vec![put("a", "1")]).await;
    commit(store, vec![put("a", "2")]).await;
    assert_eq!(commit(store, vec![delete("a")]).await, 4);
    assert_eq!(store.get(b"a").await, Ok((4, None)));
    commit(store, vec![put("a", "3")]).await;
    let kv = store.get(b"a").await.unwrap().1.unwrap();
    assert_eq!((kv.create_revision, kv.mod_revision, kv.version), (5, 5, 1));
}

async fn one_transaction_is_one_revision<S: Store>(store: &S) {
    commit(store, vec![put("c", "1")]).await;
    assert_eq!(commit(store, vec![put("b", "1"), delete("c"), put("a", "1")]).await, 3);
    let list = store.range(KeyRange::all(), None, 0).await.unwrap();
    let keys: Vec<_> = list.kvs.iter().map(|kv| (kv.key.clone(), kv.mod_revision)).collect();
    assert_eq!(keys, [(bytes("a"), 3), (bytes("b"), 3)]);
}

async fn a_transaction_without_effect_makes_no_revision<S: Store>(store: &S) {
    commit(store, vec![put("a", "1")]).await;
    assert_eq!(commit(store, vec![]).await, 2);
    assert_eq!(commit(store, vec![delete("absent")]).await, 2);
    assert_eq!(store.revision(), 2);
}

async fn a_failed_condition_changes_nothing_and_shows_what_is_there<S: Store>(store: &S) {
    commit(store, vec![put("a", "1")]).await;
    let there = store.get(b"a").await.unwrap().1;
    let compares = vec![Compare::Absent(bytes("b")), Compare::ModRevision(bytes("a"), 3)];
    let outcome = try_txn(store, compares, vec![put("a", "2"), put("b", "2")]).await;
    assert_eq!(outcome, Ok(TxnOutcome::Conflict { index: 1, current: there.clone() }));
    let outcome = try_txn(store, vec![Compare::Absent(bytes("a"))], vec![delete("a")]).await;
    assert_eq!(outcome, Ok(TxnOutcome::Conflict { index: 0, current: there.clone() }));
    let outcome = try_txn(store, vec![Compare::ModRevision(bytes("b"), 0)], vec![]).await;
    assert_eq!(outcome, Ok(TxnOutcome::Conflict { index: 0, current: None }));
    assert_eq!(store.get(b"a").await, Ok((2, there)));
    assert_eq!(store.get(b"b").await, Ok((2, None)));
}

async fn conditions_are_those_of_the_moment<S: Store>(store: &S) {
    commit(store, vec![put("n", "0")]).await;
    let increments = (0..32).map(|_| async {
        loop {
            let kv = store.get(b"n").await.unwrap().1.unwrap();
            let next: u32 = std::str::from_utf8(&kv.value).unwrap().parse::<u32>().unwrap() + 1;
            let compares = vec![Compare::ModRevision(bytes("n"), kv.mod_revision)];
            let outcome = try_txn(store, compares, vec![put("n", &next.to_string())]).await.unwrap();
            if matches!(outcome, TxnOutcome::Committed(_)) {
                return;
            }
        }
    });
    futures_util::future::join_all(increments).await;
    let kv = store.get(b"n").await.unwrap().1.unwrap();
    assert_eq!((kv.value, kv.version), (bytes("32"), 33));
}

async fn bad_transactions_are_refused_whole<S: Store>(store: &S) {
    let twice = try_txn(store, vec![], vec![put("a", "1"), put("b", "1"), delete("a")]).await;
    assert!(matches!(&twice, Err(Error::Invalid(reason)) if reason.contains("\"a\"")), "{twice:?}");
    let empty = try_txn(store, vec![], vec![put("a", "1"), put("", "1")]).await;
    assert!(matches!(empty, Err(Error::Invalid(_))), "{empty:?}");
    let lease = Op::Put { key: bytes("b"), value: bytes("1"), lease: 77 };
    assert_eq!(try_txn(store, vec![], vec![put("a", "1"), lease]).await, Err(Error::LeaseNotFound(77)));
    let large = Op::Put { key: bytes("b"), value: Bytes::from(vec![0; (8 << 20) + 1]), lease: 0 };
    let large = try_txn(store, vec![], vec![large]).await;
    assert!(matches!(large, Err(Error::TooLarge { limit, .. }) if limit == 8 << 20), "{large:?}");
    assert_eq!(store.revision(), 1);
}

async fn concurrent_writers_get_one_revision_each<S: Store>(store: &S) {
    let writes = (0..200).map(|n| async move { commit(store, vec![put(&format!("k{n}"), "v")]).await });
    let mut revisions = futures_util::future::join_all(writes).await;
    revisions.sort_unstable();
    assert_eq!(revisions, (2..202).collect::<Vec<_>>());
    assert_eq!(store.revision(), 201);
}
