//! `Deployment`: rollouts of a pod template, each revision a `ReplicaSet`.
//!
//! ```text
//!   template changes -> a new ReplicaSet (revision n+1) --- rolling: grow within maxSurge, shrink old within maxUnavailable
//!   replicas change  -> proportional scaling            \-- recreate: old to 0, wait for their pods, then the new to full size
//!   done             -> old sets beyond revisionHistoryLimit go
//! ```
//!
//! Behaviour follows the public documentation of Deployments and what `kubectl rollout` relies on.

mod history;
mod plan;
mod progress;
mod rolling;
mod scaling;
mod status;
mod template;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;

use self::plan::Plan;
use super::action::Outcome;
use super::engine::{Controller, Turn};
use super::index::{Index, Touched, key};
use super::kind::{Key, Kind};
use super::object::Object;
use super::owner::{adopt, controller_of, controller_reference, release};
use super::{pods, selector};

/// The Deployment controller.
#[derive(Debug)]
pub(super) struct Deployments;

impl Controller for Deployments {
    fn name(&self) -> &'static str {
        "deployment-controller"
    }

    fn affected(&self, touched: &Touched, index: &Index) -> Vec<Key> {
        match touched.key.kind {
            Kind::Deployment => vec![touched.key.clone()],
            Kind::ReplicaSet => touched.sides().flat_map(|side| deployments_of(side, index)).collect(),
            // Recreate waits for the last old pod to be gone or finished.
            Kind::Pod => {
                let ended = |side: &Object| matches!(side, Object::Pod(pod) if pods::finished(pod));
                if touched.after.as_ref().is_some_and(|pod| !ended(pod)) {
                    return Vec::new();
                }
                let owners = touched.sides().filter_map(|pod| controller_of(pod.metadata()));
                let sets = owners.filter_map(|owner| index.by_uid(&owner.uid));
                sets.flat_map(|set| deployments_of(set, index)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn reconcile(&self, key: &Key, index: &Index, turn: Turn) -> Outcome {
        let mut outcome = Outcome::idle();
        let Some(deployment) = index.get::<Deployment>(&key.namespace, &key.name) else { return outcome };
        let Some(spec) = &deployment.spec else { return outcome };
        let sets = claim(deployment, spec, index, &mut outcome);
        if !outcome.actions.is_empty() {
            // Adopted sets are counted once they show this owner.
            return outcome;
        }
        if selector::is_empty(&spec.selector) {
            return outcome;
        }
        let mut plan = Plan::new(deployment, spec, sets, turn);
        if deployment.metadata.deletion_timestamp.is_some() {
            plan.write_status();
        } else if spec.paused == Some(true) {
            plan.note_paused(true);
            plan.annotate_current();
            plan.scale_proportionally();
            plan.clean_history();
            plan.write_status();
        } else {
            plan.note_paused(false);
            if plan.scaling_event() {
                plan.annotate_current();
                plan.scale_proportionally();
                plan.write_status();
            } else if recreates(spec) {
                let old_pods = old_pods_run(&plan, index);
                plan.recreate(old_pods);
            } else {
                plan.roll();
            }
        }
        plan.finish(outcome)
    }
}

fn recreates(spec: &DeploymentSpec) -> bool {
    spec.strategy.as_ref().and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate")
}

/// Whether a pod of an old revision is still there, terminating ones included.
fn old_pods_run(plan: &Plan<'_>, index: &Index) -> bool {
    plan.old_sets()
        .filter_map(|set| set.metadata.uid.as_deref())
        .flat_map(|uid| index.controlled::<Pod>(uid))
        .any(|pod| !pods::finished(pod))
}

/// Deployments that a `ReplicaSet` concerns: its controller, or those that could adopt it.
fn deployments_of(set: &Object, index: &Index) -> Vec<Key> {
    let metadata = set.metadata();
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    match controller_of(metadata) {
        Some(owner) if Kind::of_reference(&owner.api_version, &owner.kind) == Some(Kind::Deployment) => {
            vec![Key::new(Kind::Deployment, namespace, owner.name.clone())]
        }
        Some(_) => Vec::new(),
        None => index
            .list::<Deployment>(namespace)
            .filter(|deployment| {
                let selector = deployment.spec.as_ref().map(|spec| &spec.selector);
                selector.is_some_and(|selector| selector::matches(selector, metadata.labels.as_ref()))
            })
            .map(|deployment| key(deployment.as_ref()))
            .collect(),
    }
}

/// The sets that a Deployment manages; adopts matching ones without a controller, lets go of those that match no more.
fn claim(deployment: &Deployment, spec: &DeploymentSpec, index: &Index, outcome: &mut Outcome) -> Vec<Arc<ReplicaSet>> {
    let uid = deployment.metadata.uid.as_deref().unwrap_or_default();
    let namespace = deployment.metadata.namespace.as_deref().unwrap_or_default();
    let mut claimed = Vec::new();
    for set in index.controlled::<ReplicaSet>(uid) {
        if selector::matches(&spec.selector, set.metadata.labels.as_ref()) {
            claimed.push(set.clone());
        } else if deployment.metadata.deletion_timestamp.is_none() && set.metadata.deletion_timestamp.is_none() {
            outcome.act(release(key(set.as_ref()), &set.metadata, uid));
        }
    }
    if deployment.metadata.deletion_timestamp.is_none() && !selector::is_empty(&spec.selector) {
        for set in index.orphans::<ReplicaSet>(namespace) {
            let adoptable = set.metadata.deletion_timestamp.is_none();
            if adoptable && selector::matches(&spec.selector, set.metadata.labels.as_ref()) {
                let owner = controller_reference(Kind::Deployment, &deployment.metadata);
                outcome.act(adopt(key(set.as_ref()), &set.metadata, owner));
            }
        }
    }
    claimed.sort_by(|a, b| age(a).cmp(&age(b)));
    claimed
}

/// Order of birth, the name breaking ties.
fn age(set: &ReplicaSet) -> (Option<jiff::Timestamp>, Option<&str>) {
    (set.metadata.creation_timestamp.as_ref().map(|time| time.0), set.metadata.name.as_deref())
}
