//! The scheduler: which node a pod runs on. A snapshot in, a decision out.
//!
//! ```text
//!   pod without a node -> queue (priority, then arrival) -> filters: which nodes could -> scores: which of them should -> bind
//!                          ^                                   | none
//!                          +-- something relevant changed, or a minute passed -- unschedulable, with the reason of each node
//! ```
//!
//! The snapshot is kept up by changes, so that a decision costs a look at every node and at no pod.

mod affinity;
mod filters;
mod queue;
mod resources;
mod scores;
mod snapshot;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};

pub use self::filters::Reason;
pub(crate) use self::filters::tolerates;
use self::queue::Queue;
use self::snapshot::{Demand, Snapshot};
use self::verdict::message;
use crate::controllers::naming::mix;
use crate::controllers::pods::{condition, finished, terminating};
use crate::controllers::{Action, Index, Key, Kind, Note, Object, Severity, Touched, Typed, Write, node_of};

/// Name under which the scheduler writes, and by which pods ask for it.
pub const NAME: &str = "default-scheduler";

/// A decision about one pod.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The pod.
    pub pod: Key,
    /// Its UID.
    pub uid: String,
    /// Node that it goes to; `None` when none would do.
    pub node: Option<String>,
    /// What to write.
    pub actions: Vec<Action>,
}

/// Scheduler state: the snapshot and the pods that wait.
#[derive(Debug, Default)]
pub struct Scheduler {
    snapshot: Snapshot,
    queue: Queue,
}

impl Scheduler {
    /// Folds one change in.
    pub fn observe(&mut self, touched: &Touched, index: &Index, now: Timestamp) {
        match touched.key.kind {
            Kind::Node if self.snapshot.set_node(&touched.key.name, touched.now()) => self.queue.wake(now),
            Kind::Service => {
                if let Some(service) = touched.now() {
                    self.snapshot.spread_service(&touched.key.namespace, service);
                }
            }
            Kind::Pod => self.observe_pod(&touched.key, touched.now::<Pod>(), index, now),
            _ => {}
        }
    }

    fn observe_pod(&mut self, key: &Key, pod: Option<&Arc<Pod>>, index: &Index, now: Timestamp) {
        let living = pod.filter(|pod| !finished(pod));
        match living.map(|pod| (pod, node_of(pod))) {
            Some((pod, Some(node))) => {
                self.queue.remove(key);
                self.snapshot.place(key, node, Demand::of(pod, index));
            }
            Some((pod, None)) if waits(pod) => self.queue.observe(key, pod, now),
            _ => {
                self.queue.remove(key);
                if self.snapshot.remove(key) {
                    self.queue.wake(now);
                }
            }
        }
    }

    /// Decides on the next pod that waits, if there is one.
    pub fn decide(&mut self, index: &Index, now: Timestamp, seed: u64) -> Option<Decision> {
        while let Some(key) = self.queue.pop(now) {
            let Some(pod) = index.object(&key).and_then(Pod::of).filter(|pod| waits(pod)) else {
                self.queue.remove(&key);
                continue;
            };
            let uid = pod.metadata.uid.clone().unwrap_or_default();
            let demand = Demand::of(pod, index);
            let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
            let mut feasible = Vec::new();
            for node in self.snapshot.nodes() {
                let refused = filters::run(&demand, node);
                if refused.is_empty() {
                    feasible.push(node);
                }
                for reason in refused {
                    *reasons.entry(reason.to_string()).or_default() += 1;
                }
            }
            let node = scores::best(&demand, &feasible, mix(seed)).map(str::to_owned);
            let actions = match &node {
                Some(node) => {
                    self.snapshot.place(&key, node, demand);
                    vec![bind(pod, &key, &uid, node)]
                }
                None => {
                    self.queue.set_aside(&key, now);
                    refuse(pod, &key, message(self.snapshot.nodes().count(), &reasons), now)
                }
            };
            return Some(Decision { pod: key, uid, node, actions });
        }
        None
    }

    /// Learns how the writes of a decision went. A binding that failed gives the place back, and the pod waits again.
    pub fn finish(&mut self, pod: &Key, uid: &str, done: bool, now: Timestamp) {
        if !done && self.queue.is_decided(pod, uid) {
            self.snapshot.remove(pod);
            self.queue.back_off(pod, now);
        }
    }

    /// When a pod will be looked at though nothing happens.
    #[must_use]
    pub fn deadline(&self) -> Option<Timestamp> {
        self.queue.deadline()
    }
}

/// Whether a pod waits for this scheduler.
fn waits(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let ours = spec.scheduler_name.as_deref().is_none_or(|name| name.is_empty() || name == NAME);
    let gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
    ours && !gated && !terminating(pod) && !finished(pod) && node_of(pod).is_none()
}

fn bind(pod: &Arc<Pod>, key: &Key, uid: &str, node: &str) -> Action {
    let message = format!("Successfully assigned {}/{} to {node}", key.namespace, key.name);
    let note = Note::about(&Object::Pod(pod.clone()), Severity::Normal, "Scheduled", message);
    Action::from(Write::Bind { pod: key.clone(), uid: uid.to_owned(), node: node.to_owned() }).noting(note)
}

/// Tells in the pod's conditions and in an Event why no node would do.
fn refuse(pod: &Arc<Pod>, key: &Key, message: String, now: Timestamp) -> Vec<Action> {
    let note = Note::about(&Object::Pod(pod.clone()), Severity::Warning, "FailedScheduling", message.clone());
    let known = condition(pod, "PodScheduled");
    let same = |known: &PodCondition| {
        known.status == "False"
            && known.reason.as_deref() == Some("Unschedulable")
            && known.message.as_deref() == Some(message.as_str())
    };
    if known.is_some_and(same) {
        return vec![note.into()];
    }
    let since = known.filter(|known| known.status == "False").and_then(|known| known.last_transition_time.clone());
    let mut conditions = pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    conditions.retain(|condition| condition.type_ != "PodScheduled");
    conditions.push(PodCondition {
        type_: "PodScheduled".to_owned(),
        status: "False".to_owned(),
        reason: Some("Unschedulable".to_owned()),
        message: Some(message),
        last_transition_time: Some(since.unwrap_or_else(|| crate::controllers::time::written(now))),
        ..PodCondition::default()
    });
    let patch = Write::Patch {
        target: key.clone(),
        subresource: Some("status"),
        patch: serde_json::json!({
            "metadata": {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version},
            "status": {"conditions": conditions},
        }),
    };
    vec![Action::from(patch).noting(note)]
}
