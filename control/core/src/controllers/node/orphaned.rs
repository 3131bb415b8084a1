//! Pods that no node will ever finish: their node was removed, or they were deleted before they had one.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;

use crate::controllers::action::{Outcome, Propagation, Write};
use crate::controllers::engine::{Controller, Turn};
use crate::controllers::index::{Index, Touched, key, node_of};
use crate::controllers::kind::{Key, Kind};
use crate::controllers::object::{Object, Typed};
use crate::controllers::pods;

/// How long a node may be missing before its pods are removed: it may be about to register again.
const QUARANTINE: SignedDuration = SignedDuration::from_secs(40);

/// The pod garbage collector. Its keys are nodes, and pods without one.
#[derive(Debug)]
pub(in crate::controllers) struct PodCollector;

impl Controller for PodCollector {
    fn name(&self) -> &'static str {
        "pod-garbage-collector"
    }

    fn affected(&self, touched: &Touched, index: &Index) -> Vec<Key> {
        match (touched.key.kind, &touched.after) {
            (Kind::Node, None) => vec![touched.key.clone()],
            (Kind::Pod, Some(Object::Pod(pod))) => match node_of(pod) {
                None if pods::terminating(pod) => vec![touched.key.clone()],
                Some(node) if index.missing_since(node).is_some() => vec![Key::cluster(Kind::Node, node)],
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    fn reconcile(&self, key: &Key, index: &Index, turn: Turn) -> Outcome {
        let mut outcome = Outcome::idle();
        match key.kind {
            Kind::Node => {
                let Some(since) = index.missing_since(&key.name) else { return outcome };
                let left = QUARANTINE - turn.now.duration_since(since);
                if left.is_positive() {
                    outcome.again_after(left);
                } else {
                    index.pods_on(&key.name).for_each(|pod| outcome.act(removal(pod)));
                }
            }
            _ => {
                let pod = index.object(key).and_then(Pod::of);
                if let Some(pod) = pod.filter(|pod| node_of(pod).is_none() && pods::terminating(pod)) {
                    outcome.act(removal(pod));
                }
            }
        }
        outcome
    }
}

fn removal(pod: &Pod) -> Write {
    Write::Delete {
        target: key(pod),
        uid: pod.metadata.uid.clone().unwrap_or_default(),
        grace_seconds: Some(0),
        propagation: Propagation::Background,
    }
}
