//! Revisions: annotations on sets and Deployments, and the clean-up of old sets.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::plan::{Plan, size};
use crate::controllers::action::Write;
use crate::controllers::index::key;

/// Revision number of a set; on the Deployment, that of its current set.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// Earlier revision numbers of a set that became current again, separated by commas.
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The Deployment's replicas when the set was last sized.
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// The Deployment's replicas plus surge when the set was last sized.
const MOST: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations of a Deployment that say nothing about its revisions.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment.rollback.to",
    REVISION,
    REVISION_HISTORY,
    DESIRED,
    MOST,
];
/// Longest revision history kept, characters.
const LONGEST_HISTORY: usize = 2000;

pub(super) fn annotation<'a>(metadata: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

/// A set's revision; 0 when it has none.
pub(super) fn revision(set: &ReplicaSet) -> i64 {
    annotation(&set.metadata, REVISION).and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// The highest revision among sets.
pub(super) fn newest<'a>(sets: impl Iterator<Item = &'a Arc<ReplicaSet>>) -> i64 {
    sets.map(|set| revision(set)).max().unwrap_or_default()
}

/// Desired and highest size that a set was last sized for.
pub(super) fn sizes(set: &ReplicaSet) -> Option<(i32, i32)> {
    let number = |name| annotation(&set.metadata, name).and_then(|text| text.parse().ok());
    Some((number(DESIRED)?, number(MOST)?))
}

/// Notes the Deployment's size on a set.
pub(super) fn note_sizes(metadata: &mut ObjectMeta, desired: i32, most: i32) {
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.insert(DESIRED.to_owned(), desired.to_string());
    annotations.insert(MOST.to_owned(), most.to_string());
}

/// Gives a set its annotations: those of its Deployment (with the change cause), its revision and its sizes.
pub(super) fn annotate(set: &mut ObjectMeta, deployment: &ObjectMeta, revision: i64, desired: i32, most: i32) {
    let before = annotation(set, REVISION).map(str::to_owned);
    let annotations = set.annotations.get_or_insert_default();
    for (name, value) in deployment.annotations.iter().flatten() {
        if !NOT_COPIED.contains(&name.as_str()) {
            annotations.insert(name.clone(), value.clone());
        }
    }
    let revision = revision.to_string();
    if let Some(before) = before.filter(|before| *before != revision) {
        let history = annotations.entry(REVISION_HISTORY.to_owned()).or_default();
        if !history.is_empty() {
            history.push(',');
        }
        history.push_str(&before);
        while history.len() > LONGEST_HISTORY
            && let Some(comma) = history.find(',')
        {
            history.drain(..=comma);
        }
    }
    annotations.insert(REVISION.to_owned(), revision);
    note_sizes(set, desired, most);
}

impl Plan<'_> {
    /// Deletes the oldest sets beyond `revisionHistoryLimit` that hold no pods.
    pub(super) fn clean_history(&mut self) {
        let Some(limit) = self.spec.revision_history_limit else { return };
        let limit = usize::try_from(limit).unwrap_or_default();
        let mut kept: Vec<&Arc<ReplicaSet>> =
            self.old_sets().filter(|set| set.metadata.deletion_timestamp.is_none()).collect();
        if kept.len() <= limit {
            return;
        }
        kept.sort_by_key(|set| revision(set));
        let surplus: Vec<Arc<ReplicaSet>> = kept.iter().take(kept.len() - limit).map(|set| Arc::clone(set)).collect();
        for set in surplus {
            let status = set.status.as_ref();
            let observed = status.and_then(|status| status.observed_generation).unwrap_or_default();
            let empty = size(&set) == 0 && status.is_none_or(|status| status.replicas == 0);
            if empty && set.metadata.generation.unwrap_or_default() <= observed {
                self.outcome.act(Write::delete(key(set.as_ref()), set.metadata.uid.clone().unwrap_or_default()));
            }
        }
    }
}
