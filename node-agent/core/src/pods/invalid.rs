//! Why a container or a volume cannot be made as its pod says.

use super::quantity::InvalidQuantity;

/// A container's or volume's settings cannot be carried out; the text is what users read in the pod's status.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// The ConfigMap is not there.
    #[error("configmap \"{0}\" not found")]
    ConfigMapNotFound(String),
    /// The Secret is not there.
    #[error("secret \"{0}\" not found")]
    SecretNotFound(String),
    /// The object has no such key.
    #[error("couldn't find key {key} in {kind} {namespace}/{name}")]
    KeyNotFound {
        /// `ConfigMap` or `Secret`.
        kind: &'static str,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// What was looked for.
        key: String,
    },
    /// A volume names a key that the object does not have.
    #[error("references non-existent {kind} key: {key}")]
    VolumeKeyNotFound {
        /// `config` or `secret`.
        kind: &'static str,
        /// What was looked for.
        key: String,
    },
    /// A Secret's value is not text, and an environment variable has to be.
    #[error("the value of key {key} in {name} is not UTF-8 text")]
    NotText {
        /// The object's name.
        name: String,
        /// Its key.
        key: String,
    },
    /// A `fieldRef` outside the downward API.
    #[error("unsupported fieldPath: {0}")]
    UnsupportedField(String),
    /// A `resourceFieldRef` that is not of CPU or memory.
    #[error("unsupported container resource: {0}")]
    UnsupportedResource(String),
    /// A `resourceFieldRef` to a container that the pod does not have.
    #[error("container {0} not found")]
    UnknownContainer(String),
    /// A quantity cannot be read.
    #[error(transparent)]
    Quantity(#[from] InvalidQuantity),
    /// A mount of a volume that the pod does not have.
    #[error("cannot find volume \"{volume}\" to mount into container \"{container}\"")]
    UnknownVolume {
        /// `volumeMounts[].name`.
        volume: String,
        /// The container.
        container: String,
    },
    /// A path that would lead out of its volume.
    #[error("path {0:?} must be relative and not contain '..'")]
    EscapingPath(String),
    /// A kind of volume that this node cannot provide.
    #[error("volume source {0} is not supported by this node")]
    UnsupportedVolume(&'static str),
    /// `runAsNonRoot` with user 0.
    #[error("container's runAsUser breaks non-root policy (pod: \"{pod}\", container: {container})")]
    RunsAsRoot {
        /// `name_namespace(uid)` of the pod.
        pod: String,
        /// The container.
        container: String,
    },
    /// `runAsNonRoot`, and the image says root, or nothing.
    #[error("container has runAsNonRoot and image will run as root (pod: \"{pod}\", container: {container})")]
    ImageRunsAsRoot {
        /// `name_namespace(uid)` of the pod.
        pod: String,
        /// The container.
        container: String,
    },
    /// `runAsNonRoot`, and the image names its user by a name.
    #[error(
        "container has runAsNonRoot and image has non-numeric user ({user}), cannot verify user is non-root (pod: \"{pod}\", container: {container})"
    )]
    ImageUserUnknown {
        /// The image's user.
        user: String,
        /// `name_namespace(uid)` of the pod.
        pod: String,
        /// The container.
        container: String,
    },
    /// A probe or hook names a port that the container does not have, or one out of range.
    #[error("port {0:?} is not a port of the container")]
    UnknownPort(String),
}
