//! What a reconciliation asks for: typed writes, and the Events that tell users about them.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::ObjectReference;

use super::kind::Key;
use super::object::Object;

/// How the dependents of a deleted object are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// The object goes at once, dependents follow.
    Background,
    /// Dependents go first.
    Foreground,
    /// Dependents stay and lose their owner reference.
    Orphan,
}

impl Propagation {
    /// Name in `DeleteOptions`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

/// One write through the API.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Creates an object whose name is already chosen.
    Create(Object),
    /// Replaces an object at the resource version that it carries.
    Update(Object),
    /// Replaces an object's status at the resource version that it carries.
    UpdateStatus(Object),
    /// Applies a JSON merge patch; `metadata.uid` and `metadata.resourceVersion` in it are preconditions.
    Patch {
        /// Object to patch.
        target: Key,
        /// Subresource, such as `status`.
        subresource: Option<&'static str>,
        /// The merge patch (RFC 7386).
        patch: serde_json::Value,
    },
    /// Deletes an object.
    Delete {
        /// Object to delete.
        target: Key,
        /// UID that it must have.
        uid: String,
        /// Grace period; `None` is the object's own, 0 removes it at once.
        grace_seconds: Option<i64>,
        /// What happens to dependents.
        propagation: Propagation,
    },
    /// Assigns a pod to a node.
    Bind {
        /// The pod.
        pod: Key,
        /// UID that it must have.
        uid: String,
        /// Node name.
        node: String,
    },
    /// Replaces a namespace's `spec.finalizers` at the resource version that it carries.
    Finalize(Object),
    /// Writes nothing: the action is its Event.
    Nothing,
}

impl Write {
    /// Plain deletion with the object's own grace period.
    pub fn delete(target: Key, uid: impl Into<String>) -> Self {
        Self::Delete { target, uid: uid.into(), grace_seconds: None, propagation: Propagation::Background }
    }

    /// Name of the write for logs.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Create(_) => "create",
            Self::Update(_) => "update",
            Self::UpdateStatus(_) => "update status of",
            Self::Patch { .. } => "patch",
            Self::Delete { .. } => "delete",
            Self::Bind { .. } => "bind",
            Self::Finalize(_) => "finalize",
            Self::Nothing => "note",
        }
    }

    /// Object that is written.
    #[must_use]
    pub fn target(&self) -> Option<Key> {
        match self {
            Self::Create(object) | Self::Update(object) | Self::UpdateStatus(object) | Self::Finalize(object) => {
                Some(object.key())
            }
            Self::Patch { target, .. } | Self::Delete { target, .. } => Some(target.clone()),
            Self::Bind { pod, .. } => Some(pod.clone()),
            Self::Nothing => None,
        }
    }
}

/// Severity of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// Expected.
    Normal,
    /// Something that a user may have to act on.
    Warning,
}

impl Severity {
    /// Value of an Event's `type`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// An Event to record about an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// Object that the Event is about.
    pub regarding: ObjectReference,
    /// Severity.
    pub severity: Severity,
    /// Machine-readable reason, CamelCase.
    pub reason: &'static str,
    /// Sentence for people.
    pub message: String,
}

impl Note {
    /// An Event about an object.
    #[must_use]
    pub fn about(object: &Object, severity: Severity, reason: &'static str, message: String) -> Self {
        Self { regarding: reference_to(object), severity, reason, message }
    }
}

/// An object reference with version and UID.
#[must_use]
pub fn reference_to(object: &Object) -> ObjectReference {
    let metadata = object.metadata();
    ObjectReference {
        api_version: Some(object.kind().api_version()),
        kind: Some(object.kind().name().to_owned()),
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        resource_version: metadata.resource_version.clone(),
        uid: metadata.uid.clone(),
        field_path: None,
    }
}

/// A write and the Events that go with its fate.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// The write.
    pub write: Write,
    /// Recorded once the write succeeded.
    pub done: Option<Note>,
    /// Recorded when the write was refused; the error follows its message after `: `.
    pub failed: Option<Note>,
}

impl From<Write> for Action {
    fn from(write: Write) -> Self {
        Self { write, done: None, failed: None }
    }
}

impl From<Note> for Action {
    fn from(note: Note) -> Self {
        Self { write: Write::Nothing, done: Some(note), failed: None }
    }
}

impl Action {
    /// Adds the Event that is recorded on success.
    #[must_use]
    pub fn noting(mut self, note: Note) -> Self {
        self.done = Some(note);
        self
    }

    /// Adds the Event that is recorded on refusal.
    #[must_use]
    pub fn or_noting(mut self, note: Note) -> Self {
        self.failed = Some(note);
        self
    }
}

/// Result of one reconciliation. Actions are executed in order; the first failure ends the pass and the key comes back with back-off.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// What to do.
    pub actions: Vec<Action>,
    /// When to look again though nothing changed.
    pub requeue_after: Option<SignedDuration>,
}

impl Outcome {
    /// Nothing to do.
    #[must_use]
    pub fn idle() -> Self {
        Self::default()
    }

    /// Adds an action.
    pub fn act(&mut self, action: impl Into<Action>) {
        self.actions.push(action.into());
    }

    /// Looks again after at most this long.
    pub fn again_after(&mut self, wait: SignedDuration) {
        let wait = wait.max(SignedDuration::from_millis(1));
        self.requeue_after = Some(self.requeue_after.map_or(wait, |known| known.min(wait)));
    }
}
