//! Requests without end, a second's worth at a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Result;

use crate::testbed::{Client, Report, TestCluster};

/// What is asked.
pub(super) struct Target {
    pub(super) address: String,
    /// Options of the demo client.
    pub(super) options: &'static str,
    /// For the machine outside, and only for it.
    pub(super) outside: bool,
}

/// What came of one second.
pub(super) struct Sample {
    pub(super) from: Instant,
    pub(super) until: Instant,
    /// Node of the client; none outside.
    pub(super) node: Option<String>,
    pub(super) what: String,
    pub(super) report: Report,
}

/// Asks one target after the other until `stop`.
pub(super) fn drive(
    cluster: &TestCluster,
    client: &Client,
    targets: &[Target],
    stop: &AtomicBool,
) -> Result<Vec<Sample>> {
    let (node, name) = match client {
        Client::Pod(place) => (Some(place.node.clone()), place.name.clone()),
        Client::Host(node) => (Some(node.clone()), format!("a process on {node}")),
        Client::Outside => (None, "outside".to_owned()),
    };
    let mine: Vec<&Target> = targets.iter().filter(|target| target.outside == node.is_none()).collect();
    let mut samples = Vec::new();
    for target in mine.iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let line = format!("load {} {} --seconds 1 --interval-ms 10 --timeout-ms 1000", target.address, target.options);
        let from = Instant::now();
        let report = cluster.demo_from(client, &line)?;
        let what = format!("{name} -> {} {}", target.address, target.options);
        samples.push(Sample { from, until: Instant::now(), node: node.clone(), what, report });
    }
    Ok(samples)
}
