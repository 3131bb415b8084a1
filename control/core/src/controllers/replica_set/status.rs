//! Status of a `ReplicaSet`.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetSpec, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;

use crate::controllers::action::{Outcome, Write};
use crate::controllers::object::Typed;
use crate::controllers::pods::{self, Availability};
use crate::controllers::selector::contains;

/// Writes the status when it is not what it should be, and comes back when a ready pod becomes available by time alone.
pub(super) fn update(
    set: &Arc<ReplicaSet>,
    spec: &ReplicaSetSpec,
    claimed: &[Arc<Pod>],
    now: Timestamp,
    outcome: &mut Outcome,
) {
    let mut status = ReplicaSetStatus {
        replicas: count(claimed.len()),
        fully_labeled_replicas: Some(count(claimed.iter().filter(|pod| fully_labelled(spec, pod)).count())),
        ready_replicas: Some(count(claimed.iter().filter(|pod| pods::ready(pod)).count())),
        available_replicas: Some(0),
        observed_generation: set.metadata.generation,
        conditions: set.status.as_ref().and_then(|status| status.conditions.clone()),
        terminating_replicas: None,
    };
    let mut available = 0;
    for pod in claimed {
        match pods::availability(pod, spec.min_ready_seconds.unwrap_or_default(), now) {
            Availability::Available => available += 1,
            Availability::In(wait) => outcome.again_after(wait),
            Availability::Unavailable => {}
        }
    }
    status.available_replicas = Some(available);
    if !same(set.status.as_ref(), &status) {
        let mut written = set.as_ref().clone();
        written.status = Some(status);
        outcome.act(Write::UpdateStatus(written.into_object()));
    }
}

fn fully_labelled(spec: &ReplicaSetSpec, pod: &Pod) -> bool {
    let labels = spec.template.as_ref().and_then(|template| template.metadata.as_ref()?.labels.as_ref());
    labels.is_none_or(|labels| contains(pod.metadata.labels.as_ref(), labels))
}

/// Equal, an absent count being 0: the API omits zeroes.
fn same(old: Option<&ReplicaSetStatus>, new: &ReplicaSetStatus) -> bool {
    let number = |count: Option<i32>| count.unwrap_or_default();
    old.is_some_and(|old| {
        old.replicas == new.replicas
            && number(old.fully_labeled_replicas) == number(new.fully_labeled_replicas)
            && number(old.ready_replicas) == number(new.ready_replicas)
            && number(old.available_replicas) == number(new.available_replicas)
            && old.observed_generation == new.observed_generation
    })
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
