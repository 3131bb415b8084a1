//! What may fail, and what must not.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

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

/// Weighs every failure against the outages.
pub(super) fn judge(samples: &[Sample], outages: &[Outage], operations: BTreeMap<&'static str, u64>) -> Summary {
    let mut summary = Summary { operations, ..Summary::default() };
    for sample in samples {
        summary.requests += sample.report.ok;
        if sample.report.failed == 0 {
            continue;
        }
        if outages.iter().any(|outage| excuses(outage, sample)) {
            summary.explained += sample.report.failed;
        } else {
            let since =
                samples.first().map_or(Duration::ZERO, |first| sample.from.saturating_duration_since(first.from));
            summary.unexplained.push(format!(
                "{:.1} s: {}: {:?}",
                since.as_secs_f64(),
                sample.what,
                sample.report.failures
            ));
        }
    }
    summary
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
        let judged = |sample: Sample| judge(&[sample], std::slice::from_ref(&outage), BTreeMap::new()).explained == 1;
        assert!(!judged(sample(8, Some("node-1"))));
        assert!(judged(sample(9, Some("node-1"))) && judged(sample(23, None)));
        assert!(!judged(sample(25, Some("node-1"))) && !judged(sample(25, None)));
        assert!(judged(sample(30, Some("node-3"))) && !judged(sample(45, Some("node-3"))));
    }
}
