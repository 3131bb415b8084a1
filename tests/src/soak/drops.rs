//! Packets that the programs drop, second by second: what is lost without a count here was lost elsewhere.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::Cluster as _;
use crate::testbed::TestCluster;

const INTERVAL: Duration = Duration::from_secs(1);

/// Drops of one reason within one interval.
pub(super) struct Dropped {
    /// The packets were dropped at most [`INTERVAL`] and a little before.
    pub(super) seen: Instant,
    /// Node, direction, reason and packets.
    pub(super) what: String,
}

/// Reads the counters of every node until `stop`.
pub(super) fn watch(cluster: &TestCluster, stop: &AtomicBool) -> Result<Vec<Dropped>> {
    let mut before = BTreeMap::new();
    let mut dropped = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        for node in cluster.nodes() {
            let shown = cluster.skep(&node, "drops -o json")?;
            let rows: serde_json::Value = serde_json::from_slice(&shown.stdout).context("skep drops")?;
            for row in rows.as_array().into_iter().flatten() {
                let packets = row["packets"].as_u64().context("a counter without packets")?;
                let what = format!("{node} {} {}", row["direction"], row["reason"]);
                let last = before.insert(what.clone(), packets).unwrap_or_default();
                if packets > last {
                    dropped.push(Dropped { seen: Instant::now(), what: format!("{what} +{}", packets - last) });
                }
            }
        }
        std::thread::sleep(INTERVAL);
    }
    Ok(dropped)
}
