//! One pass over a Deployment: what is known, and the writes collected so far.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStatus, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use super::rolling::Bounds;
use super::{history, progress, template};
use crate::controllers::action::{Action, Note, Outcome, Severity, Write};
use crate::controllers::engine::Turn;
use crate::controllers::index::key;
use crate::controllers::kind::Kind;
use crate::controllers::object::{Object, Typed};
use crate::controllers::owner::controller_reference;

/// A set as this pass wants it to be.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// As the index shows it.
    pub(super) set: Arc<ReplicaSet>,
    /// With the annotations that it should have.
    draft: ReplicaSet,
    /// `spec.replicas` after this pass.
    pub(super) replicas: i32,
}

impl Member {
    pub(super) fn new(set: Arc<ReplicaSet>) -> Self {
        Self { draft: set.as_ref().clone(), replicas: size(&set), set }
    }

    /// Available pods that will stay: a status may still count those that the set is about to let go of.
    pub(super) fn available(&self) -> i32 {
        let status = self.set.status.as_ref();
        status.and_then(|status| status.available_replicas).unwrap_or_default().min(self.replicas)
    }

    /// Pods that the set may have now; `None` when it was resized and has not said since how many it has.
    pub(super) fn most_pods(&self) -> Option<i32> {
        let status = self.set.status.as_ref();
        let observed = status.and_then(|status| status.observed_generation).unwrap_or_default();
        let generation = self.set.metadata.generation.unwrap_or_default();
        let settled = generation <= 1 || observed >= generation;
        settled.then(|| status.map_or(0, |status| status.replicas).max(self.replicas))
    }

    /// Notes the Deployment's size on the set, from which later scaling takes its proportions.
    pub(super) fn note_sizes(&mut self, desired: i32, most: i32) {
        history::note_sizes(&mut self.draft.metadata, desired, most);
    }
}

/// `spec.replicas` of a set.
pub(super) fn size(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// State of one pass.
pub(super) struct Plan<'a> {
    pub(super) deployment: &'a Arc<Deployment>,
    pub(super) spec: &'a DeploymentSpec,
    pub(super) turn: Turn,
    /// Sets of other revisions, oldest first.
    pub(super) old: Vec<Member>,
    /// The set of the current template.
    pub(super) current: Option<Member>,
    pub(super) bounds: Bounds,
    /// Conditions as they will be written; passes over `status` alone finish them.
    pub(super) status: DeploymentStatus,
    pub(super) outcome: Outcome,
}

impl<'a> Plan<'a> {
    pub(super) fn new(
        deployment: &'a Arc<Deployment>,
        spec: &'a DeploymentSpec,
        sets: Vec<Arc<ReplicaSet>>,
        turn: Turn,
    ) -> Self {
        // Of several sets with the same template (hash collisions, adoption) the oldest is the current one.
        let position = sets.iter().position(|set| template::same(set, &spec.template));
        let mut old: Vec<Member> = sets.into_iter().map(Member::new).collect();
        let current = position.map(|position| old.remove(position));
        Self {
            deployment,
            spec,
            turn,
            old,
            current,
            bounds: Bounds::of(spec),
            status: deployment.status.clone().unwrap_or_default(),
            outcome: Outcome::idle(),
        }
    }

    /// Replicas that the Deployment asks for.
    pub(super) fn wanted(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    pub(super) fn old_sets(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.old.iter().map(|member| &member.set)
    }

    pub(super) fn members(&self) -> impl Iterator<Item = &Member> {
        self.old.iter().chain(self.current.iter())
    }

    /// Pods asked for over all revisions.
    pub(super) fn total(&self) -> i32 {
        self.members().map(|member| member.replicas).sum()
    }

    pub(super) fn note(&self, reason: &'static str, message: String) -> Note {
        Note::about(&Object::Deployment(self.deployment.clone()), Severity::Normal, reason, message)
    }

    /// Name of the current set for messages.
    pub(super) fn subject(&self) -> String {
        match &self.current {
            Some(member) => format!("ReplicaSet \"{}\"", member.set.metadata.name.as_deref().unwrap_or_default()),
            None => format!("Deployment \"{}\"", self.deployment.metadata.name.as_deref().unwrap_or_default()),
        }
    }

    /// Makes sure that the current template has its set with the right annotations; `false` when it had to be created, or the
    /// Deployment is waiting for such a write to be seen.
    pub(super) fn ensure_current(&mut self) -> bool {
        if self.current.is_some() {
            self.annotate_current();
            if progress::condition(&self.status, progress::PROGRESSING).is_none()
                && progress::deadline(self.spec).is_some()
            {
                let message = format!("Found new replica set \"{}\"", self.current_name());
                progress::set(
                    &mut self.status,
                    progress::PROGRESSING,
                    "True",
                    "FoundNewReplicaSet",
                    message,
                    self.turn.now,
                );
            }
            return true;
        }
        let set = self.new_set();
        let name = set.metadata.name.clone().unwrap_or_default();
        let size = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or_default();
        let revision = history::annotation(&set.metadata, history::REVISION).unwrap_or_default().to_owned();
        let mut create = Action::from(Write::Create(set.into_object()));
        if size > 0 {
            let message = format!("Scaled up replica set {name} from 0 to {size}");
            create = create.noting(self.note("ScalingReplicaSet", message));
        }
        let failed = self.note("ReplicaSetCreateError", format!("Failed to create new replica set \"{name}\""));
        self.outcome.act(create.or_noting(Note { severity: Severity::Warning, ..failed }));
        self.annotate_deployment(&revision);
        if progress::deadline(self.spec).is_some() {
            let message = format!("Created new replica set \"{name}\"");
            progress::set(
                &mut self.status,
                progress::PROGRESSING,
                "True",
                "NewReplicaSetCreated",
                message,
                self.turn.now,
            );
        }
        false
    }

    fn current_name(&self) -> String {
        self.current.as_ref().and_then(|member| member.set.metadata.name.clone()).unwrap_or_default()
    }

    fn new_set(&self) -> ReplicaSet {
        let hash = template::hash(&self.spec.template, self.status.collision_count);
        let mut template = self.spec.template.clone();
        let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
        labels.insert(template::HASH_LABEL.to_owned(), hash.clone());
        let labels = labels.clone();
        let mut selector: LabelSelector = self.spec.selector.clone();
        selector.match_labels.get_or_insert_default().insert(template::HASH_LABEL.to_owned(), hash.clone());
        let deployment = &self.deployment.metadata;
        let mut metadata = ObjectMeta {
            name: Some(format!("{}-{hash}", deployment.name.as_deref().unwrap_or_default())),
            namespace: deployment.namespace.clone(),
            labels: Some(labels),
            owner_references: Some(vec![controller_reference(Kind::Deployment, deployment)]),
            ..ObjectMeta::default()
        };
        let revision = history::newest(self.old_sets()) + 1;
        history::annotate(&mut metadata, deployment, revision, self.wanted(), self.bounds.ceiling(self.wanted()));
        ReplicaSet {
            metadata,
            spec: Some(ReplicaSetSpec {
                replicas: Some(self.initial_size()),
                min_ready_seconds: self.spec.min_ready_seconds,
                selector,
                template: Some(template),
            }),
            status: None,
        }
    }

    /// Copies revision, annotations and minReadySeconds to the current set, and its revision to the Deployment.
    pub(super) fn annotate_current(&mut self) {
        let newest = history::newest(self.old_sets());
        let (wanted, ceiling) = (self.wanted(), self.bounds.ceiling(self.wanted()));
        let Some(member) = &mut self.current else { return };
        let revision = (newest + 1).max(history::revision(&member.set));
        let (desired, most) = history::sizes(&member.set).unwrap_or((wanted, ceiling));
        history::annotate(&mut member.draft.metadata, &self.deployment.metadata, revision, desired, most);
        if let Some(spec) = &mut member.draft.spec
            && spec.min_ready_seconds.unwrap_or_default() != self.spec.min_ready_seconds.unwrap_or_default()
        {
            spec.min_ready_seconds = self.spec.min_ready_seconds;
        }
        self.annotate_deployment(&revision.to_string());
    }

    fn annotate_deployment(&mut self, revision: &str) {
        let metadata = &self.deployment.metadata;
        if history::annotation(metadata, history::REVISION) != Some(revision) {
            self.outcome.act(Write::Patch {
                target: key(self.deployment.as_ref()),
                subresource: None,
                patch: serde_json::json!({"metadata": {
                    "uid": metadata.uid,
                    "annotations": {history::REVISION: revision},
                }}),
            });
        }
    }

    /// Turns the wanted sizes into writes and gives everything that this pass asks for.
    pub(super) fn finish(mut self, mut outcome: Outcome) -> Outcome {
        let (wanted, ceiling) = (self.wanted(), self.bounds.ceiling(self.wanted()));
        let mut writes = Vec::new();
        for member in self.old.iter().chain(self.current.iter()) {
            let (from, to) = (size(&member.set), member.replicas);
            let mut draft = member.draft.clone();
            if from != to {
                history::note_sizes(&mut draft.metadata, wanted, ceiling);
                if let Some(spec) = &mut draft.spec {
                    spec.replicas = Some(to);
                }
            }
            if draft == *member.set {
                continue;
            }
            let mut action = Action::from(Write::Update(draft.into_object()));
            if from != to {
                let direction = if to > from { "up" } else { "down" };
                let name = member.set.metadata.name.as_deref().unwrap_or_default();
                let message = format!("Scaled {direction} replica set {name} from {from} to {to}");
                action = action.noting(self.note("ScalingReplicaSet", message));
            }
            writes.push(action);
        }
        outcome.actions.append(&mut writes);
        outcome.actions.append(&mut self.outcome.actions);
        if let Some(wait) = self.outcome.requeue_after {
            outcome.again_after(wait);
        }
        outcome
    }
}
