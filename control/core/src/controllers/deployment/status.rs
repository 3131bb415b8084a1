//! Status of a Deployment.

use k8s_openapi::api::apps::v1::DeploymentStatus;

use super::plan::{Plan, size};
use super::progress::{self, AVAILABLE};
use crate::controllers::action::Write;
use crate::controllers::index::key;

/// Pods as the sets' statuses count them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) replicas: i32,
    pub(super) updated: i32,
    pub(super) ready: i32,
    pub(super) available: i32,
}

impl Counts {
    /// Whether these counts are further on than those of a status.
    pub(super) fn progressed_since(self, before: &DeploymentStatus) -> bool {
        let number = |count: Option<i32>| count.unwrap_or_default();
        let old_before = number(before.replicas) - number(before.updated_replicas);
        self.updated > number(before.updated_replicas)
            || self.replicas - self.updated < old_before
            || self.ready > number(before.ready_replicas)
            || self.available > number(before.available_replicas)
    }
}

impl Plan<'_> {
    pub(super) fn counts(&self) -> Counts {
        let mut counts = Counts { replicas: 0, updated: 0, ready: 0, available: 0 };
        for member in self.members() {
            if let Some(status) = &member.set.status {
                counts.replicas += status.replicas;
                counts.ready += status.ready_replicas.unwrap_or_default();
                counts.available += status.available_replicas.unwrap_or_default();
            }
        }
        let current = self.current.as_ref().and_then(|member| member.set.status.as_ref());
        counts.updated = current.map_or(0, |status| status.replicas);
        counts
    }

    /// Writes the status when it is not what it should be.
    pub(super) fn write_status(&mut self) {
        let counts = self.counts();
        let asked: i32 = self.members().map(|member| size(&member.set)).sum();
        let enough = counts.available >= self.bounds.floor(self.wanted());
        let (value, reason, message) = if enough {
            ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        } else {
            ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
        };
        progress::set(&mut self.status, AVAILABLE, value, reason, message.to_owned(), self.turn.now);
        self.judge_progress();
        let positive = |count: i32| Some(count).filter(|count| *count > 0);
        self.status.observed_generation = self.deployment.metadata.generation;
        self.status.replicas = positive(counts.replicas);
        self.status.updated_replicas = positive(counts.updated);
        self.status.ready_replicas = positive(counts.ready);
        self.status.available_replicas = positive(counts.available);
        self.status.unavailable_replicas = positive(asked - counts.available);
        let before = self.deployment.status.clone().unwrap_or_default();
        if same(&before, &self.status) {
            return;
        }
        let count = |count: Option<i32>| count.map_or(serde_json::Value::Null, serde_json::Value::from);
        self.outcome.act(Write::Patch {
            target: key(self.deployment.as_ref()),
            subresource: Some("status"),
            patch: serde_json::json!({
                "metadata": {"uid": self.deployment.metadata.uid},
                "status": {
                    "observedGeneration": self.status.observed_generation,
                    "replicas": count(self.status.replicas),
                    "updatedReplicas": count(self.status.updated_replicas),
                    "readyReplicas": count(self.status.ready_replicas),
                    "availableReplicas": count(self.status.available_replicas),
                    "unavailableReplicas": count(self.status.unavailable_replicas),
                    "conditions": self.status.conditions,
                },
            }),
        });
    }
}

/// Equal, an absent count being 0.
fn same(a: &DeploymentStatus, b: &DeploymentStatus) -> bool {
    let number = |count: Option<i32>| count.unwrap_or_default();
    a.observed_generation == b.observed_generation
        && number(a.replicas) == number(b.replicas)
        && number(a.updated_replicas) == number(b.updated_replicas)
        && number(a.ready_replicas) == number(b.ready_replicas)
        && number(a.available_replicas) == number(b.available_replicas)
        && number(a.unavailable_replicas) == number(b.unavailable_replicas)
        && a.conditions.as_deref().unwrap_or_default() == b.conditions.as_deref().unwrap_or_default()
}
