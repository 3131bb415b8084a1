//! Files that are not what was written: refused with an error that says so, never opened with something missing.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

use skep_store::{Error, KeyRange, Op, Options, RangeResult, RedbStore, Store, Txn};

fn put(key: String, value: String) -> Txn {
    Txn { compares: vec![], ops: vec![Op::Put { key: key.into(), value: value.into(), lease: 0 }] }
}

async fn fill(path: &Path, writes: usize) -> RangeResult {
    let store = RedbStore::open(path, Options::default()).unwrap();
    for n in 0..writes {
        store.txn(put(format!("k{}", n % 40), format!("{n} {}", "x".repeat(n * 13 % 700)))).await.unwrap();
    }
    store.range(KeyRange::all(), None, 0).await.unwrap()
}

fn mark(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}.acknowledged", path.display()))
}

#[tokio::test]
async fn a_file_cut_short_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    fill(&path, 200).await;
    let whole = fs::read(&path).unwrap();
    for keep in [1, 100, 4096, whole.len() / 4, whole.len() / 2, whole.len() - 4096, whole.len() - 1] {
        fs::write(&path, &whole[..keep]).unwrap();
        let opened = RedbStore::open(&path, Options::default());
        assert!(matches!(opened, Err(Error::Corrupt(_))), "{keep} of {} bytes: {opened:?}", whole.len());
    }
}

#[tokio::test]
async fn flipped_bytes_are_found_or_harmless() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let written = fill(&path, 200).await;
    let whole = fs::read(&path).unwrap();
    let acknowledged = fs::read(mark(&path)).unwrap();
    let (mut refused, mut harmless) = (0, 0);
    for at in (0..whole.len()).step_by(whole.len() / 300) {
        let mut damaged = whole.clone();
        for byte in damaged.iter_mut().skip(at).take(64) {
            *byte ^= 0x5a;
        }
        fs::write(&path, &damaged).unwrap();
        fs::write(mark(&path), &acknowledged).unwrap();
        match RedbStore::open(&path, Options::default()) {
            Err(Error::Corrupt(_) | Error::Unavailable(_)) => refused += 1,
            Err(other) => panic!("at byte {at}: {other:?}"),
            Ok(store) => {
                harmless += 1;
                assert_eq!(store.range(KeyRange::all(), None, 0).await.unwrap(), written, "at byte {at}");
            }
        }
    }
    assert!(refused > 0 && harmless > 0, "{refused} refused, {harmless} harmless");
}

#[tokio::test]
async fn an_older_copy_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    fill(&path, 10).await;
    let older = fs::read(&path).unwrap();
    fill(&path, 1).await;
    fs::write(&path, &older).unwrap();
    let opened = RedbStore::open(&path, Options::default());
    let Err(Error::Corrupt(reason)) = &opened else { panic!("{opened:?}") };
    assert!(reason.contains("revision 12 was acknowledged, but the store ends at 11"), "{reason}");
    // On purpose, as the message says.
    fs::remove_file(mark(&path)).unwrap();
    assert_eq!(RedbStore::open(&path, Options::default()).unwrap().revision(), 11);
}

#[tokio::test]
async fn a_file_of_something_else_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let other = "not a database".repeat(1000);
    fs::write(&path, &other).unwrap();
    let opened = RedbStore::open(&path, Options::default());
    assert!(matches!(opened, Err(Error::Corrupt(_))), "{opened:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), other);
}

#[tokio::test]
async fn a_second_process_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let _first = RedbStore::open(&path, Options::default()).unwrap();
    let second = RedbStore::open(&path, Options::default());
    assert!(matches!(&second, Err(Error::Unavailable(reason)) if reason.contains("open")), "{second:?}");
}
