//! Random histories against a model that keeps every revision in full.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use skep_store::{
    Compare, Error, Event, KeyRange, KeyValue, MemoryStore, Op, Options, RedbStore, Revision, Store, Txn, TxnOutcome,
    Watch, WatchBatch,
};

type Keys = BTreeMap<Bytes, KeyValue>;

/// Every revision in full.
#[derive(Default)]
struct Model {
    revisions: BTreeMap<Revision, Keys>,
    events: BTreeMap<Revision, Vec<Event>>,
    oldest: Revision,
}

impl Model {
    fn new() -> Self {
        Self { revisions: BTreeMap::from([(1, Keys::new())]), events: BTreeMap::new(), oldest: 1 }
    }

    fn current(&self) -> (Revision, &Keys) {
        self.revisions.last_key_value().map(|(revision, keys)| (*revision, keys)).unwrap()
    }

    fn txn(&mut self, txn: &Txn) -> TxnOutcome {
        let (revision, keys) = self.current();
        for (index, compare) in txn.compares.iter().enumerate() {
            let (current, holds) = match compare {
                Compare::Absent(key) => (keys.get(key), !keys.contains_key(key)),
                Compare::ModRevision(key, at) => {
                    (keys.get(key), keys.get(key).is_some_and(|kv| kv.mod_revision == *at))
                }
            };
            if !holds {
                return TxnOutcome::Conflict { index, current: current.cloned() };
            }
        }
        let (mut keys, next, mut events) = (keys.clone(), revision + 1, Vec::new());
        for op in &txn.ops {
            match op {
                Op::Put { key, value, lease } => {
                    let prev = keys.get(key).cloned();
                    let kv = KeyValue {
                        key: key.clone(),
                        value: value.clone(),
                        create_revision: prev.as_ref().map_or(next, |prev| prev.create_revision),
                        mod_revision: next,
                        version: prev.as_ref().map_or(1, |prev| prev.version + 1),
                        lease: *lease,
                    };
                    keys.insert(key.clone(), kv.clone());
                    events.push(Event::Put { kv, prev });
                }
                Op::Delete { key } => {
                    if let Some(prev) = keys.remove(key) {
                        events.push(Event::Delete { prev, revision: next });
                    }
                }
            }
        }
        if events.is_empty() {
            return TxnOutcome::Committed(revision);
        }
        self.revisions.insert(next, keys);
        self.events.insert(next, events);
        TxnOutcome::Committed(next)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Txn(Txn),
    /// Compacts to the oldest revision plus this share (of 100) of what is retained.
    Compact(u64),
    /// Closes and opens, where that keeps anything.
    Reopen,
}

fn key() -> impl Strategy<Value = Bytes> {
    prop::sample::select(vec!["a", "a/1", "a/2", "b", "b/1", "c\u{ff}", "z"])
        .prop_map(|key| Bytes::from_static(key.as_bytes()))
}

fn op() -> impl Strategy<Value = Op> {
    let value = prop::collection::vec(any::<u8>(), 0..20).prop_map(Bytes::from);
    prop_oneof![
        3 => (key(), value).prop_map(|(key, value)| Op::Put { key, value, lease: 0 }),
        1 => key().prop_map(|key| Op::Delete { key }),
    ]
}

fn txn() -> impl Strategy<Value = Txn> {
    let compare = prop_oneof![
        key().prop_map(Compare::Absent),
        (key(), 1..40_u64).prop_map(|(key, revision)| Compare::ModRevision(key, revision)),
    ];
    let compares = prop_oneof![4 => Just(Vec::new()), 1 => prop::collection::vec(compare, 1..3)];
    (compares, prop::collection::vec(op(), 0..4)).prop_map(|(compares, mut ops)| {
        let mut seen = std::collections::BTreeSet::new();
        ops.retain(|op| seen.insert(op.key().clone()));
        Txn { compares, ops }
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        40 => txn().prop_map(Step::Txn),
        1 => (0..=100_u64).prop_map(Step::Compact),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 0..200)
}

fn ranges() -> Vec<KeyRange> {
    vec![KeyRange::all(), KeyRange::prefix("a/"), KeyRange::key("a"), KeyRange { start: Bytes::from("b"), end: None }]
}

/// Lists and watches everything from every revision.
async fn check<S: Store>(store: &S, model: &Model) {
    let (newest, _) = model.current();
    assert_eq!(store.revision(), newest);
    for range in ranges() {
        for (revision, keys) in &model.revisions {
            let listed = store.range(range.clone(), Some(*revision), 2).await;
            if *revision < model.oldest {
                assert_eq!(listed, Err(Error::Compacted { requested: *revision, oldest: model.oldest }));
                continue;
            }
            let all: Vec<_> = keys.values().filter(|kv| range.contains(&kv.key)).cloned().collect();
            let listed = listed.unwrap();
            assert_eq!(listed.kvs, all[..all.len().min(2)], "{range:?} at {revision}");
            assert_eq!(listed.remaining, all.len().saturating_sub(2));
        }
        let span = newest - model.oldest;
        for after in [model.oldest, model.oldest + span / 3, model.oldest + span / 2, newest] {
            watch(store, model, &range, after).await;
        }
    }
}

async fn watch<S: Store>(store: &S, model: &Model, range: &KeyRange, after: Revision) {
    let mut watch = store.watch(range.clone(), after).await.unwrap();
    let touches = |event: &&Event| match event {
        Event::Put { kv, .. } => range.contains(&kv.key),
        Event::Delete { prev, .. } => range.contains(&prev.key),
    };
    for (revision, events) in model.events.range(after + 1..) {
        let expected: Vec<_> = events.iter().filter(touches).cloned().collect();
        if !expected.is_empty() {
            assert_eq!(watch.next().await, Ok(WatchBatch::Events(*revision, expected)));
        }
    }
    assert_eq!(watch.next().await, Ok(WatchBatch::Progress(model.current().0)));
}

async fn run<S: Store>(mut store: S, reopen: impl Fn(S) -> S, steps: &[Step]) {
    let mut model = Model::new();
    for step in steps {
        match step {
            Step::Txn(txn) => assert_eq!(store.txn(txn.clone()).await.unwrap(), model.txn(txn)),
            Step::Compact(share) => {
                let revision = model.oldest + (model.current().0 - model.oldest) * share / 100;
                store.compact(revision).await.unwrap();
                model.oldest = revision;
            }
            Step::Reopen => store = reopen(store),
        }
    }
    check(&store, &model).await;
}

fn options() -> Options {
    Options { progress_interval: Duration::from_secs(60), ..Options::default() }
}

fn block_on(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn the_memory_store_does_what_the_model_does(steps in steps()) {
        block_on(run(MemoryStore::new(options()).unwrap(), |store| store, &steps));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn the_redb_store_does_what_the_model_does(steps in steps()) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let reopen = |store| {
            drop(store);
            RedbStore::open(&path, options()).unwrap()
        };
        block_on(run(RedbStore::open(&path, options()).unwrap(), reopen, &steps));
    }
}
