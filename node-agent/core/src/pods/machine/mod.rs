//! The state machine of one pod.
//!
//! It is level-triggered: every input updates what is known, then [`Machine::handle`] compares that with what the pod
//! wants and emits what is missing and not under way already.
//!
//! ```text
//!            volumes -> sandbox -> init containers -> containers      deletion, or all containers ended for good
//! (new) ---------------------- running ------------------------------------------> winding down
//!                                 ^    |                                             | containers, then sandboxes
//!                                 +----+ exit, probe failed, sandbox lost            v stopped
//!                                                             terminal (kept) <------+------> terminated -> removed
//! ```

mod apply;
mod probing;
mod running;
mod sandboxes;
mod slot;
mod starting;
mod stopping;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

use super::backoff::Backoff;
use super::command::{Command, Input, Report, Step};
use super::event::{self, PodEvent};
use super::node::NodeFacts;
use super::objects::Objects;
use super::observed::{ContainerState, Observed, ObservedContainer, ObservedSandbox};
use super::status;
use super::volume::VolumePlan;

pub(super) use slot::{Op, Role, Slot};

/// Why a pod ended, for good.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Outcome {
    /// `Failed` instead of `Succeeded`.
    pub(super) failed: bool,
    /// `status.reason`.
    pub(super) reason: Option<String>,
    /// `status.message`.
    pub(super) message: Option<String>,
}

/// A deletion under way.
#[derive(Clone, Copy, Debug)]
struct Termination {
    since: Timestamp,
    deadline: Timestamp,
}

/// How far the removal of a pod has come.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Removal {
    /// Something may still run.
    NotYet,
    /// Nothing runs any more.
    Terminated,
    /// The runtime holds nothing any more; files are being removed.
    Files,
    /// Nothing is left.
    Done,
}

/// How far the volumes are.
#[derive(Clone, Debug)]
struct Volumes {
    /// Something that they depend on changed since the plan was made.
    dirty: bool,
    /// What is being written.
    writing: Option<VolumePlan>,
    /// What is on disk.
    written: Option<VolumePlan>,
    /// When to try again.
    retry_at: Option<Timestamp>,
    retries: Backoff,
    /// Since when an object is missing: it may still come.
    missing_since: Option<Timestamp>,
}

/// What is under way for the pod's sandboxes.
#[derive(Clone, Debug)]
struct Sandboxes {
    creating: bool,
    creations: Backoff,
    retry_at: Option<Timestamp>,
    /// Being stopped or removed, by id.
    busy: BTreeSet<String>,
    /// Stopped by us, their network taken down.
    stopped: BTreeSet<String>,
    stops: Backoff,
    stop_again: Option<Timestamp>,
}

/// One pod.
#[derive(Clone, Debug)]
pub struct Machine {
    pub(super) node: Arc<NodeFacts>,
    pub(super) pod: Arc<Pod>,
    objects: Objects,
    pub(super) observed: Observed,
    /// The runtime has been asked at least once.
    known: bool,
    /// What is observed includes everything that was done.
    fresh: bool,
    volumes: Volumes,
    sandboxes: Sandboxes,
    pub(super) slots: BTreeMap<String, Slot>,
    /// Containers that are being removed, by id.
    removing: BTreeSet<String>,
    pub(super) pod_ips: Vec<String>,
    pub(super) start_time: Option<Timestamp>,
    pub(super) outcome: Option<Outcome>,
    /// By when what still runs after the outcome must have stopped.
    drain_deadline: Option<Timestamp>,
    termination: Option<Termination>,
    gone: bool,
    removal: Removal,
    pub(super) reported: Option<Report>,
    step: Step,
}

impl Machine {
    /// For a pod as the API shows it, with what its containers and volumes refer to. Nothing is decided before the first
    /// [`Input::Observed`].
    #[must_use]
    pub fn new(pod: Arc<Pod>, objects: Objects, node: Arc<NodeFacts>) -> Self {
        let status = pod.status.as_ref();
        let stored = |name: &str| {
            let status = status?;
            let all = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
            all.into_iter().find(|stored| stored.name == name)
        };
        let spec = pod.spec.as_ref();
        let containers =
            spec.into_iter().flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
        let slots = containers.map(|container| (container.name.clone(), Slot::new(stored(&container.name)))).collect();
        let outcome = status.and_then(|status| match status.phase.as_deref() {
            Some(phase @ ("Succeeded" | "Failed")) => Some(Outcome {
                failed: phase == "Failed",
                reason: status.reason.clone(),
                message: status.message.clone(),
            }),
            _ => None,
        });
        let pod_ips = status.and_then(|status| status.pod_ips.as_ref()).into_iter().flatten();
        Self {
            pod_ips: pod_ips.map(|ip| ip.ip.clone()).collect(),
            start_time: status.and_then(|status| status.start_time.as_ref()).map(|time| time.0),
            slots,
            outcome,
            node,
            objects,
            observed: Observed::default(),
            known: false,
            fresh: false,
            volumes: Volumes {
                dirty: true,
                writing: None,
                written: None,
                retry_at: None,
                retries: Backoff::attempts(),
                missing_since: None,
            },
            sandboxes: Sandboxes {
                creating: false,
                creations: Backoff::attempts(),
                retry_at: None,
                busy: BTreeSet::new(),
                stopped: BTreeSet::new(),
                stops: Backoff::attempts(),
                stop_again: None,
            },
            removing: BTreeSet::new(),
            drain_deadline: None,
            termination: None,
            gone: false,
            removal: Removal::NotYet,
            reported: None,
            step: Step::default(),
            pod,
        }
    }

    /// Takes one input, and says what follows.
    pub fn handle(&mut self, input: Input, now: Timestamp) -> Step {
        self.step = Step::default();
        self.apply(input, now);
        if self.known {
            self.reconcile(now);
        }
        std::mem::take(&mut self.step)
    }

    /// The pod is being deleted, or its object is gone.
    #[must_use]
    pub fn is_terminating(&self) -> bool {
        self.termination.is_some()
    }

    fn reconcile(&mut self, now: Timestamp) {
        if self.removal == Removal::Done {
            self.step.finished = self.gone;
            return;
        }
        self.start_time.get_or_insert(now);
        self.update_termination(now);
        self.check_deadline(now);
        if self.fresh {
            self.settle();
            if self.is_winding_down() {
                self.wind_down(now);
            } else {
                self.run(now);
            }
        }
        if !self.is_winding_down() {
            self.run_probes(now);
        }
        if !self.gone {
            self.report(now);
        }
        self.step.finished = self.gone && self.removal == Removal::Done;
    }

    fn is_winding_down(&self) -> bool {
        self.termination.is_some() || self.outcome.is_some()
    }

    fn report(&mut self, now: Timestamp) {
        let report = Report { status: status::of(self, now), terminated: self.removal >= Removal::Terminated };
        if self.reported.as_ref() != Some(&report) {
            self.reported = Some(report.clone());
            self.emit(Command::Report(Box::new(report)));
        }
    }

    fn emit(&mut self, command: Command) {
        self.step.commands.push(command);
    }

    fn event(&mut self, event: PodEvent) {
        // Nobody can look an event up once the object is gone.
        if !self.gone {
            self.emit(Command::Event(event));
        }
    }

    fn container_event(&mut self, container: &str, event: PodEvent) {
        let is_init = spec(&self.pod).init_containers.iter().flatten().any(|init| init.name == container);
        let list = if is_init { "initContainers" } else { "containers" };
        self.event(event.about(format!("spec.{list}{{{container}}}")));
    }

    fn wake(&mut self, at: Timestamp) {
        self.step.wake = Some(self.step.wake.map_or(at, |wake| wake.min(at)));
    }

    /// Comes back at `until` if that is still to come, and says whether it is.
    fn wait_until(&mut self, until: Option<Timestamp>, now: Timestamp) -> bool {
        match until.filter(|until| *until > now) {
            Some(until) => {
                self.wake(until);
                true
            }
            None => false,
        }
    }

    fn slot(&mut self, container: &str) -> &mut Slot {
        self.slots.entry(container.to_owned()).or_insert_with(|| Slot::new(None))
    }

    /// The running sandbox that containers belong in.
    pub(super) fn sandbox(&self) -> Option<&ObservedSandbox> {
        let usable = |sandbox: &&ObservedSandbox| sandbox.ready && !self.sandboxes.stopped.contains(&sandbox.id);
        self.observed.sandboxes.iter().filter(usable).max_by_key(|sandbox| sandbox.attempt)
    }

    /// The last start of a container that the runtime knows of.
    pub(super) fn latest(&self, container: &str) -> Option<&ObservedContainer> {
        let of_it = |record: &&ObservedContainer| record.name == container;
        self.observed.containers.iter().filter(of_it).max_by_key(|record| record.attempt)
    }

    pub(super) fn records<'a>(&'a self, container: &'a str) -> impl Iterator<Item = &'a ObservedContainer> {
        self.observed.containers.iter().filter(move |record| record.name == container)
    }

    /// The last start in the current sandbox.
    pub(super) fn latest_in_sandbox(&self, container: &str) -> Option<&ObservedContainer> {
        let sandbox = self.sandbox()?;
        self.latest(container).filter(|record| record.sandbox_id == sandbox.id)
    }

    /// The exit code of a container that ran and does not run now; one whose end nobody saw counts as killed.
    pub(super) fn exit_code(&self, container: &str) -> Option<i32> {
        const KILLED: i32 = 137;
        let slot = self.slots.get(container);
        let last = slot.and_then(|slot| slot.last_exit.as_ref()).map(|exit| exit.exit_code);
        match self.latest(container).map(|record| &record.state) {
            Some(ContainerState::Exited(exit)) => Some(exit.code),
            Some(ContainerState::Running { .. } | ContainerState::Unknown) => None,
            // About to start.
            Some(ContainerState::Created) if self.latest_in_sandbox(container).is_some() => None,
            Some(ContainerState::Created) => last,
            None => slot?.attempt.map(|_| last.unwrap_or(KILLED)),
        }
    }

    /// Whether policy wants the container to start (again), whatever holds it back.
    pub(super) fn wants_start(&self, container: &Container, role: Role) -> bool {
        let never = self.restart_policy() == "Never";
        match role {
            Role::Sidecar => true,
            Role::Init => match self.latest_in_sandbox(&container.name).and_then(ObservedContainer::exit) {
                Some(exit) => exit.code != 0 && !never,
                None => true,
            },
            Role::Main => match (self.exit_code(&container.name), self.restart_policy()) {
                (None, _) | (_, "Always") => true,
                (Some(code), "OnFailure") => code != 0,
                (Some(_), _) => false,
            },
        }
    }

    pub(super) fn restart_policy(&self) -> &str {
        spec(&self.pod).restart_policy.as_deref().unwrap_or("Always")
    }

    /// `name_namespace(uid)`.
    fn identity(&self) -> String {
        super::identity(&self.pod)
    }

    pub(super) fn all_stopped(&self) -> bool {
        let runs = |record: &ObservedContainer| {
            matches!(record.state, ContainerState::Running { .. } | ContainerState::Unknown)
        };
        let starting = |slot: &Slot| matches!(slot.op, Some(Op::Creating | Op::Starting { .. }));
        !self.observed.containers.iter().any(runs) && !self.slots.values().any(starting)
    }

    /// Ends the pod when it has been active for longer than it may be.
    fn check_deadline(&mut self, now: Timestamp) {
        let Some(seconds) = spec(&self.pod).active_deadline_seconds else { return };
        let Some(start) = self.start_time.filter(|_| !self.is_winding_down()) else { return };
        let deadline = after(start, seconds);
        if self.wait_until(Some(deadline), now) {
            return;
        }
        let event = event::deadline_exceeded();
        self.outcome =
            Some(Outcome { failed: true, reason: Some(event.reason.to_owned()), message: Some(event.message.clone()) });
        self.event(event);
    }
}

static NO_SPEC: std::sync::LazyLock<PodSpec> = std::sync::LazyLock::new(PodSpec::default);

/// The pod's spec; an empty one when the API sent none.
pub(super) fn spec(pod: &Pod) -> &PodSpec {
    pod.spec.as_ref().unwrap_or(&NO_SPEC)
}

/// `seconds` after `start`.
pub(super) fn after(start: Timestamp, seconds: i64) -> Timestamp {
    start.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
