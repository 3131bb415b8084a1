//! What one pod of this node needs, decided without any I/O.
//!
//! [`Machine`] is the whole of it: inputs (the pod's object, what the runtime holds, results of commands, the time) go in,
//! [`Command`]s and the moment of the next look come out. The rest are its parts: conversions from the pod's spec to
//! what a CRI runtime is asked for ([`SandboxConfig`], [`ContainerConfig`], [`VolumePlan`]) and back to the
//! [status](k8s_openapi::api::core::v1::PodStatus) that users see.

pub mod backoff;
pub mod check;
pub mod command;
mod conditions;
pub mod config;
pub mod container;
pub mod env;
mod event;
pub mod fields;
pub mod image;
pub mod invalid;
pub mod log_line;
mod machine;
pub mod node;
pub mod objects;
pub mod observed;
pub mod probe;
pub mod qos;
pub mod quantity;
pub mod sandbox;
mod security;
mod status;
pub mod volume;

use k8s_openapi::api::core::v1::{Pod, PodSpec};

pub use command::{Command, Done, HookKind, Input, Report, Reread, Step};
pub use config::{ContainerConfig, Dns, SandboxConfig};
pub use event::PodEvent;
pub use machine::Machine;
pub use node::NodeFacts;
pub use objects::{Objects, References};
pub use observed::{ContainerState, Exit, Observed, ObservedContainer, ObservedSandbox};
pub use volume::VolumePlan;

/// Seconds that a pod's containers get to end by themselves, when the spec does not say.
const DEFAULT_GRACE_SECONDS: i64 = 30;

/// `terminationGracePeriodSeconds`.
#[must_use]
pub fn grace_seconds(spec: &PodSpec) -> i64 {
    spec.termination_grace_period_seconds.unwrap_or(DEFAULT_GRACE_SECONDS)
}

/// `name_namespace(uid)`: how messages name a pod.
#[must_use]
pub fn identity(pod: &Pod) -> String {
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    let metadata = &pod.metadata;
    format!("{}_{}({})", part(&metadata.name), part(&metadata.namespace), part(&metadata.uid))
}
