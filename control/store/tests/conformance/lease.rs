//! Leases.

use std::time::{Duration, Instant};

use skep_store::{Error, KeyRange, LeaseId, Op, Store};

use crate::{brief, bytes, commit, delete, events, on_every_store, put};

on_every_store!(
    a_revoked_lease_takes_its_keys_at_one_revision,
    a_lease_runs_out_unless_it_is_renewed,
    a_key_leaves_its_lease_when_it_is_written_without_it,
    unknown_leases_are_refused,
);

fn leased(key: &str, lease: LeaseId) -> Op {
    Op::Put { key: bytes(key), value: bytes("v"), lease }
}

async fn a_revoked_lease_takes_its_keys_at_one_revision<S: Store>(store: &S) {
    let lease = store.grant(60).await.unwrap();
    assert!(lease > 0);
    commit(store, vec![leased("a", lease), leased("b", lease), put("c", "v")]).await;
    assert_eq!(store.get(b"a").await.unwrap().1.unwrap().lease, lease);
    let mut watch = store.watch(KeyRange::all(), 2).await.unwrap();
    store.revoke(lease).await.unwrap();
    let (revision, batch) = events(&mut watch).await;
    assert_eq!((revision, batch.iter().map(brief).collect::<Vec<_>>()), (3, vec!["-a".into(), "-b".into()]));
    assert_eq!(store.range(KeyRange::all(), None, 0).await.unwrap().kvs.len(), 1);
    // A lease without keys ends without a revision.
    let empty = store.grant(60).await.unwrap();
    store.revoke(empty).await.unwrap();
    assert_eq!(store.revision(), 3);
}

async fn a_lease_runs_out_unless_it_is_renewed<S: Store>(store: &S) {
    let (short, kept) = (store.grant(1).await.unwrap(), store.grant(1).await.unwrap());
    commit(store, vec![leased("short", short), leased("kept", kept)]).await;
    let mut watch = store.watch(KeyRange::all(), 2).await.unwrap();
    let start = Instant::now();
    let renew = async {
        while start.elapsed() < Duration::from_millis(1800) {
            assert_eq!(store.keep_alive(kept).await, Ok(1));
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let watched = async {
        let (_, first) = events(&mut watch).await;
        (first, start.elapsed(), events(&mut watch).await.1)
    };
    let ((), (first, after, second)) = futures_util::future::join(renew, watched).await;
    assert_eq!(first.iter().map(brief).collect::<Vec<_>>(), ["-short"]);
    assert!(after >= Duration::from_millis(900), "{after:?}");
    assert_eq!(second.iter().map(brief).collect::<Vec<_>>(), ["-kept"]);
    assert_eq!(store.keep_alive(kept).await, Err(Error::LeaseNotFound(kept)));
}

async fn a_key_leaves_its_lease_when_it_is_written_without_it<S: Store>(store: &S) {
    let lease = store.grant(60).await.unwrap();
    commit(store, vec![leased("a", lease), leased("b", lease), leased("c", lease)]).await;
    commit(store, vec![put("a", "free")]).await;
    commit(store, vec![delete("b")]).await;
    commit(store, vec![put("b", "new")]).await;
    store.revoke(lease).await.unwrap();
    let list = store.range(KeyRange::all(), None, 0).await.unwrap();
    assert_eq!(list.kvs.iter().map(|kv| kv.key.clone()).collect::<Vec<_>>(), [bytes("a"), bytes("b")]);
}

async fn unknown_leases_are_refused<S: Store>(store: &S) {
    assert_eq!(store.revoke(5).await, Err(Error::LeaseNotFound(5)));
    assert_eq!(store.keep_alive(5).await, Err(Error::LeaseNotFound(5)));
    assert!(matches!(store.grant(0).await, Err(Error::Invalid(_))));
}
