//! `ReplicaSet`: as many pods of a template as asked for.

mod rank;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::action::{Action, Note, Outcome, Severity, Write};
use super::engine::{Controller, Turn};
use super::index::{Index, Touched, key};
use super::kind::{Key, Kind};
use super::naming::generated;
use super::object::{Object, Typed};
use super::owner::{adopt, controller_of, controller_reference, release};
use super::{pods, selector};

/// Most pods created or deleted in one pass.
const BURST: usize = 500;

/// The `ReplicaSet` controller.
#[derive(Debug)]
pub(super) struct ReplicaSets;

impl Controller for ReplicaSets {
    fn name(&self) -> &'static str {
        "replicaset-controller"
    }

    fn affected(&self, touched: &Touched, index: &Index) -> Vec<Key> {
        match touched.key.kind {
            Kind::ReplicaSet => vec![touched.key.clone()],
            Kind::Pod => {
                let mut keys = Vec::new();
                for side in touched.sides() {
                    if let Some(owner) = controller_of(side.metadata()) {
                        if Kind::of_reference(&owner.api_version, &owner.kind) == Some(Kind::ReplicaSet) {
                            keys.push(Key::new(Kind::ReplicaSet, touched.key.namespace.clone(), owner.name.clone()));
                        }
                    } else {
                        let labels = side.metadata().labels.as_ref();
                        let selecting = index.list::<ReplicaSet>(&touched.key.namespace).filter(|set| {
                            set.spec.as_ref().is_some_and(|spec| selector::matches(&spec.selector, labels))
                        });
                        keys.extend(selecting.map(|set| key(set.as_ref())));
                    }
                }
                keys.dedup();
                keys
            }
            _ => Vec::new(),
        }
    }

    fn reconcile(&self, key: &Key, index: &Index, turn: Turn) -> Outcome {
        let mut outcome = Outcome::idle();
        let Some(set) = index.get::<ReplicaSet>(&key.namespace, &key.name) else { return outcome };
        let Some(spec) = &set.spec else { return outcome };
        let terminating = set.metadata.deletion_timestamp.is_some();
        let claim = claim(set, spec, index, &mut outcome);
        if !terminating {
            scale(set, spec, &claim, index, turn, &mut outcome);
        }
        status::update(set, spec, &claim, turn.now, &mut outcome);
        outcome
    }
}

/// The active pods that a set manages, adopting those that match its selector and have no controller, and letting go of those
/// that do not match any more.
fn claim(set: &Arc<ReplicaSet>, spec: &ReplicaSetSpec, index: &Index, outcome: &mut Outcome) -> Vec<Arc<Pod>> {
    let uid = set.metadata.uid.as_deref().unwrap_or_default();
    let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
    let mut claimed = Vec::new();
    for pod in index.controlled::<Pod>(uid) {
        if selector::matches(&spec.selector, pod.metadata.labels.as_ref()) {
            if pods::active(pod) {
                claimed.push(pod.clone());
            }
        } else if !pods::terminating(pod) && set.metadata.deletion_timestamp.is_none() {
            outcome.act(release(key(pod.as_ref()), &pod.metadata, uid));
        }
    }
    if set.metadata.deletion_timestamp.is_some() || selector::is_empty(&spec.selector) {
        return claimed;
    }
    for pod in index.orphans::<Pod>(namespace) {
        if pods::active(pod) && selector::matches(&spec.selector, pod.metadata.labels.as_ref()) {
            let owner = controller_reference(Kind::ReplicaSet, &set.metadata);
            outcome.act(adopt(key(pod.as_ref()), &pod.metadata, owner));
            claimed.push(pod.clone());
        }
    }
    claimed
}

fn scale(
    set: &Arc<ReplicaSet>,
    spec: &ReplicaSetSpec,
    claimed: &[Arc<Pod>],
    index: &Index,
    turn: Turn,
    outcome: &mut Outcome,
) {
    let wanted = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or_default();
    let object = Object::ReplicaSet(set.clone());
    let note = |severity, reason, message| Note::about(&object, severity, reason, message);
    if claimed.len() < wanted {
        for ordinal in 0..(wanted - claimed.len()).min(BURST) {
            let pod = new_pod(set, spec, turn.seed, ordinal as u64);
            let name = pod.metadata.name.clone().unwrap_or_default();
            outcome.act(
                Action::from(Write::Create(pod.into_object()))
                    .noting(note(Severity::Normal, "SuccessfulCreate", format!("Created pod: {name}")))
                    .or_noting(note(Severity::Warning, "FailedCreate", "Error creating".to_owned())),
            );
        }
    } else if claimed.len() > wanted {
        let related = related(set, index);
        let surplus = (claimed.len() - wanted).min(BURST);
        for pod in rank::victims(claimed, &related, surplus, turn.now) {
            let name = pod.metadata.name.clone().unwrap_or_default();
            outcome.act(
                Action::from(Write::delete(key(pod.as_ref()), pod.metadata.uid.clone().unwrap_or_default()))
                    .noting(note(Severity::Normal, "SuccessfulDelete", format!("Deleted pod: {name}")))
                    .or_noting(note(Severity::Warning, "FailedDelete", "Error deleting".to_owned())),
            );
        }
    }
}

/// Active pods of every set with the same controller: those that a Service spreads traffic over together.
fn related(set: &ReplicaSet, index: &Index) -> Vec<Arc<Pod>> {
    let sets: Vec<Arc<ReplicaSet>> = match controller_of(&set.metadata) {
        Some(owner) => index.controlled::<ReplicaSet>(&owner.uid).cloned().collect(),
        None => vec![Arc::new(set.clone())],
    };
    sets.iter()
        .filter_map(|set| set.metadata.uid.as_deref())
        .flat_map(|uid| index.controlled::<Pod>(uid))
        .filter(|pod| pods::active(pod))
        .cloned()
        .collect()
}

fn new_pod(set: &ReplicaSet, spec: &ReplicaSetSpec, seed: u64, ordinal: u64) -> Pod {
    let template = spec.template.clone().unwrap_or_default();
    let from = template.metadata.unwrap_or_default();
    let prefix = format!("{}-", set.metadata.name.as_deref().unwrap_or_default());
    Pod {
        metadata: ObjectMeta {
            name: Some(generated(&prefix, seed, ordinal)),
            generate_name: Some(prefix),
            namespace: set.metadata.namespace.clone(),
            labels: from.labels,
            annotations: from.annotations,
            finalizers: from.finalizers,
            owner_references: Some(vec![controller_reference(Kind::ReplicaSet, &set.metadata)]),
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: None,
    }
}
