//! Nodes that come and go: health, taints, eviction of pods, and pods whose node does not exist any more.
//!
//! ```text
//!   Ready=True --(no lease or status within the grace)--> Ready=Unknown + unreachable taints, its pods Ready=False
//!        ^                                                     |
//!        |                                                     +--(toleration runs out)--> its pods are deleted
//!        +--(heartbeat)-- taints removed                           (they stay Terminating until the node is back or removed)
//! ```

mod eviction;
mod health;
mod orphaned;
mod taints;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Node, Pod};

pub(crate) use health::ready;
pub(super) use orphaned::PodCollector;
pub(crate) use taints::{NOT_READY, UNREACHABLE};

use super::Settings;
use super::action::Outcome;
use super::engine::{Controller, Turn};
use super::heartbeat::LEASE_NAMESPACE;
use super::index::{Index, Touched, node_of};
use super::kind::{Key, Kind};

/// The node lifecycle controller.
#[derive(Debug)]
pub(super) struct Lifecycle {
    grace: SignedDuration,
    eviction: SignedDuration,
}

impl Lifecycle {
    pub(super) fn new(settings: &Settings) -> Self {
        Self { grace: settings.node_monitor_grace, eviction: settings.node_eviction }
    }
}

impl Controller for Lifecycle {
    fn name(&self) -> &'static str {
        "node-controller"
    }

    fn affected(&self, touched: &Touched, index: &Index) -> Vec<Key> {
        let node = |name: &str| Key::cluster(Kind::Node, name);
        match touched.key.kind {
            Kind::Node => {
                let before = touched.before.as_ref().and_then(<Node as super::Typed>::of);
                let was = before.is_some_and(|node| health::ready(node));
                let is = touched.now::<Node>().is_some_and(|node| health::ready(node));
                if was == is {
                    return vec![touched.key.clone()];
                }
                // Whether anything is evicted depends on whether any node is well.
                index.keys(Kind::Node).cloned().chain([touched.key.clone()]).collect()
            }
            Kind::Lease if touched.key.namespace == LEASE_NAMESPACE => {
                // A renewal matters to a node that was given up; the deadline of a healthy one moves by itself.
                let known = index.get::<Node>("", &touched.key.name);
                known.filter(|known| !health::ready(known)).map(|_| node(&touched.key.name)).into_iter().collect()
            }
            Kind::Pod => {
                let pod = touched.now::<Pod>().and_then(|pod| node_of(pod));
                pod.filter(|name| index.get::<Node>("", name).is_some_and(|node| eviction::concerns(node)))
                    .map(node)
                    .into_iter()
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    fn reconcile(&self, key: &Key, index: &Index, turn: Turn) -> Outcome {
        let mut outcome = Outcome::idle();
        let Some(node) = index.get::<Node>("", &key.name) else { return outcome };
        if node.metadata.deletion_timestamp.is_some() {
            return outcome;
        }
        let node: Arc<Node> = node.clone();
        let heard = index.heartbeats().heard(&key.name).unwrap_or(turn.now);
        let silence = turn.now.duration_since(heard);
        if silence >= self.grace {
            health::mark_unknown(&node, turn.now, &mut outcome);
        } else {
            outcome.again_after(self.grace - silence);
        }
        if !outcome.actions.is_empty() {
            // Taints follow from the conditions as the API shows them.
            return outcome;
        }
        taints::update(&node, index, turn.now, &mut outcome);
        health::mark_pods(&node, index, turn.now, &mut outcome);
        eviction::evict(&node, index, self.eviction, turn.now, &mut outcome);
        outcome
    }
}
