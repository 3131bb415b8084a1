//! Writes 0.5 KB values with 1, 32 and 256 writers and prints writes per second, latencies, and what a store takes.
//!
//! On two cores of a virtual machine with a disk whose fdatasync takes 0.33 ms (p50), while other programs ran, the redb
//! store took 1,500, 12,400 and 28,500 writes/s from 1, 32 and 256 writers, the memory store 49,000, 92,000 and 72,000.
//!
//! `cargo run --release -p skep-store --example throughput -- [DIRECTORY] [SECONDS]`

#![allow(clippy::print_stdout, reason = "a program for people")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytes::Bytes;
use skep_store::{Error, MemoryStore, Op, Options, RedbStore, Store, Txn};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let time = Duration::from_secs(arguments.next().map_or(Ok(3), |seconds| seconds.parse())?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    let path = directory.join(format!("skep-store-throughput-{}", std::process::id()));
    for writers in [1, 32, 256] {
        let store = MemoryStore::new(Options::default())?;
        report("memory", writers, time, runtime.block_on(load(store, writers, time))?);
        let store = RedbStore::open(&path, Options::default())?;
        report("redb", writers, time, runtime.block_on(load(store, writers, time))?);
        let start = Instant::now();
        let store = RedbStore::open(&path, Options::default())?;
        let size = std::fs::metadata(&path)?.len() >> 20;
        let (revision, time) = (store.revision(), start.elapsed());
        println!("       reopened {size} MiB at revision {revision} in {time:?}, {} MiB resident", resident());
        drop(store);
        std::fs::remove_file(&path)?;
        std::fs::remove_file(format!("{}.acknowledged", path.display()))?;
    }
    Ok(())
}

async fn load<S: Store + Clone>(store: S, writers: usize, time: Duration) -> Result<Vec<Duration>, Error> {
    let end = Instant::now() + time;
    let tasks: Vec<_> = (0..writers).map(|writer| tokio::spawn(write(store.clone(), writer, end))).collect();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await.map_err(|error| Error::Unavailable(error.to_string()))??);
    }
    Ok(latencies)
}

async fn write<S: Store>(store: S, writer: usize, end: Instant) -> Result<Vec<Duration>, Error> {
    let mut latencies = Vec::new();
    for n in 0_u64.. {
        let key = Bytes::from(format!("/registry/configmaps/default/object-{writer}-{}", n % 500));
        let op = Op::Put { key, value: Bytes::from(vec![b'x'; 512]), lease: 0 };
        let start = Instant::now();
        store.txn(Txn { compares: Vec::new(), ops: vec![op] }).await?;
        latencies.push(start.elapsed());
        if start > end {
            break;
        }
    }
    Ok(latencies)
}

fn report(store: &str, writers: usize, time: Duration, mut latencies: Vec<Duration>) {
    latencies.sort_unstable();
    let rate = latencies.len() as f64 / time.as_secs_f64();
    let at = |share: usize| latencies.get(latencies.len() * share / 100).copied().unwrap_or_default();
    println!("{store:>6} {writers:>3} writers: {rate:>7.0} writes/s, p50 {:?}, p99 {:?}", at(50), at(99));
}

/// Resident memory of this process in MiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or_default() >> 10
}
