//! Everything that streams read, brought forward event by event.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde::de::DeserializeOwned;
use skep_proto::dataplane::v1::Kind;
use skep_proto::dataplane::v1::watch_event::Event;

use super::super::project::{Project, workload};
use super::journal::{Journal, Key, Moment, View};
use super::placement::{NodeChanges, Placement, pod_name};
use super::reference::{ObjectKind, ObjectName};
use crate::api::{Object, WatchEvent, WatchKind};

/// Resources that matter to nodes, as they are stored.
pub(super) const RESOURCES: [&str; 8] = [
    "configmaps",
    "endpointslices.discovery.k8s.io",
    "namespaces",
    "networkpolicies.networking.k8s.io",
    "nodes",
    "pods",
    "secrets",
    "services",
];

/// Whom a change concerns.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Touched {
    pub(in super::super) dataplane: bool,
    pub(in super::super) nodes: BTreeSet<String>,
}

/// The boards.
#[derive(Debug)]
pub(in super::super) struct Boards {
    head: u64,
    journal: Journal,
    placement: Placement<Object>,
}

impl Boards {
    /// Boards that know every change after `floor`.
    pub(super) fn new(floor: u64) -> Self {
        Self { head: floor, journal: Journal::new(floor), placement: Placement::new(floor) }
    }

    /// Everything up to this revision is in them.
    pub(in super::super) fn head(&self) -> u64 {
        self.head
    }

    /// The dataplane's objects.
    pub(in super::super) fn dataplane(&self) -> View {
        self.journal.view()
    }

    /// What a node has to be told. See [`Placement::changes`].
    pub(in super::super) fn node(&self, node: &str, after: Option<u64>) -> NodeChanges<Object> {
        self.placement.changes(node, after)
    }

    /// Says that every change up to `revision` has been applied.
    pub(super) fn advance(&mut self, revision: u64) {
        self.head = revision;
        self.journal.advance(revision);
    }

    /// Applies every change of one revision.
    pub(super) fn apply(&mut self, at: Moment, events: &[WatchEvent]) -> Touched {
        let mut touched = Touched::default();
        for WatchEvent { kind, object, previous } in events {
            let news = self.set(at, object, previous.as_ref(), *kind != WatchKind::Deleted);
            touched.dataplane |= news.dataplane;
            touched.nodes.extend(news.nodes);
        }
        self.advance(at.revision);
        touched
    }

    /// Applies a change of one object: it is `there` now, or it is gone.
    pub(super) fn set(&mut self, at: Moment, object: &Object, previous: Option<&Object>, there: bool) -> Touched {
        let mut touched = Touched::default();
        match object.resource().storage {
            "configmaps" => touched.nodes = self.set_object(at.revision, ObjectKind::ConfigMap, object, there),
            "secrets" => touched.nodes = self.set_object(at.revision, ObjectKind::Secret, object, there),
            "pods" => return self.set_pod(at, object, previous, there),
            "services" => touched.dataplane = self.project::<Service>(at, object, previous, there),
            "endpointslices.discovery.k8s.io" => {
                touched.dataplane = self.project::<EndpointSlice>(at, object, previous, there);
            }
            "networkpolicies.networking.k8s.io" => {
                touched.dataplane = self.project::<NetworkPolicy>(at, object, previous, there);
            }
            "namespaces" => touched.dataplane = self.project::<Namespace>(at, object, previous, there),
            "nodes" => touched.dataplane = self.project::<Node>(at, object, previous, there),
            _ => {}
        }
        touched
    }

    fn set_object(&mut self, revision: u64, kind: ObjectKind, object: &Object, there: bool) -> BTreeSet<String> {
        let (namespace, name) = (object.namespace().to_owned(), object.name().to_owned());
        let now = there.then(|| (super::uid(object), object.clone()));
        self.placement.set_object(revision, ObjectName { kind, namespace, name }, now).into_iter().collect()
    }

    fn set_pod(&mut self, at: Moment, object: &Object, previous: Option<&Object>, there: bool) -> Touched {
        let pod: Option<Pod> = decode(object, there);
        let before: Option<Pod> = previous.and_then(|previous| decode(previous, true));
        let quiet = matches!((&pod, &before), (Some(pod), Some(before)) if only_status_differs(pod, before));
        let name = pod_name(object.namespace(), object.name());
        let nodes = self.placement.set_pod(at.revision, &name, pod.as_ref().map(|pod| (pod, object.clone())), quiet);
        let now = pod.as_ref().and_then(workload);
        let dataplane = match before.as_ref().and_then(workload) {
            before if before.is_some() && before == now => false,
            _ => self.journal.set(at, key(Kind::Workload, object), now.map(Event::Workload)),
        };
        Touched { dataplane, nodes }
    }

    fn project<K: Project>(&mut self, at: Moment, object: &Object, previous: Option<&Object>, there: bool) -> bool {
        let project = |object, there| decode::<K>(object, there).as_ref().and_then(Project::project);
        let now = project(object, there);
        let before = previous.and_then(|previous| project(previous, true));
        // What changed means nothing to the dataplane.
        if before.is_some() && before == now {
            return false;
        }
        self.journal.set(at, key(K::KIND, object), now)
    }
}

fn key(kind: Kind, object: &Object) -> Key {
    Key { kind, namespace: object.namespace().to_owned(), name: object.name().to_owned() }
}

/// The typed object. One that is not of its type cannot come from the API; it is treated as if it were not there.
fn decode<K: DeserializeOwned>(object: &Object, there: bool) -> Option<K> {
    if !there {
        return None;
    }
    object.decode().inspect_err(|error| tracing::error!(%error, "an object is left out")).ok()
}

/// Whether a change is one that the pod's own node makes: nothing but the status, and what counts the writes.
fn only_status_differs(pod: &Pod, before: &Pod) -> bool {
    let (now, then) = (&pod.metadata, &before.metadata);
    pod.spec == before.spec
        && now.uid == then.uid
        && now.labels == then.labels
        && now.annotations == then.annotations
        && now.deletion_timestamp == then.deletion_timestamp
        && now.deletion_grace_period_seconds == then.deletion_grace_period_seconds
        && now.finalizers == then.finalizers
        && now.owner_references == then.owner_references
}
