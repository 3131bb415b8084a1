//! Why no node would do, in the words that users search for.

use std::collections::BTreeMap;

/// Sums up the reasons of all nodes, as in `0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.`
pub(super) fn message(nodes: usize, reasons: &BTreeMap<String, usize>) -> String {
    if nodes == 0 {
        return "no nodes available to schedule pods".to_owned();
    }
    let mut parts: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    parts.sort();
    format!("0/{nodes} nodes are available: {}.", parts.join(", "))
}
