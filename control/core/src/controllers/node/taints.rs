//! Taints that mirror a node's conditions.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};

use super::health::{condition, readiness, ready};
use crate::controllers::action::{Outcome, Write};
use crate::controllers::index::{Index, key};
use crate::controllers::time::written;

/// Key of the taint of a node that says it is not ready.
pub(crate) const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// Key of the taint of a node that says nothing.
pub(crate) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Conditions other than Ready, and the taints that keep pods away while they are true.
const PRESSURES: [(&str, &str); 4] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
];

/// Brings the taints managed here to what the conditions say; others stay.
pub(super) fn update(node: &Arc<Node>, index: &Index, now: Timestamp, outcome: &mut Outcome) {
    let wanted = wanted(node, index);
    let known = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let ours = |taint: &Taint| {
        let pressure = PRESSURES.iter().any(|(_, key)| taint.key == *key);
        pressure || [NOT_READY, UNREACHABLE, UNSCHEDULABLE].contains(&taint.key.as_str())
    };
    let mut taints: Vec<Taint> = known
        .iter()
        .filter(|taint| !ours(taint) || wanted.contains(&(taint.key.as_str(), taint.effect.as_str())))
        .cloned()
        .collect();
    for (key, effect) in wanted {
        if !taints.iter().any(|taint| taint.key == key && taint.effect == effect) {
            taints.push(Taint {
                key: key.to_owned(),
                effect: effect.to_owned(),
                value: None,
                time_added: (effect == "NoExecute" || key != UNSCHEDULABLE).then(|| written(now)),
            });
        }
    }
    if taints == known {
        return;
    }
    let taints = if taints.is_empty() { serde_json::Value::Null } else { serde_json::json!(taints) };
    outcome.act(Write::Patch {
        target: key(node.as_ref()),
        subresource: None,
        // The list is replaced as a whole, so it must be the list that was read.
        patch: serde_json::json!({
            "metadata": {"uid": node.metadata.uid, "resourceVersion": node.metadata.resource_version},
            "spec": {"taints": taints},
        }),
    });
}

fn wanted(node: &Node, index: &Index) -> Vec<(&'static str, &'static str)> {
    let mut wanted = Vec::new();
    let health = match readiness(node) {
        Some("True") => None,
        Some("Unknown") => Some(UNREACHABLE),
        // A node that never reported is not ready; it is unknown once its grace is over.
        _ => Some(NOT_READY),
    };
    if let Some(taint) = health {
        wanted.push((taint, "NoSchedule"));
        // When no node is well the fault is more likely here than in all of them: nothing is evicted.
        if index.all::<Node>().any(|other| ready(other)) {
            wanted.push((taint, "NoExecute"));
        }
    }
    for (kind, taint) in PRESSURES {
        if condition(node, kind).is_some_and(|condition| condition.status == "True") {
            wanted.push((taint, "NoSchedule"));
        }
    }
    if node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    wanted
}
