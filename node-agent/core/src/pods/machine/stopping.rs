//! Stopping one container, and everything: one budget of grace for hooks and processes together.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Container;

use super::{Machine, Op, Removal, Role, Termination, after, spec};
use crate::pods::check;
use crate::pods::command::{Command, HookKind};
use crate::pods::event;
use crate::pods::observed::ContainerState;

/// What a container gets after its preStop hook, even when that has used everything up.
const MINIMUM_AFTER_HOOK: SignedDuration = SignedDuration::from_secs(2);

impl Machine {
    /// Stops a container by `deadline`, its preStop hook first.
    pub(super) fn kill(&mut self, container: &Container, id: &str, deadline: Timestamp, why: String, now: Timestamp) {
        let name = container.name.as_str();
        let stop_again = self.slots.get(name).and_then(|slot| slot.stop_again);
        if self.wait_until(stop_again, now) {
            return;
        }
        let first = self.slots.get(name).is_none_or(|slot| slot.told_killing.as_deref() != Some(id));
        if first {
            self.slot(name).told_killing = Some(id.to_owned());
            self.container_event(name, event::killing(why));
        }
        let hook = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref()).filter(|_| first);
        let pod_ip = self.pod_ips.first().map_or("", String::as_str);
        let check = hook.map(|hook| check::of_hook(container, hook, pod_ip));
        match check {
            Some(Ok(Some(check))) => {
                self.slot(name).op = Some(Op::PreStop { id: id.to_owned(), deadline });
                let (container, id, kind) = (name.to_owned(), id.to_owned(), HookKind::PreStop);
                let timeout = deadline.duration_since(now);
                self.emit(Command::RunHook { container, id, kind, check, timeout });
                self.wake(deadline);
            }
            Some(Err(_)) => {
                self.container_event(name, event::pre_stop_failed());
                self.stop(name, id, deadline, now);
            }
            Some(Ok(None)) | None => self.stop(name, id, deadline, now),
        }
    }

    /// Sends the signals; a hook has run or there is none.
    pub(super) fn stop(&mut self, name: &str, id: &str, deadline: Timestamp, now: Timestamp) {
        let after_hook = self.is_doing(name, |op| matches!(op, Op::PreStop { .. }));
        let minimum = if after_hook { MINIMUM_AFTER_HOOK } else { SignedDuration::from_secs(1) };
        let grace = deadline.duration_since(now).max(minimum);
        self.slot(name).op = Some(Op::Stopping { id: id.to_owned(), deadline });
        self.emit(Command::StopContainer { container: name.to_owned(), id: id.to_owned(), grace });
    }

    pub(super) fn container_stopped(&mut self, name: &str, id: &str, result: Result<(), String>, now: Timestamp) {
        if !self.is_doing(name, |op| matches!(op, Op::Stopping { id: current, .. } if current == id)) {
            return;
        }
        let still_runs = self.latest(name).is_some_and(|record| record.id == id && record.exit().is_none());
        let slot = self.slot(name);
        slot.op = None;
        if result.is_ok() && !still_runs {
            slot.stops.reset();
            slot.stop_again = None;
            return;
        }
        slot.stop_again = Some(slot.stops.fail(now));
        if let Err(error) = result {
            self.event(event::kill_failed(&error));
        }
    }

    /// Begins a deletion, or shortens the grace of one under way.
    pub(super) fn update_termination(&mut self, now: Timestamp) {
        if self.pod.metadata.deletion_timestamp.is_none() && !self.gone {
            return;
        }
        let grace = self.pod.metadata.deletion_grace_period_seconds;
        let grace = grace.unwrap_or_else(|| crate::pods::grace_seconds(spec(&self.pod))).max(1);
        let since = self.termination.map_or(now, |termination| termination.since);
        let asked = after(since, grace);
        let deadline = self.termination.map_or(asked, |termination| termination.deadline.min(asked));
        self.termination = Some(Termination { since, deadline });
    }

    /// Stops what runs: containers, then sidecars from the last to the first, then sandboxes. Once nothing runs any more
    /// a deleted pod is reported as terminated, and then removed.
    pub(super) fn wind_down(&mut self, now: Timestamp) {
        if self.removal >= Removal::Files {
            return;
        }
        let deadline = self.wind_down_deadline(now);
        let pod = Arc::clone(&self.pod);
        let spec = spec(&pod);
        let mut busy = self.is_creating_sandbox();
        for container in &spec.containers {
            busy |= self.halt(container, deadline, now);
        }
        let inits = || spec.init_containers.iter().flatten();
        for container in inits().filter(|init| Role::of_init(init) == Role::Init) {
            busy |= self.halt(container, deadline, now);
        }
        if busy {
            return;
        }
        let sidecars: Vec<&Container> = inits().filter(|init| Role::of_init(init) == Role::Sidecar).collect();
        for container in sidecars.into_iter().rev() {
            if self.halt(container, deadline, now) {
                return;
            }
        }
        let sandboxes = self.sandbox_ids();
        if !self.stop_sandboxes(&sandboxes, now) || self.termination.is_none() {
            return;
        }
        self.removal = Removal::Terminated;
        if !self.observed.sandboxes.is_empty() {
            self.remove_sandboxes(&sandboxes);
            return;
        }
        if self.volumes.writing.is_none() && !self.wait_until(self.sandboxes.stop_again, now) {
            self.removal = Removal::Files;
            self.emit(Command::RemoveFiles);
        }
    }

    fn wind_down_deadline(&mut self, now: Timestamp) -> Timestamp {
        match self.termination {
            Some(termination) => termination.deadline,
            None => {
                let grace = crate::pods::grace_seconds(spec(&self.pod)).max(1);
                *self.drain_deadline.get_or_insert(after(now, grace))
            }
        }
    }

    /// Stops one container, whatever is under way for it; true while that lasts.
    fn halt(&mut self, container: &Container, deadline: Timestamp, now: Timestamp) -> bool {
        let name = container.name.as_str();
        match self.slots.get(name).and_then(|slot| slot.op.clone()) {
            Some(Op::Creating | Op::Starting { .. }) => return true,
            Some(Op::PreStop { id, deadline: asked }) => {
                let deadline = deadline.min(asked);
                if self.wait_until(Some(deadline), now) {
                    self.slot(name).op = Some(Op::PreStop { id, deadline });
                } else {
                    self.stop(name, &id, deadline, now);
                }
                return true;
            }
            Some(Op::Stopping { id, deadline: asked }) => {
                if deadline < asked {
                    // The runtime waits for the shorter of the two.
                    self.stop(name, &id, deadline, now);
                }
                return true;
            }
            Some(Op::CheckingImage | Op::Pulling | Op::PostStart { .. }) => self.slot(name).op = None,
            None => {}
        }
        let running = self
            .latest(name)
            .filter(|record| matches!(record.state, ContainerState::Running { .. } | ContainerState::Unknown));
        let Some(id) = running.map(|record| record.id.clone()) else { return false };
        self.kill(container, &id, deadline, format!("Stopping container {name}"), now);
        true
    }
}
