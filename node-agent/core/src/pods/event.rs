//! Events about a pod, in the words that users of Kubernetes know and search for.

use jiff::SignedDuration;

use super::probe::{ProbeKind, ProbeOutcome};

/// Something that users see in `kubectl describe pod`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PodEvent {
    /// `Warning` instead of `Normal`.
    pub warning: bool,
    /// E.g. `BackOff`.
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// `spec.containers{name}`; empty for the pod as a whole.
    pub field_path: String,
}

impl PodEvent {
    /// Something that belongs to the normal course.
    pub(super) fn normal(reason: &'static str, message: String) -> Self {
        Self { warning: false, reason, message, field_path: String::new() }
    }

    /// Something that somebody may have to look at.
    pub(super) fn warning(reason: &'static str, message: String) -> Self {
        Self { warning: true, reason, message, field_path: String::new() }
    }

    /// The same about a container.
    pub(super) fn about(self, field_path: String) -> Self {
        Self { field_path, ..self }
    }
}

pub(super) fn pulling(image: &str) -> PodEvent {
    PodEvent::normal("Pulling", format!("Pulling image \"{image}\""))
}

pub(super) fn pulled(image: &str, took: SignedDuration, size: u64) -> PodEvent {
    let took = format!("{:.3}s", took.as_secs_f64());
    let message = format!(
        "Successfully pulled image \"{image}\" in {took} ({took} including waiting). Image size: {size} bytes."
    );
    PodEvent::normal("Pulled", message)
}

pub(super) fn already_present(image: &str) -> PodEvent {
    PodEvent::normal("Pulled", format!("Container image \"{image}\" already present on machine"))
}

pub(super) fn never_pull(image: &str) -> PodEvent {
    let message = format!("Container image \"{image}\" is not present with pull policy of Never");
    PodEvent::warning("ErrImageNeverPull", message)
}

pub(super) fn pull_failed(image: &str, error: &str) -> PodEvent {
    PodEvent::warning("Failed", format!("Failed to pull image \"{image}\": {error}"))
}

pub(super) fn pull_backoff(image: &str) -> PodEvent {
    PodEvent::normal("BackOff", format!("Back-off pulling image \"{image}\""))
}

pub(super) fn invalid_image(image: &str) -> PodEvent {
    let message = format!(
        "Failed to apply default image tag \"{image}\": couldn't parse image name \"{image}\": invalid reference format"
    );
    PodEvent::warning("InspectFailed", message)
}

pub(super) fn inspect_failed(image: &str, error: &str) -> PodEvent {
    PodEvent::warning("InspectFailed", format!("Failed to inspect image \"{image}\": {error}"))
}

pub(super) fn container_failed(error: &str) -> PodEvent {
    PodEvent::warning("Failed", format!("Error: {error}"))
}

pub(super) fn created(container: &str) -> PodEvent {
    PodEvent::normal("Created", format!("Created container: {container}"))
}

pub(super) fn started(container: &str) -> PodEvent {
    PodEvent::normal("Started", format!("Started container {container}"))
}

pub(super) fn killing(message: String) -> PodEvent {
    PodEvent::normal("Killing", message)
}

pub(super) fn restart_backoff(container: &str, pod: &str) -> PodEvent {
    PodEvent::warning("BackOff", format!("Back-off restarting failed container {container} in pod {pod}"))
}

pub(super) fn unhealthy(kind: ProbeKind, outcome: &ProbeOutcome) -> Option<PodEvent> {
    let message = match outcome {
        ProbeOutcome::Success => return None,
        ProbeOutcome::Failure(output) => format!("{kind} probe failed: {output}"),
        ProbeOutcome::Error(error) => format!("{kind} probe errored: {error}"),
    };
    Some(PodEvent::warning("Unhealthy", message))
}

pub(super) fn post_start_failed() -> PodEvent {
    PodEvent::warning("FailedPostStartHook", "PostStartHook failed".to_owned())
}

pub(super) fn pre_stop_failed() -> PodEvent {
    PodEvent::warning("FailedPreStopHook", "PreStopHook failed".to_owned())
}

pub(super) fn mount_failed(error: &super::volume::VolumeError) -> PodEvent {
    PodEvent::warning("FailedMount", error.to_string())
}

pub(super) fn sandbox_failed(error: &str) -> PodEvent {
    PodEvent::warning("FailedCreatePodSandBox", format!("Failed to create pod sandbox: {error}"))
}

pub(super) fn sandbox_changed() -> PodEvent {
    PodEvent::normal("SandboxChanged", "Pod sandbox changed, it will be killed and re-created.".to_owned())
}

pub(super) fn kill_failed(error: &str) -> PodEvent {
    PodEvent::warning("FailedKillPod", format!("error killing pod: {error}"))
}

pub(super) fn deadline_exceeded() -> PodEvent {
    let message = "Pod was active on the node longer than the specified deadline".to_owned();
    PodEvent::normal("DeadlineExceeded", message)
}
