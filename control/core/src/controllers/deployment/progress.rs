//! Conditions of a Deployment: Available, Progressing, and the progress deadline.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{DeploymentCondition, DeploymentSpec, DeploymentStatus};

use super::plan::Plan;
use crate::controllers::time::written;

pub(super) const PROGRESSING: &str = "Progressing";
pub(super) const AVAILABLE: &str = "Available";
/// Reason once every replica is updated and available.
const DONE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";

/// Seconds without progress after which a rollout counts as stuck; `None` when it never does.
pub(super) fn deadline(spec: &DeploymentSpec) -> Option<SignedDuration> {
    let seconds = spec.progress_deadline_seconds.filter(|seconds| *seconds != i32::MAX)?;
    Some(SignedDuration::from_secs(i64::from(seconds)))
}

pub(super) fn condition<'a>(status: &'a DeploymentStatus, kind: &str) -> Option<&'a DeploymentCondition> {
    status.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind)
}

/// Sets a condition; nothing changes when status and reason are as before. Reports whether something did.
pub(super) fn set(
    status: &mut DeploymentStatus,
    kind: &str,
    value: &str,
    reason: &str,
    message: String,
    now: Timestamp,
) -> bool {
    let known = condition(status, kind);
    if known.is_some_and(|known| known.status == value && known.reason.as_deref() == Some(reason)) {
        return false;
    }
    renew(status, kind, value, reason, message, now);
    true
}

/// Sets a condition with a new update time; the transition time stays when the value does.
fn renew(status: &mut DeploymentStatus, kind: &str, value: &str, reason: &str, message: String, now: Timestamp) {
    let transition = condition(status, kind)
        .filter(|known| known.status == value)
        .and_then(|known| known.last_transition_time.clone())
        .unwrap_or_else(|| written(now));
    let conditions = status.conditions.get_or_insert_default();
    conditions.retain(|known| known.type_ != kind);
    conditions.push(DeploymentCondition {
        type_: kind.to_owned(),
        status: value.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: Some(transition),
        last_update_time: Some(written(now)),
    });
}

impl Plan<'_> {
    /// Notes a pause or its end, so that a paused rollout does not run into its deadline.
    pub(super) fn note_paused(&mut self, paused: bool) {
        if deadline(self.spec).is_none() {
            return;
        }
        let reason = condition(&self.status, PROGRESSING).and_then(|known| known.reason.as_deref());
        let now = self.turn.now;
        if reason == Some(TIMED_OUT) {
            return;
        }
        let was_paused = reason == Some(PAUSED);
        if paused && !was_paused {
            set(&mut self.status, PROGRESSING, "Unknown", PAUSED, "Deployment is paused".to_owned(), now);
        } else if !paused && was_paused {
            set(&mut self.status, PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed".to_owned(), now);
        }
    }

    /// Whether every replica is of the current revision and available, as the sets' statuses show it now.
    pub(super) fn complete(&self) -> bool {
        let wanted = self.wanted();
        let counts = self.counts();
        counts.updated == wanted && counts.replicas == wanted && counts.available == wanted
    }

    /// Judges progress for the status that is about to be written.
    pub(super) fn judge_progress(&mut self) {
        let Some(deadline) = deadline(self.spec) else {
            if let Some(conditions) = &mut self.status.conditions {
                conditions.retain(|known| known.type_ != PROGRESSING);
            }
            return;
        };
        if self.spec.paused == Some(true) {
            return;
        }
        let now = self.turn.now;
        let before = self.deployment.status.clone().unwrap_or_default();
        let known = condition(&self.status, PROGRESSING).cloned();
        let reason = known.as_ref().and_then(|known| known.reason.as_deref());
        let counts = self.counts();
        if reason == Some(DONE) && counts.replicas == counts.updated {
            return;
        }
        if self.complete() {
            let message = format!("{} has successfully progressed.", self.subject());
            set(&mut self.status, PROGRESSING, "True", DONE, message, now);
        } else if counts.progressed_since(&before) {
            let message = format!("{} is progressing.", self.subject());
            renew(&mut self.status, PROGRESSING, "True", "ReplicaSetUpdated", message, now);
        } else if let Some(known) = &known
            && !matches!(reason, Some(DONE | TIMED_OUT))
        {
            let since = known.last_update_time.as_ref().map_or(now, |time| time.0);
            let left = deadline - now.duration_since(since);
            if left.is_negative() {
                let message = format!("{} has timed out progressing.", self.subject());
                set(&mut self.status, PROGRESSING, "False", TIMED_OUT, message, now);
            } else {
                self.outcome.again_after(left + SignedDuration::from_secs(1));
            }
        }
    }
}
