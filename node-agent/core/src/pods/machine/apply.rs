//! Inputs, folded into what is known.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::{Machine, Op, Removal, Slot, after, spec};
use crate::pods::command::{Done, Input, Reread};
use crate::pods::event;
use crate::pods::observed::Observed;
use crate::pods::probe::Probes;
use crate::pods::status;

impl Machine {
    pub(super) fn apply(&mut self, input: Input, now: Timestamp) {
        match input {
            Input::Pod(pod) => self.apply_pod(pod),
            Input::Gone => self.gone = true,
            Input::ConfigMap(name, Some(map)) => {
                self.objects.config_maps.insert(name, map);
                self.objects_changed();
            }
            Input::ConfigMap(name, None) => {
                self.objects.config_maps.remove(&name);
            }
            Input::Secret(name, Some(secret)) => {
                self.objects.secrets.insert(name, secret);
                self.objects_changed();
            }
            Input::Secret(name, None) => {
                self.objects.secrets.remove(&name);
            }
            Input::Observed(observed) => self.apply_observed(observed),
            Input::Done(done, reread) => {
                match reread {
                    Reread::Unneeded => {}
                    Reread::Holds(observed) => self.apply_observed(observed),
                    Reread::Failed => self.fresh = false,
                }
                self.apply_done(done, now);
            }
            Input::Tick => {}
        }
    }

    fn apply_pod(&mut self, pod: Arc<Pod>) {
        for container in spec(&pod).containers.iter().chain(spec(&pod).init_containers.iter().flatten()) {
            self.slots.entry(container.name.clone()).or_insert_with(|| Slot::new(None));
        }
        let changed = |slot: &Slot| slot.failure.is_some();
        if spec(&pod) != spec(&self.pod) && self.slots.values().any(changed) {
            // A new image or reference may be what was missing.
            self.retry_failures();
        }
        self.pod = pod;
        self.volumes.dirty = true;
    }

    /// What was missing may be there now.
    fn objects_changed(&mut self) {
        self.volumes.dirty = true;
        self.volumes.retry_at = None;
        for slot in self.slots.values_mut() {
            if slot.failure.as_ref().is_some_and(|failure| failure.reason == "CreateContainerConfigError") {
                slot.failure = None;
            }
        }
    }

    fn retry_failures(&mut self) {
        for slot in self.slots.values_mut() {
            slot.failure = None;
            slot.pulls.reset();
        }
    }

    fn apply_observed(&mut self, observed: Observed) {
        self.observed = observed;
        self.known = true;
        self.fresh = true;
        let ips = self.sandbox().map(|sandbox| sandbox.ips.clone());
        if spec(&self.pod).host_network == Some(true) {
            if ips.is_some() {
                self.pod_ips = self.node.addresses.clone();
            }
        } else if let Some(ips) = ips.filter(|ips| !ips.is_empty()) {
            self.pod_ips = ips;
        }
        let pod = Arc::clone(&self.pod);
        for container in spec(&pod).containers.iter().chain(spec(&pod).init_containers.iter().flatten()) {
            let Some(record) = self.latest(&container.name).cloned() else {
                self.slot(&container.name).probes = None;
                continue;
            };
            let in_sandbox = self.sandbox().is_some_and(|sandbox| sandbox.id == record.sandbox_id);
            let running_since = record.running_since().filter(|_| in_sandbox);
            let container_id = status::container_id(&self.node, &record.id);
            let exit = record.exit().map(|exit| status::terminated(&container_id, exit));
            let slot = self.slot(&container.name);
            slot.attempt = slot.attempt.max(Some(record.attempt));
            if exit.is_some() {
                slot.last_exit = exit;
            }
            match running_since {
                None => slot.probes = None,
                Some(_) if slot.probes.as_ref().is_some_and(|probes| probes.container_id == record.id) => {}
                Some(since) => {
                    let mut probes = Probes::new(container, &record.id, since);
                    let stored =
                        slot.stored.as_ref().filter(|stored| stored.container_id.as_ref() == Some(&container_id));
                    if let Some(stored) = stored {
                        probes.adopt(stored.started == Some(true), stored.ready);
                    }
                    slot.probes = Some(probes);
                    self.sandboxes.creations.reset();
                }
            }
        }
    }

    fn apply_done(&mut self, done: Done, now: Timestamp) {
        match done {
            Done::VolumesWritten(result) => self.volumes_written(result, now),
            Done::SandboxCreated(result) => self.sandbox_created(result, now),
            Done::SandboxStopped(id, result) => self.sandbox_stopped(id, result, now),
            Done::SandboxRemoved(id, result) => self.sandbox_removed(&id, result, now),
            Done::ImageChecked(container, result) => self.image_checked(&container, result, now),
            Done::ImagePulled(container, result) => self.image_pulled(&container, result, now),
            Done::ContainerCreated(container, result) => self.container_created(&container, result, now),
            Done::ContainerStarted(container, result) => self.container_started(&container, result, now),
            Done::ContainerStopped(container, id, result) => self.container_stopped(&container, &id, result, now),
            Done::ContainerRemoved(id, result) => {
                self.removing.remove(&id);
                if result.is_err() {
                    // The next observation finds it again; there is no hurry.
                    self.wake(after(now, 10));
                }
            }
            Done::Probed(container, id, kind, outcome) => self.probed(&container, &id, kind, &outcome),
            Done::HookDone(container, id, kind, result) => self.hook_done(&container, &id, kind, result, now),
            Done::FilesRemoved(result) => match result {
                Ok(()) => self.removal = Removal::Done,
                Err(error) => {
                    self.removal = Removal::Terminated;
                    self.event(event::kill_failed(&error));
                    self.sandboxes.stop_again = Some(self.sandboxes.stops.fail(now));
                }
            },
        }
    }

    /// The container's operation, if it is this one.
    pub(super) fn is_doing(&self, container: &str, matches: impl Fn(&Op) -> bool) -> bool {
        self.slots.get(container).and_then(|slot| slot.op.as_ref()).is_some_and(matches)
    }
}
