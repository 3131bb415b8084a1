//! What is remembered of one container of a pod, across its starts.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, ContainerStateTerminated, ContainerStatus};

use crate::pods::backoff::Backoff;
use crate::pods::probe::Probes;

/// The part that a container plays in its pod.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::pods) enum Role {
    /// Runs to completion before the next one starts.
    Init,
    /// An init container with `restartPolicy: Always`: starts in order and keeps running.
    Sidecar,
    /// One of `spec.containers`.
    Main,
}

impl Role {
    /// Of an entry of `spec.initContainers`.
    pub(in crate::pods) fn of_init(container: &Container) -> Self {
        if container.restart_policy.as_deref() == Some("Always") { Self::Sidecar } else { Self::Init }
    }
}

/// What is under way for a container; at most one thing at a time.
///
/// ```text
/// CheckingImage -> [Pulling ->] Creating -> Starting -> [PostStart ->] (runs) -> [PreStop ->] Stopping -> (ended)
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::pods) enum Op {
    CheckingImage,
    Pulling,
    Creating,
    Starting { id: String },
    PostStart { id: String },
    PreStop { id: String, deadline: Timestamp },
    Stopping { id: String, deadline: Timestamp },
}

/// Why a container is not started now.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::pods) struct Failure {
    /// `state.waiting.reason`.
    pub(in crate::pods) reason: &'static str,
    /// `state.waiting.message`.
    pub(in crate::pods) message: String,
    /// When it happened.
    pub(in crate::pods) at: Timestamp,
    /// When it is tried again.
    pub(in crate::pods) retry_at: Timestamp,
}

/// One container's memory.
#[derive(Clone, Debug)]
pub(in crate::pods) struct Slot {
    pub(in crate::pods) op: Option<Op>,
    pub(in crate::pods) failure: Option<Failure>,
    pub(in crate::pods) restarts: Backoff,
    pub(in crate::pods) pulls: Backoff,
    pub(in crate::pods) stops: Backoff,
    /// A failed stop is not repeated before.
    pub(in crate::pods) stop_again: Option<Timestamp>,
    /// The container whose stop, and the one whose back-off, users have been told of.
    pub(in crate::pods) told_killing: Option<String>,
    pub(in crate::pods) told_backoff: Option<String>,
    /// The ended container whose restart has been counted.
    pub(in crate::pods) counted: Option<String>,
    pub(in crate::pods) probes: Option<Probes>,
    /// The highest attempt that ever was, here or in the stored status.
    pub(in crate::pods) attempt: Option<u32>,
    /// How the last start that ended did so, whether or not the runtime still knows.
    pub(in crate::pods) last_exit: Option<ContainerStateTerminated>,
    /// What the API showed when the agent started.
    pub(in crate::pods) stored: Option<ContainerStatus>,
}

impl Slot {
    /// From what the API shows of it.
    pub(in crate::pods) fn new(stored: Option<&ContainerStatus>) -> Self {
        let terminated = |state: &Option<k8s_openapi::api::core::v1::ContainerState>| {
            state.as_ref().and_then(|state| state.terminated.clone())
        };
        let last_exit = stored.and_then(|stored| terminated(&stored.state).or_else(|| terminated(&stored.last_state)));
        let running = stored.and_then(|stored| stored.state.as_ref()).is_some_and(|state| state.running.is_some());
        let ran = running || last_exit.is_some();
        Self {
            op: None,
            failure: None,
            restarts: Backoff::restarts(),
            pulls: Backoff::restarts(),
            stops: Backoff::attempts(),
            stop_again: None,
            told_killing: None,
            told_backoff: None,
            counted: None,
            probes: None,
            attempt: stored.filter(|_| ran).and_then(|stored| u32::try_from(stored.restart_count).ok()),
            last_exit,
            stored: stored.cloned(),
        }
    }

    /// Takes note that it cannot be started now; it is tried again after `wait`.
    pub(in crate::pods) fn fail(
        &mut self,
        reason: &'static str,
        message: String,
        now: Timestamp,
        wait: SignedDuration,
    ) {
        let retry_at = now.checked_add(wait).unwrap_or(Timestamp::MAX);
        self.op = None;
        self.failure = Some(Failure { reason, message, at: now, retry_at });
    }
}
