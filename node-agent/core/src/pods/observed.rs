//! What the runtime holds of one pod.

use jiff::Timestamp;

/// Sandboxes and containers of one pod, of any state and in no order.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Observed {
    /// Sandboxes.
    pub sandboxes: Vec<ObservedSandbox>,
    /// Containers of all its sandboxes.
    pub containers: Vec<ObservedContainer>,
}

/// A sandbox.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ObservedSandbox {
    /// The runtime's id.
    pub id: String,
    /// Which of the pod's sandboxes it is.
    pub attempt: u32,
    /// It runs.
    pub ready: bool,
    /// Addresses, the primary one first; none in the node's network.
    pub ips: Vec<String>,
}

/// A container.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ObservedContainer {
    /// The runtime's id.
    pub id: String,
    /// Its sandbox.
    pub sandbox_id: String,
    /// Its name in the pod.
    pub name: String,
    /// How often it was started before.
    pub attempt: u32,
    /// [`super::container::hash`] of the definition that it was made from; empty when it is not known.
    pub hash: String,
    /// The image's name as the runtime resolved it.
    pub image: String,
    /// The image's id as the runtime reports it.
    pub image_id: String,
    /// What it does.
    pub state: ContainerState,
}

/// What a container does.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ContainerState {
    /// Made and not started.
    Created,
    /// Its process runs.
    Running {
        /// Since when.
        started_at: Timestamp,
    },
    /// Its process has ended.
    Exited(Exit),
    /// The runtime lost track of it.
    Unknown,
}

/// How a container ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Exit {
    /// Exit code, 128 + the signal for a killed process.
    pub code: i32,
    /// The runtime's reason, e.g. `OOMKilled`; empty when it gives none.
    pub reason: String,
    /// The last message that the container left, or what the runtime says.
    pub message: String,
    /// `None` when it never ran.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Timestamp,
}

impl ObservedContainer {
    /// How it ended, if it did.
    #[must_use]
    pub fn exit(&self) -> Option<&Exit> {
        match &self.state {
            ContainerState::Exited(exit) => Some(exit),
            _ => None,
        }
    }

    /// Since when its process runs, if it does.
    #[must_use]
    pub fn running_since(&self) -> Option<Timestamp> {
        match self.state {
            ContainerState::Running { started_at } => Some(started_at),
            _ => None,
        }
    }
}
