//! Which pods a scale-down takes first.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use crate::controllers::index::node_of;
use crate::controllers::pods;

/// Annotation with which users prefer some pods over others; lower goes first, absent is 0.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The `count` pods that should go first, in that order.
///
/// As in Kubernetes: unassigned, then pending, then not ready, then lower deletion cost, then those that share their node with
/// more related pods, then ready for a shorter time (on a logarithmic scale), then more restarts, then younger.
pub(super) fn victims(pods: &[Arc<Pod>], related: &[Arc<Pod>], count: usize, now: Timestamp) -> Vec<Arc<Pod>> {
    let mut on_node: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in related {
        if let Some(node) = node_of(pod) {
            *on_node.entry(node).or_default() += 1;
        }
    }
    let neighbours = |pod: &Pod| node_of(pod).and_then(|node| on_node.get(node)).copied().unwrap_or_default();
    let mut order: Vec<&Arc<Pod>> = pods.iter().collect();
    order.sort_by(|a, b| {
        assigned(a)
            .cmp(&assigned(b))
            .then_with(|| progress(a).cmp(&progress(b)))
            .then_with(|| pods::ready(a).cmp(&pods::ready(b)))
            .then_with(|| cost(a).cmp(&cost(b)))
            .then_with(|| neighbours(b).cmp(&neighbours(a)))
            .then_with(|| younger_first(pods::ready_since(a), pods::ready_since(b), now))
            .then_with(|| pods::restarts(b).cmp(&pods::restarts(a)))
            .then_with(|| younger_first(created(a), created(b), now))
            .then_with(|| a.metadata.name.cmp(&b.metadata.name))
    });
    order.into_iter().take(count).cloned().collect()
}

fn assigned(pod: &Pod) -> bool {
    node_of(pod).is_some()
}

fn progress(pod: &Pod) -> u8 {
    match pods::phase(pod) {
        "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    }
}

fn cost(pod: &Pod) -> i32 {
    let annotations = pod.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(DELETION_COST)).and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn created(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

/// Ages within a power of two of each other count as equal, so that which of two old pods goes is not decided by their order of birth.
fn younger_first(a: Option<Timestamp>, b: Option<Timestamp>, now: Timestamp) -> Ordering {
    let bucket = |since: Option<Timestamp>| {
        since.map_or(0, |since| {
            let age = u64::try_from(now.duration_since(since).as_secs()).unwrap_or_default();
            u64::BITS - age.leading_zeros()
        })
    };
    bucket(a).cmp(&bucket(b))
}
