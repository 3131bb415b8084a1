//! A node's conditions when nothing is heard of it, and the readiness of its pods.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod, PodCondition};

use crate::controllers::action::{Action, Note, Outcome, Severity, Write};
use crate::controllers::index::{Index, key};
use crate::controllers::object::{Object, Typed};
use crate::controllers::pods;
use crate::controllers::time::written;

/// Conditions that a node reports and that nobody knows once it is silent.
const REPORTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

pub(super) fn condition<'a>(node: &'a Node, kind: &str) -> Option<&'a NodeCondition> {
    node.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind)
}

/// Value of the Ready condition, if the node has one.
pub(super) fn readiness(node: &Node) -> Option<&str> {
    condition(node, "Ready").map(|condition| condition.status.as_str())
}

/// Whether the node says that it is ready.
pub(crate) fn ready(node: &Node) -> bool {
    readiness(node) == Some("True")
}

/// Sets every reported condition to Unknown.
pub(super) fn mark_unknown(node: &Arc<Node>, now: Timestamp, outcome: &mut Outcome) {
    let mut draft = node.as_ref().clone();
    let conditions = draft.status.get_or_insert_default().conditions.get_or_insert_default();
    let mut changed = false;
    for kind in REPORTED {
        match conditions.iter_mut().find(|condition| condition.type_ == kind) {
            Some(known) if known.status == "Unknown" => {}
            Some(known) => {
                changed = true;
                known.status = "Unknown".to_owned();
                known.reason = Some("NodeStatusUnknown".to_owned());
                known.message = Some("Kubelet stopped posting node status.".to_owned());
                known.last_transition_time = Some(written(now));
            }
            None => {
                changed = true;
                conditions.push(NodeCondition {
                    type_: kind.to_owned(),
                    status: "Unknown".to_owned(),
                    reason: Some("NodeStatusNeverUpdated".to_owned()),
                    message: Some("Kubelet never posted node status.".to_owned()),
                    last_heartbeat_time: node.metadata.creation_timestamp.clone(),
                    last_transition_time: Some(written(now)),
                });
            }
        }
    }
    if changed {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let message = format!("Node {name} status is now: NodeNotReady");
        let note = Note::about(&Object::Node(node.clone()), Severity::Normal, "NodeNotReady", message);
        outcome.act(Action::from(Write::UpdateStatus(draft.into_object())).noting(note));
    }
}

/// Takes the pods of a node that is not ready out of service: their Ready condition becomes False until the node reports them again.
pub(super) fn mark_pods(node: &Node, index: &Index, now: Timestamp, outcome: &mut Outcome) {
    if ready(node) || readiness(node).is_none() {
        return;
    }
    for pod in index.pods_on(node.metadata.name.as_deref().unwrap_or_default()) {
        if !pods::ready(pod) || pods::finished(pod) {
            continue;
        }
        let mut conditions = pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        for condition in &mut conditions {
            if condition.type_ == "Ready" {
                condition.status = "False".to_owned();
                condition.reason = Some("NodeNotReady".to_owned());
                condition.last_transition_time = Some(written(now));
            }
        }
        outcome.act(patch_conditions(pod, &conditions));
    }
}

/// Replaces a pod's conditions at the version that they were read at.
fn patch_conditions(pod: &Pod, conditions: &[PodCondition]) -> Write {
    Write::Patch {
        target: key(pod),
        subresource: Some("status"),
        patch: serde_json::json!({
            "metadata": {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version},
            "status": {"conditions": conditions},
        }),
    }
}
