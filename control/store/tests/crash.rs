//! A process that writes is killed at random moments; what it had acknowledged is there afterwards.
//!
//! The test starts itself again as the process to be killed (`SKEP_STORE_CRASH_PATH` tells it so). `SKEP_STORE_CRASH_RUNS`
//! sets the number of kills.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use skep_store::{KeyRange, Op, Options, RedbStore, Retention, Revision, Store, Txn, TxnOutcome, Watch, WatchBatch};

const PATH: &str = "SKEP_STORE_CRASH_PATH";
const WRITERS: usize = 8;

/// Compacts often, so that kills hit compactions too.
fn options() -> Options {
    let retention = Retention { revisions: 500, age: Duration::ZERO, ..Retention::default() };
    Options { retention, ..Options::default() }
}

/// The process to be killed: writers count up their keys and print what was acknowledged.
#[test]
fn child() {
    let Some(path) = std::env::var_os(PATH) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let store = RedbStore::open(Path::new(&path), options()).unwrap();
    let writers: Vec<_> = (0..WRITERS).map(|writer| runtime.spawn(write(store.clone(), writer))).collect();
    for writer in writers {
        runtime.block_on(writer).unwrap();
    }
}

async fn write(store: RedbStore, writer: usize) {
    let begin = match store.get(format!("w{writer}/last").as_bytes()).await.unwrap().1 {
        Some(kv) => std::str::from_utf8(&kv.value).unwrap().parse::<u64>().unwrap() + 1,
        None => 0,
    };
    for n in begin.. {
        // Two keys at once: a transaction is there wholly or not at all. The value is of a varying size.
        let put = |key: String, value: String| Op::Put { key: key.into(), value: value.into(), lease: 0 };
        let ops = vec![
            put(format!("w{writer}/last"), n.to_string()),
            put(format!("w{writer}/{}", n % 100), format!("{n} {}", "x".repeat((n as usize * 37) % 3000))),
        ];
        let TxnOutcome::Committed(revision) = store.txn(Txn { compares: vec![], ops }).await.unwrap() else {
            panic!("a transaction without conditions conflicts");
        };
        let line = format!("ack {writer} {n} {revision}\n");
        std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
    }
}

/// Runs the child for `time` and returns, for each writer, the last number that it was told is written, with its revision.
fn run_and_kill(path: &Path, time: Duration) -> BTreeMap<usize, (u64, Revision)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads", "1"])
        .env(PATH, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let reader = std::thread::spawn(move || {
        let mut acknowledged = BTreeMap::new();
        for line in output.lines().map_while(Result::ok) {
            // The first line shares its place with the test runner's own words.
            let Some(at) = line.find("ack ") else { continue };
            let numbers: Vec<u64> = line[at + 4..].split(' ').map_while(|word| word.parse().ok()).collect();
            if let [writer, n, revision] = numbers[..] {
                acknowledged.insert(usize::try_from(writer).unwrap(), (n, revision));
            }
        }
        acknowledged
    });
    std::thread::sleep(time);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

async fn verify(path: &Path, acknowledged: &BTreeMap<usize, (u64, Revision)>) {
    let store = RedbStore::open(path, options()).unwrap();
    for (writer, (n, revision)) in acknowledged {
        let last = store.get(format!("w{writer}/last").as_bytes()).await.unwrap().1.unwrap();
        let found: u64 = std::str::from_utf8(&last.value).unwrap().parse().unwrap();
        // At most one more write of each writer may have become durable without its acknowledgement being read.
        assert!(found >= *n, "writer {writer}: {n} was acknowledged, {found} is there");
        assert_eq!(last.version, found + 1, "writer {writer}: writes were counted twice or not at all");
        let pair = store.get(format!("w{writer}/{}", found % 100).as_bytes()).await.unwrap().1.unwrap();
        assert_eq!(pair.mod_revision, last.mod_revision, "writer {writer}: half a transaction");
        assert!(pair.value.starts_with(format!("{found} ").as_bytes()));
        // The revision that was acknowledged is the one that the history shows.
        if *revision > store.oldest_revision() {
            let mut watch =
                store.watch(KeyRange::key(Bytes::from(format!("w{writer}/last"))), revision - 1).await.unwrap();
            let WatchBatch::Events(at, events) = watch.next().await.unwrap() else { panic!("no event at {revision}") };
            assert_eq!((at, events.len()), (*revision, 1));
        }
    }
    // Every revision since is there, one after the other.
    let (oldest, newest) = (store.oldest_revision(), store.revision());
    let mut watch = store.watch(KeyRange::all(), oldest).await.unwrap();
    for expected in oldest + 1..=newest {
        assert!(matches!(watch.next().await, Ok(WatchBatch::Events(revision, _)) if revision == expected));
    }
}

#[test]
fn no_acknowledged_write_is_lost_by_a_kill() {
    let runs: u32 = std::env::var("SKEP_STORE_CRASH_RUNS").map_or(8, |runs| runs.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let start = Instant::now();
    let mut total = 0;
    for run in 0..runs {
        // Moments spread by a fixed pattern over the start of the process and its running.
        let time = Duration::from_millis(30 + u64::from(run * 7919 % 400));
        let acknowledged = run_and_kill(&path, time);
        total += acknowledged.len();
        runtime.block_on(verify(&path, &acknowledged));
    }
    assert!(total > 0, "no child lived long enough to write");
    eprintln!("{runs} kills in {:?}", start.elapsed());
}
