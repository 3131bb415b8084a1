//! A pod that is to run: volumes, then the sandbox, then init containers in their order, then the containers.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Container;

use super::{Machine, Op, Outcome, Role, after, spec};
use crate::pods::command::Command;
use crate::pods::container;
use crate::pods::event;
use crate::pods::fields::Fields;
use crate::pods::observed::{ContainerState, ObservedContainer};
use crate::pods::probe::ProbeKind;
use crate::pods::volume::{self, VolumeError};

/// For how long an object that a volume refers to may be on its way.
const OBJECT_ON_ITS_WAY: SignedDuration = SignedDuration::from_secs(1);

/// For how long users see how a container ended, before they see that it waits to be started again.
const SHOW_EXIT_SECONDS: i64 = 2;

impl Machine {
    pub(super) fn run(&mut self, now: Timestamp) {
        if !self.ensure_volumes(now) || !self.ensure_sandbox(now) {
            return;
        }
        self.collect_old_containers();
        let pod = Arc::clone(&self.pod);
        let spec = spec(&pod);
        let initialized = spec.containers.iter().any(|container| {
            self.latest_in_sandbox(&container.name).is_some()
                || self.slots.get(&container.name).is_some_and(|slot| slot.op.is_some())
        });
        for container in spec.init_containers.iter().flatten() {
            let done = match Role::of_init(container) {
                Role::Sidecar => {
                    self.advance(container, Role::Sidecar, now);
                    self.has_started(container)
                }
                role => {
                    let completed = self.latest_in_sandbox(&container.name).and_then(ObservedContainer::exit);
                    let completed = completed.is_some_and(|exit| exit.code == 0);
                    if !initialized && !completed {
                        self.advance(container, role, now);
                    }
                    completed
                }
            };
            if !initialized && !done {
                return;
            }
        }
        for container in &spec.containers {
            self.advance(container, Role::Main, now);
        }
    }

    /// Whether a sidecar lets the next container start.
    fn has_started(&self, container: &Container) -> bool {
        let running = self.latest_in_sandbox(&container.name).is_some_and(|record| record.running_since().is_some());
        let slot = self.slots.get(&container.name);
        running
            && slot
                .is_some_and(|slot| slot.op.is_none() && slot.probes.as_ref().is_some_and(|probes| probes.is_started()))
    }

    /// Brings one container closer to what it should be.
    fn advance(&mut self, container: &Container, role: Role, now: Timestamp) {
        let name = container.name.as_str();
        if let Some(op) = self.slots.get(name).and_then(|slot| slot.op.clone()) {
            if let Op::PreStop { id, deadline } = op
                && !self.wait_until(Some(deadline), now)
            {
                self.stop(name, &id, deadline, now);
            }
            return;
        }
        let record = self.latest(name).cloned();
        let in_sandbox =
            record.as_ref().is_some_and(|record| self.sandbox().is_some_and(|sandbox| sandbox.id == record.sandbox_id));
        match record {
            Some(record) => match record.state {
                ContainerState::Running { .. } => self.check_running(container, &record, in_sandbox, now),
                ContainerState::Unknown => self.kill_now(container, &record, now),
                ContainerState::Created if in_sandbox => self.start_created(name, &record.id, now),
                ContainerState::Created => self.begin_start(container, now),
                ContainerState::Exited(exit) if self.wants_start(container, role) => {
                    // A start that follows an exit counts once, however often it is tried.
                    let counted = self.slots.get(name).is_some_and(|slot| slot.counted.as_ref() == Some(&record.id));
                    if in_sandbox && !counted {
                        if self.is_held_back(container, &record.id, exit.finished_at, now) {
                            return;
                        }
                        let slot = self.slot(name);
                        slot.restarts.advance(exit.finished_at, now);
                        slot.counted = Some(record.id);
                        slot.failure = None;
                    }
                    self.begin_start(container, now);
                }
                ContainerState::Exited(_) => {}
            },
            None if self.wants_start(container, role) => self.begin_start(container, now),
            None => {}
        }
    }

    fn is_held_back(&mut self, container: &Container, id: &str, finished_at: Timestamp, now: Timestamp) -> bool {
        let name = container.name.as_str();
        let pod = self.identity();
        let slot = self.slot(name);
        let Some(until) = slot.restarts.hold(finished_at, now) else { return false };
        let show_from = after(finished_at, SHOW_EXIT_SECONDS);
        if now < show_from {
            self.wake(show_from.min(until));
            return true;
        }
        let delay = slot.restarts.delay().as_secs();
        if slot.told_backoff.as_deref() != Some(id) {
            slot.told_backoff = Some(id.to_owned());
            let message = format!("back-off {} restarting failed container={name} pod={pod}", spoken(delay));
            let wait = until.duration_since(now);
            slot.fail("CrashLoopBackOff", message, now, wait);
            self.container_event(name, event::restart_backoff(name, &pod));
        }
        self.wake(until);
        true
    }

    fn check_running(&mut self, container: &Container, record: &ObservedContainer, in_sandbox: bool, now: Timestamp) {
        let name = container.name.as_str();
        self.slot(name).failure = None;
        let probe = self.slots.get(name).and_then(|slot| slot.probes.as_ref()).and_then(|probes| probes.failed());
        let changed = !record.hash.is_empty() && record.hash != container::hash(container);
        let (why, own_grace) = match probe {
            _ if !in_sandbox => (format!("Stopping container {name}"), None),
            Some(kind) => {
                let probe = match kind {
                    ProbeKind::Startup => container.startup_probe.as_ref(),
                    _ => container.liveness_probe.as_ref(),
                };
                let why =
                    format!("Container {name} failed {} probe, will be restarted", kind.to_string().to_lowercase());
                (why, probe.and_then(|probe| probe.termination_grace_period_seconds))
            }
            None if changed => (format!("Container {name} definition changed, will be restarted"), None),
            None => return,
        };
        let grace = own_grace.unwrap_or_else(|| crate::pods::grace_seconds(spec(&self.pod)));
        self.kill(container, &record.id, after(now, grace.max(1)), why, now);
    }

    fn kill_now(&mut self, container: &Container, record: &ObservedContainer, now: Timestamp) {
        let why = format!("Stopping container {}", container.name);
        self.kill(container, &record.id, after(now, 1), why, now);
    }

    /// Keeps of every container the last start and the one before it, whose log is `kubectl logs --previous`.
    fn collect_old_containers(&mut self) {
        let mut old = Vec::new();
        for name in self.slots.keys() {
            let mut records: Vec<&ObservedContainer> = self.records(name).collect();
            records.sort_by_key(|record| std::cmp::Reverse(record.attempt));
            let ended = records.into_iter().skip(2).filter(|record| record.exit().is_some());
            old.extend(ended.map(|record| (record.id.clone(), container::log_path(name, record.attempt))));
        }
        for (id, log_path) in old {
            if self.removing.insert(id.clone()) {
                self.emit(Command::RemoveContainer { id, log_path });
            }
        }
    }

    /// Makes sure that the volumes are on disk, and later that they follow what they show; false while they are not.
    fn ensure_volumes(&mut self, now: Timestamp) -> bool {
        if self.volumes.dirty && self.volumes.writing.is_none() && !self.wait_until(self.volumes.retry_at, now) {
            let pod = Arc::clone(&self.pod);
            let fields = Fields { pod: &pod, node: &self.node, pod_ips: &self.pod_ips };
            match volume::plan(&fields, &self.objects) {
                Ok(plan) => {
                    self.volumes.dirty = false;
                    self.volumes.missing_since = None;
                    if self.volumes.written.as_ref() != Some(&plan) {
                        self.volumes.writing = Some(plan.clone());
                        self.emit(Command::WriteVolumes(plan));
                    }
                }
                // A running pod keeps what it has.
                Err(_) if self.volumes.written.is_some() => self.volumes.dirty = false,
                Err(error) => self.volume_missing(&error, now),
            }
        }
        self.volumes.written.is_some()
    }

    fn volume_missing(&mut self, error: &VolumeError, now: Timestamp) {
        let since = *self.volumes.missing_since.get_or_insert(now);
        let patience = since.checked_add(OBJECT_ON_ITS_WAY).unwrap_or(Timestamp::MAX);
        if error.missing_object && self.wait_until(Some(patience), now) {
            return;
        }
        let retry_at = self.volumes.retries.fail(now);
        self.volumes.retry_at = Some(retry_at);
        self.wake(retry_at);
        self.event(event::mount_failed(error));
    }

    pub(super) fn volumes_written(&mut self, result: Result<(), (String, String)>, now: Timestamp) {
        let plan = self.volumes.writing.take();
        match result {
            Ok(()) => {
                self.volumes.written = plan;
                self.volumes.retry_at = None;
                self.volumes.retries.reset();
            }
            Err((volume, reason)) => {
                self.event(event::mount_failed(&VolumeError { volume, reason, missing_object: false }));
                self.volumes.dirty = true;
                self.volumes.retry_at = Some(self.volumes.retries.fail(now));
            }
        }
    }

    /// Finds out whether the pod has ended for good.
    pub(super) fn settle(&mut self) {
        if self.is_winding_down() || self.is_creating_sandbox() {
            return;
        }
        let pod = Arc::clone(&self.pod);
        let spec = spec(&pod);
        let idle = |machine: &Self, name: &str| machine.slots.get(name).is_none_or(|slot| slot.op.is_none());
        let ended = |failed| Some(Outcome { failed, reason: None, message: None });
        if self.restart_policy() == "Never" {
            let inits = spec.init_containers.iter().flatten().filter(|init| Role::of_init(init) == Role::Init);
            let failed = inits.into_iter().any(|init| {
                let exit = self.latest(&init.name).and_then(ObservedContainer::exit);
                idle(self, &init.name) && exit.is_some_and(|exit| exit.code != 0)
            });
            if failed {
                self.outcome = ended(true);
                return;
            }
        }
        let mut failed = false;
        for container in &spec.containers {
            match self.exit_code(&container.name) {
                Some(code) if idle(self, &container.name) && !self.wants_start(container, Role::Main) => {
                    failed |= code != 0
                }
                _ => return,
            }
        }
        if !spec.containers.is_empty() {
            self.outcome = ended(failed);
        }
    }
}

/// Seconds as Kubernetes writes a delay: `10s`, `1m20s`, `5m0s`.
fn spoken(seconds: i64) -> String {
    if seconds < 60 { format!("{seconds}s") } else { format!("{}m{}s", seconds / 60, seconds % 60) }
}
