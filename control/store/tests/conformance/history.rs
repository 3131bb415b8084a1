//! Lists, now and at a revision.

use skep_store::{Error, KeyRange, Store};

use crate::{bytes, commit, delete, on_every_store, put};

on_every_store!(
    a_range_is_half_open_and_limited,
    a_range_that_ends_before_it_begins_is_empty,
    a_list_at_a_revision_is_what_it_was,
    a_future_revision_is_refused,
);

async fn a_range_is_half_open_and_limited<S: Store>(store: &S) {
    for key in ["a", "b/1", "b/2", "b/3", "c"] {
        commit(store, vec![put(key, "v")]).await;
    }
    let list = store.range(KeyRange::prefix("b/"), None, 2).await.unwrap();
    let keys: Vec<_> = list.kvs.iter().map(|kv| kv.key.clone()).collect();
    assert_eq!((keys, list.remaining, list.revision), (vec![bytes("b/1"), bytes("b/2")], 1, 6));
    let rest = KeyRange { start: bytes("b/2\0"), end: KeyRange::prefix("b/").end };
    assert_eq!(store.range(rest, Some(6), 0).await.unwrap().kvs.len(), 1);
    assert_eq!(store.range(KeyRange::key("a"), None, 0).await.unwrap().kvs.len(), 1);
    assert_eq!(store.range(KeyRange { start: bytes("b"), end: None }, None, 0).await.unwrap().kvs.len(), 4);
}

async fn a_range_that_ends_before_it_begins_is_empty<S: Store>(store: &S) {
    commit(store, vec![put("b", "v")]).await;
    for end in ["a", "b", "c"] {
        let range = KeyRange { start: bytes("c"), end: Some(bytes(end)) };
        assert_eq!(store.range(range, None, 0).await.unwrap().kvs, []);
    }
}

async fn a_list_at_a_revision_is_what_it_was<S: Store>(store: &S) {
    let mut lists = vec![store.range(KeyRange::all(), None, 0).await.unwrap()];
    for n in 0..300_u32 {
        let key = format!("k{}", n % 17);
        let op = if n % 5 == 4 { delete(&key) } else { put(&key, &n.to_string()) };
        commit(store, vec![op, put("always", &n.to_string())]).await;
        lists.push(store.range(KeyRange::all(), None, 0).await.unwrap());
    }
    for list in lists {
        assert_eq!(store.range(KeyRange::all(), Some(list.revision), 0).await.unwrap(), list);
    }
}

async fn a_future_revision_is_refused<S: Store>(store: &S) {
    let future = Error::Future { requested: 2, current: 1 };
    assert_eq!(store.range(KeyRange::all(), Some(2), 0).await, Err(future.clone()));
    assert_eq!(store.watch(KeyRange::all(), 2).await.err(), Some(future));
}
