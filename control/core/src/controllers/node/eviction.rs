//! Eviction by `NoExecute` taints: a pod goes when the shortest of its tolerations has run out.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};

use super::taints::{NOT_READY, UNREACHABLE};
use crate::controllers::action::{Action, Note, Outcome, Severity, Write};
use crate::controllers::index::{Index, key};
use crate::controllers::object::Object;
use crate::controllers::pods;
use crate::scheduler::tolerates;

/// Whether a node's taints evict pods, or its state takes them out of service.
pub(super) fn concerns(node: &Node) -> bool {
    !super::health::ready(node) || no_execute(node).next().is_some()
}

fn no_execute(node: &Node) -> impl Iterator<Item = &Taint> {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.filter(|taint| taint.effect == "NoExecute")
}

/// How long a pod may stay on a tainted node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stay {
    Forever,
    Until(Timestamp),
}

/// Deletes the pods of a node whose time is up, and comes back for the next.
pub(super) fn evict(node: &Node, index: &Index, longest: SignedDuration, now: Timestamp, outcome: &mut Outcome) {
    let taints: Vec<&Taint> = no_execute(node).collect();
    if taints.is_empty() {
        return;
    }
    for pod in index.pods_on(node.metadata.name.as_deref().unwrap_or_default()) {
        if !pods::active(pod) {
            continue;
        }
        match stay(pod, &taints, longest, now) {
            Stay::Until(at) if at <= now => outcome.act(deletion(pod)),
            Stay::Until(at) => outcome.again_after(at.duration_since(now)),
            Stay::Forever => {}
        }
    }
}

fn deletion(pod: &Arc<Pod>) -> Action {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let message = format!("Marking for deletion Pod {namespace}/{name}");
    let note = Note::about(&Object::Pod(pod.clone()), Severity::Normal, "TaintManagerEviction", message);
    Action::from(Write::delete(key(pod.as_ref()), pod.metadata.uid.clone().unwrap_or_default())).noting(note)
}

/// Judges one pod. For the two taints of lost nodes the wait is at most `longest`, and exactly that without a toleration
/// (which admission otherwise adds); for others, no toleration means at once.
pub(super) fn stay(pod: &Pod, taints: &[&Taint], longest: SignedDuration, now: Timestamp) -> Stay {
    let tolerations: &[Toleration] = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
    let mut stay = Stay::Forever;
    for taint in taints {
        let since = taint.time_added.as_ref().map_or(now, |time| time.0);
        let lost = taint.key == NOT_READY || taint.key == UNREACHABLE;
        let matching = tolerations.iter().filter(|toleration| tolerates(toleration, taint));
        let waits: Vec<Option<i64>> = matching.map(|toleration| toleration.toleration_seconds).collect();
        let wait = match waits.iter().flatten().min() {
            _ if waits.is_empty() && lost => longest,
            _ if waits.is_empty() => SignedDuration::ZERO,
            // Tolerated without a limit.
            None => continue,
            Some(seconds) => {
                let seconds = SignedDuration::from_secs((*seconds).max(0));
                if lost { seconds.min(longest) } else { seconds }
            }
        };
        let until = since.saturating_add(wait).unwrap_or(Timestamp::MAX);
        stay = match stay {
            Stay::Until(known) if known <= until => stay,
            _ => Stay::Until(until),
        };
    }
    stay
}
