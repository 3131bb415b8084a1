//! What goes into a pod's machine and what comes out of it.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, PodStatus, Secret};

use super::check::Check;
use super::config::{ContainerConfig, SandboxConfig};
use super::event::PodEvent;
use super::image::ImageInfo;
use super::observed::Observed;
use super::probe::{ProbeKind, ProbeOutcome};
use super::volume::VolumePlan;

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// The pod's object changed.
    Pod(Arc<Pod>),
    /// The pod's object is not there any more.
    Gone,
    /// A ConfigMap of its namespace changed, or is not there any more.
    ConfigMap(String, Option<Arc<ConfigMap>>),
    /// A Secret of its namespace changed, or is not there any more.
    Secret(String, Option<Arc<Secret>>),
    /// What the runtime holds.
    Observed(Observed),
    /// A command was carried out.
    Done(Done, Reread),
    /// The time that was asked for has come.
    Tick,
}

/// What the runtime holds after a command.
#[derive(Clone, Debug)]
pub enum Reread {
    /// The command changed nothing in the runtime.
    Unneeded,
    /// This.
    Holds(Observed),
    /// It could not be asked: nothing is decided on older knowledge.
    Failed,
}

/// How a command ended; errors are texts for people.
#[derive(Clone, Debug)]
pub enum Done {
    /// [`Command::WriteVolumes`]; the error names the volume.
    VolumesWritten(Result<(), (String, String)>),
    /// [`Command::CreateSandbox`].
    SandboxCreated(Result<(), String>),
    /// [`Command::StopSandbox`] of this id.
    SandboxStopped(String, Result<(), String>),
    /// [`Command::RemoveSandbox`] of this id.
    SandboxRemoved(String, Result<(), String>),
    /// [`Command::CheckImage`] for this container; `None`: the runtime does not have it.
    ImageChecked(String, Result<Option<ImageInfo>, String>),
    /// [`Command::PullImage`] for this container, and how long it took.
    ImagePulled(String, Result<(ImageInfo, SignedDuration), String>),
    /// [`Command::CreateContainer`] for this container: the runtime's id.
    ContainerCreated(String, Result<String, String>),
    /// [`Command::StartContainer`] for this container.
    ContainerStarted(String, Result<(), String>),
    /// [`Command::StopContainer`] for this container and id.
    ContainerStopped(String, String, Result<(), String>),
    /// [`Command::RemoveContainer`] of this id.
    ContainerRemoved(String, Result<(), String>),
    /// [`Command::RunProbe`] for this container and id.
    Probed(String, String, ProbeKind, ProbeOutcome),
    /// [`Command::RunHook`] for this container and id.
    HookDone(String, String, HookKind, Result<(), String>),
    /// [`Command::RemoveFiles`].
    FilesRemoved(Result<(), String>),
}

/// When a hook runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HookKind {
    /// After the container's start.
    PostStart,
    /// Before it is stopped.
    PreStop,
}

/// Something to be done. All but [`Command::Report`] and [`Command::Event`] are answered by a [`Done`].
#[derive(Clone, Debug)]
pub enum Command {
    /// Make the volumes on disk what the plan says.
    WriteVolumes(VolumePlan),
    /// Run a sandbox.
    CreateSandbox(Box<SandboxConfig>),
    /// Stop a sandbox and take its network down.
    StopSandbox(String),
    /// Remove a sandbox and all containers in it.
    RemoveSandbox(String),
    /// Ask the runtime for an image.
    CheckImage {
        /// The container that needs it.
        container: String,
        /// Its name, with a tag or digest.
        image: String,
    },
    /// Fetch an image.
    PullImage {
        /// The container that needs it.
        container: String,
        /// Its name, with a tag or digest.
        image: String,
    },
    /// Make a container.
    CreateContainer {
        /// Where.
        sandbox_id: String,
        /// How.
        config: Box<ContainerConfig>,
        /// How its sandbox was made.
        sandbox: Box<SandboxConfig>,
    },
    /// Start a container.
    StartContainer {
        /// Its name in the pod.
        container: String,
        /// The runtime's id.
        id: String,
    },
    /// Stop a container: SIGTERM, and SIGKILL when the grace is over.
    StopContainer {
        /// Its name in the pod.
        container: String,
        /// The runtime's id.
        id: String,
        /// How long it may take to end by itself.
        grace: SignedDuration,
    },
    /// Remove a container and its log.
    RemoveContainer {
        /// The runtime's id.
        id: String,
        /// Its log, below the pod's log directory.
        log_path: String,
    },
    /// Run a probe.
    RunProbe {
        /// The container's name in the pod.
        container: String,
        /// The runtime's id.
        id: String,
        /// What it decides.
        kind: ProbeKind,
        /// What to do.
        check: Check,
        /// How long it may take.
        timeout: SignedDuration,
    },
    /// Run a hook.
    RunHook {
        /// The container's name in the pod.
        container: String,
        /// The runtime's id.
        id: String,
        /// When it runs.
        kind: HookKind,
        /// What to do.
        check: Check,
        /// How long it may take.
        timeout: SignedDuration,
    },
    /// Tell the pod's status.
    Report(Box<Report>),
    /// Tell what happened.
    Event(PodEvent),
    /// Remove volumes and logs.
    RemoveFiles,
}

/// A pod's status to be told.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The whole of it.
    pub status: PodStatus,
    /// The pod was deleted and nothing of it runs any more.
    pub terminated: bool,
}

/// What follows from an input.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// To be carried out; those of one step may run at the same time.
    pub commands: Vec<Command>,
    /// When to come back with [`Input::Tick`] at the latest.
    pub wake: Option<Timestamp>,
    /// Nothing is left to do for this pod, ever.
    pub finished: bool,
}
