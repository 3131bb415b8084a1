//! What controllers ask of a pod.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodCondition};

/// A condition of a pod by type.
#[must_use]
pub(crate) fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind)
}

/// The pod's phase; `Pending` before anything reported one.
#[must_use]
pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

/// Whether the pod has ended for good.
#[must_use]
pub(crate) fn finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Whether the pod is being deleted.
#[must_use]
pub(crate) fn terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Whether the pod counts towards a workload's replicas.
#[must_use]
pub(crate) fn active(pod: &Pod) -> bool {
    !finished(pod) && !terminating(pod)
}

/// Whether the pod's Ready condition is true.
#[must_use]
pub(crate) fn ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|condition| condition.status == "True")
}

/// Since when the pod is ready.
#[must_use]
pub(crate) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    condition(pod, "Ready")
        .filter(|condition| condition.status == "True")
        .and_then(|condition| condition.last_transition_time.as_ref())
        .map(|time| time.0)
}

/// Whether a ready pod has been so for long enough, or how long it still takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Availability {
    /// Ready for at least the minimum.
    Available,
    /// Ready, available after this long.
    In(SignedDuration),
    /// Not ready.
    Unavailable,
}

/// Judges a pod against `minReadySeconds`.
#[must_use]
pub(crate) fn availability(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> Availability {
    if !ready(pod) {
        return Availability::Unavailable;
    }
    if min_ready_seconds <= 0 {
        return Availability::Available;
    }
    let minimum = SignedDuration::from_secs(i64::from(min_ready_seconds));
    match ready_since(pod) {
        // A node that gives no transition time cannot be waited for.
        None => Availability::Unavailable,
        Some(since) => {
            let left = minimum - now.duration_since(since);
            if left.is_positive() { Availability::In(left) } else { Availability::Available }
        }
    }
}

/// The highest restart count among the pod's containers.
#[must_use]
pub(crate) fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    statuses.into_iter().flatten().map(|status| status.restart_count).max().unwrap_or_default()
}
