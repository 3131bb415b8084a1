//! The pod's sandbox: made, replaced when it is lost, stopped and removed.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Machine, Role, spec};
use crate::pods::command::Command;
use crate::pods::event;
use crate::pods::sandbox;

impl Machine {
    /// Makes sure that a sandbox runs; false while it does not.
    pub(super) fn ensure_sandbox(&mut self, now: Timestamp) -> bool {
        let current = self.sandbox().map(|sandbox| sandbox.id.clone());
        let others: Vec<String> = self
            .observed
            .sandboxes
            .iter()
            .map(|sandbox| sandbox.id.clone())
            .filter(|id| Some(id) != current.as_ref())
            .collect();
        if let Some(current) = current {
            self.sandboxes.stopped.remove(&current);
            if !others.is_empty() && self.stop_sandboxes(&others, now) {
                self.remove_sandboxes(&others);
            }
            return true;
        }
        if !self.needs_sandbox() {
            return false;
        }
        let lost = others.iter().any(|id| !self.sandboxes.stopped.contains(id) && !self.sandboxes.busy.contains(id));
        if lost {
            self.event(event::sandbox_changed());
        }
        // The network of the old one is taken down before a new one is set up.
        if !self.stop_sandboxes(&others, now) || self.sandboxes.creating {
            return false;
        }
        if self.wait_until(self.sandboxes.retry_at, now) {
            return false;
        }
        self.sandboxes.creating = true;
        let config = sandbox::config(&self.pod, &self.node, self.next_sandbox_attempt());
        self.emit(Command::CreateSandbox(Box::new(config)));
        false
    }

    /// Stops the sandboxes; true once all are.
    pub(super) fn stop_sandboxes(&mut self, ids: &[String], now: Timestamp) -> bool {
        let mut all = true;
        for id in ids.iter().filter(|id| !self.sandboxes.stopped.contains(*id)).cloned().collect::<Vec<_>>() {
            all = false;
            if self.sandboxes.busy.contains(&id) || self.wait_until(self.sandboxes.stop_again, now) {
                continue;
            }
            self.sandboxes.busy.insert(id.clone());
            self.emit(Command::StopSandbox(id));
        }
        all
    }

    pub(super) fn remove_sandboxes(&mut self, ids: &[String]) {
        for id in ids {
            if self.sandboxes.busy.insert(id.clone()) {
                self.emit(Command::RemoveSandbox(id.clone()));
            }
        }
    }

    pub(super) fn sandbox_ids(&self) -> Vec<String> {
        self.observed.sandboxes.iter().map(|sandbox| sandbox.id.clone()).collect()
    }

    pub(super) fn is_creating_sandbox(&self) -> bool {
        self.sandboxes.creating
    }

    pub(super) fn sandbox_created(&mut self, result: Result<(), String>, now: Timestamp) {
        self.sandboxes.creating = false;
        // Also after a success: one that dies at once is not made again at once.
        self.sandboxes.retry_at = Some(self.sandboxes.creations.fail(now));
        if let Err(error) = result {
            self.event(event::sandbox_failed(&error));
        }
    }

    pub(super) fn sandbox_stopped(&mut self, id: String, result: Result<(), String>, now: Timestamp) {
        self.sandboxes.busy.remove(&id);
        match result {
            Ok(()) => {
                self.sandboxes.stopped.insert(id);
                self.sandboxes.stops.reset();
                self.sandboxes.stop_again = None;
            }
            Err(error) => {
                self.event(event::kill_failed(&error));
                self.sandboxes.stop_again = Some(self.sandboxes.stops.fail(now));
            }
        }
    }

    pub(super) fn sandbox_removed(&mut self, id: &str, result: Result<(), String>, now: Timestamp) {
        self.sandboxes.busy.remove(id);
        match result {
            Ok(()) => {
                self.sandboxes.stopped.remove(id);
            }
            Err(error) => {
                self.event(event::kill_failed(&error));
                // Stopping is repeated before removing is.
                self.sandboxes.stopped.remove(id);
                self.sandboxes.stop_again = Some(self.sandboxes.stops.fail(now));
            }
        }
    }

    /// Whether anything is left to run in one.
    fn needs_sandbox(&self) -> bool {
        let pod = Arc::clone(&self.pod);
        spec(&pod).containers.iter().any(|container| self.wants_start(container, Role::Main))
    }

    pub(super) fn next_sandbox_attempt(&self) -> u32 {
        self.observed.sandboxes.iter().map(|sandbox| sandbox.attempt.saturating_add(1)).max().unwrap_or(0)
    }
}
