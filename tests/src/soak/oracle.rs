//! What may fail, and what must not.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::churn::Operation;
use super::drops::Dropped;
use super::load::Sample;

/// A node that was lost.
pub(super) struct Outage {
    pub(super) node: String,
    /// Its link went down.
    pub(super) from: Instant,
    /// The others know: the cluster says `NotReady`.
    pub(super) known: Option<Instant>,
    /// It is back and `Ready`.
    pub(super) until: Option<Instant>,
}

/// How long after a node is known to be lost clients of other nodes may still fail: endpoints, and what waits for an
/// answer that never comes.
const AFTERMATH: Duration = Duration::from_secs(4);

/// What a run saw.
#[derive(Debug, Default)]
pub struct Summary {
    /// Requests that were answered.
    pub requests: u64,
    /// Requests that failed because a node was lost.
    pub explained: u64,
    /// Other failures, one line each.
    pub unexplained: Vec<String>,
    /// Operations by name.
    pub operations: BTreeMap<&'static str, u64>,
}

/// What was going on around a failure is told for this long before it.
const CONTEXT: Duration = Duration::from_secs(8);

/// What happened during a run.
#[derive(Default)]
pub(super) struct History {
    pub(super) samples: Vec<Sample>,
    pub(super) outages: Vec<Outage>,
    pub(super) operations: Vec<Operation>,
    pub(super) drops: Vec<Dropped>,
}

/// Weighs every failure against the outages.
pub(super) fn judge(history: &History) -> Summary {
    let History { samples, outages, operations, .. } = history;
    let mut summary = Summary::default();
    for operation in operations {
        *summary.operations.entry(operation.what).or_default() += 1;
    }
    for sample in samples {
        summary.requests += sample.report.ok;
        if sample.report.failed == 0 {
            continue;
        }
        if outages.iter().any(|outage| excuses(outage, sample)) {
            summary.explained += sample.report.failed;
        } else {
            summary.unexplained.push(tell(sample, history));
        }
    }
    summary
}

/// A failure and what was going on.
fn tell(sample: &Sample, history: &History) -> String {
    let begin = history.samples.iter().map(|sample| sample.from).min().unwrap_or(sample.from);
    let at = |time: Instant| format!("{:.1} s", time.saturating_duration_since(begin).as_secs_f64());
    let mut text =
        format!("{} to {}: {}: {:?}", at(sample.from), at(sample.until), sample.what, sample.report.failures);
    let near = |from: Instant, until: Instant| until + CONTEXT > sample.from && from < sample.until;
    for operation in history.operations.iter().filter(|operation| near(operation.from, operation.until)) {
        text.push_str(&format!("\n    {} to {}: {}", at(operation.from), at(operation.until), operation.what));
    }
    for drop in history.drops.iter().filter(|drop| near(drop.seen, drop.seen)) {
        text.push_str(&format!("\n    {}: {}", at(drop.seen), drop.what));
    }
    text
}

/// Clients on a lost node fail for as long as it is lost; others until it is known, and a little longer. The machine
/// outside comes in by a node that is never lost.
fn excuses(outage: &Outage, sample: &Sample) -> bool {
    let own = sample.node.as_ref() == Some(&outage.node);
    let last = if own { outage.until } else { outage.known };
    let over = last.is_some_and(|last| sample.from > last + AFTERMATH);
    sample.until >= outage.from && !over
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::Report;

    #[test]
    fn only_a_lost_node_excuses_and_only_for_a_while() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let outage = Outage { node: "node-3".to_owned(), from: at(10), known: Some(at(20)), until: Some(at(40)) };
        let sample = |from: u64, node: Option<&str>| Sample {
            from: at(from),
            until: at(from + 1),
            node: node.map(str::to_owned),
            what: "x".to_owned(),
            report: Report { failed: 1, ..Report::default() },
        };
        let judged = |sample: Sample| {
            let outage = Outage { node: outage.node.clone(), ..outage };
            let history = History { samples: vec![sample], outages: vec![outage], ..History::default() };
            judge(&history).explained == 1
        };
        assert!(!judged(sample(8, Some("node-1"))));
        assert!(judged(sample(9, Some("node-1"))) && judged(sample(23, None)));
        assert!(!judged(sample(25, Some("node-1"))) && !judged(sample(25, None)));
        assert!(judged(sample(30, Some("node-3"))) && !judged(sample(45, Some("node-3"))));
    }
}
