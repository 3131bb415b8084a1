//! From "should run" to "runs": image, container, start, postStart.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Container;

use super::{Machine, Op, after, spec};
use crate::pods::check;
use crate::pods::command::{Command, HookKind};
use crate::pods::event;
use crate::pods::fields::Fields;
use crate::pods::image::{self, ImageInfo, PullPolicy};
use crate::pods::{container, sandbox};

/// Errors that only a change elsewhere can mend are looked at again after this long.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// For how long users see the error of a pull, before they see that it is waited for the next one.
const SHOW_PULL_ERROR_SECONDS: i64 = 3;

impl Machine {
    pub(super) fn begin_start(&mut self, container: &Container, now: Timestamp) {
        let name = container.name.as_str();
        if self.is_waiting(container, now) {
            return;
        }
        let image = container.image.clone().unwrap_or_default();
        if !image::is_valid(&image) {
            self.container_event(name, event::invalid_image(&image));
            self.container_event(name, event::container_failed("InvalidImageName"));
            let message = format!(
                "Failed to apply default image tag \"{image}\": couldn't parse image name \"{image}\": invalid reference format"
            );
            let wait = self.next_pull_delay(name, now);
            self.slot(name).fail("InvalidImageName", message, now, wait);
            self.wake(now + wait);
            return;
        }
        self.slot(name).op = Some(Op::CheckingImage);
        self.emit(Command::CheckImage { container: name.to_owned(), image: image::with_tag(&image) });
    }

    /// An earlier failure holds the container back.
    fn is_waiting(&mut self, container: &Container, now: Timestamp) -> bool {
        let name = container.name.as_str();
        let Some(failure) = self.slots.get(name).and_then(|slot| slot.failure.clone()) else { return false };
        if failure.reason == "ErrImagePull" && !self.wait_until(Some(after(failure.at, SHOW_PULL_ERROR_SECONDS)), now) {
            let image = container.image.clone().unwrap_or_default();
            let message = format!("Back-off pulling image \"{image}\": ErrImagePull: {}", failure.message);
            if let Some(failure) = self.slot(name).failure.as_mut() {
                failure.reason = "ImagePullBackOff";
                failure.message = message;
            }
            self.container_event(name, event::pull_backoff(&image));
            self.container_event(name, event::container_failed("ImagePullBackOff"));
        }
        self.wait_until(Some(failure.retry_at), now)
    }

    fn next_pull_delay(&mut self, name: &str, now: Timestamp) -> SignedDuration {
        self.slot(name).pulls.fail(now).duration_since(now)
    }

    pub(super) fn image_checked(&mut self, name: &str, result: Result<Option<ImageInfo>, String>, now: Timestamp) {
        if !self.is_doing(name, |op| *op == Op::CheckingImage) {
            return;
        }
        let pod = Arc::clone(&self.pod);
        let Some(container) = find(&pod, name) else { return };
        let named = container.image.clone().unwrap_or_default();
        match (result, PullPolicy::of(container)) {
            (Err(error), _) => {
                self.container_event(name, event::inspect_failed(&named, &error));
                self.container_event(name, event::container_failed("ImageInspectError"));
                let message = format!("Failed to inspect image \"{named}\": {error}");
                self.slot(name).fail("ImageInspectError", message, now, LOOK_AGAIN);
            }
            (Ok(Some(info)), PullPolicy::IfNotPresent | PullPolicy::Never) => {
                self.container_event(name, event::already_present(&named));
                self.create(container, &info, now);
            }
            (Ok(None), PullPolicy::Never) => {
                let event = event::never_pull(&named);
                let message = event.message.clone();
                self.container_event(name, event);
                self.container_event(name, event::container_failed("ErrImageNeverPull"));
                self.slot(name).fail("ErrImageNeverPull", message, now, LOOK_AGAIN);
            }
            (Ok(None), PullPolicy::IfNotPresent) | (Ok(_), PullPolicy::Always) => {
                self.container_event(name, event::pulling(&named));
                self.slot(name).op = Some(Op::Pulling);
                self.emit(Command::PullImage { container: name.to_owned(), image: image::with_tag(&named) });
            }
        }
    }

    pub(super) fn image_pulled(
        &mut self,
        name: &str,
        result: Result<(ImageInfo, SignedDuration), String>,
        now: Timestamp,
    ) {
        if !self.is_doing(name, |op| *op == Op::Pulling) {
            return;
        }
        let pod = Arc::clone(&self.pod);
        let Some(container) = find(&pod, name) else { return };
        let named = container.image.clone().unwrap_or_default();
        match result {
            Ok((info, took)) => {
                self.container_event(name, event::pulled(&named, took, info.size));
                self.slot(name).pulls.reset();
                self.create(container, &info, now);
            }
            Err(error) => {
                self.container_event(name, event::pull_failed(&named, &error));
                self.container_event(name, event::container_failed("ErrImagePull"));
                let wait = self.next_pull_delay(name, now);
                self.slot(name).fail("ErrImagePull", error, now, wait);
            }
        }
    }

    fn create(&mut self, container: &Container, image: &ImageInfo, now: Timestamp) {
        let name = container.name.as_str();
        let Some((sandbox_id, sandbox_attempt)) = self.sandbox().map(|sandbox| (sandbox.id.clone(), sandbox.attempt))
        else {
            // It was lost meanwhile; the start begins anew in the next one.
            self.slot(name).op = None;
            return;
        };
        let known = self.records(name).map(|record| record.attempt).max();
        let attempt =
            known.max(self.slots.get(name).and_then(|slot| slot.attempt)).map_or(0, |last| last.saturating_add(1));
        let pod = Arc::clone(&self.pod);
        let fields = Fields { pod: &pod, node: &self.node, pod_ips: &self.pod_ips };
        match container::config(&fields, container, &self.objects, image, attempt) {
            Err(error) => {
                self.container_event(name, event::container_failed(&error.to_string()));
                self.slot(name).fail("CreateContainerConfigError", error.to_string(), now, LOOK_AGAIN);
            }
            Ok(config) => {
                let sandbox = sandbox::config(&pod, &self.node, sandbox_attempt);
                self.slot(name).op = Some(Op::Creating);
                self.emit(Command::CreateContainer {
                    sandbox_id,
                    config: Box::new(config),
                    sandbox: Box::new(sandbox),
                });
            }
        }
    }

    pub(super) fn container_created(&mut self, name: &str, result: Result<String, String>, now: Timestamp) {
        if !self.is_doing(name, |op| *op == Op::Creating) {
            return;
        }
        match result {
            Ok(_) if self.is_winding_down() => self.slot(name).op = None,
            Ok(id) => {
                self.container_event(name, event::created(name));
                self.start(name, id);
            }
            Err(error) => {
                self.container_event(name, event::container_failed(&error));
                self.slot(name).fail("CreateContainerError", error, now, LOOK_AGAIN);
            }
        }
    }

    /// A container that was made before the agent restarted, or whose start failed.
    pub(super) fn start_created(&mut self, name: &str, id: &str, now: Timestamp) {
        let held = self.slots.get(name).and_then(|slot| slot.failure.as_ref()).map(|failure| failure.retry_at);
        if !self.wait_until(held, now) {
            self.start(name, id.to_owned());
        }
    }

    fn start(&mut self, name: &str, id: String) {
        self.slot(name).op = Some(Op::Starting { id: id.clone() });
        self.emit(Command::StartContainer { container: name.to_owned(), id });
    }

    pub(super) fn container_started(&mut self, name: &str, result: Result<(), String>, now: Timestamp) {
        let Some(Op::Starting { id }) = self.slots.get(name).and_then(|slot| slot.op.clone()) else { return };
        if let Err(error) = result {
            self.container_event(name, event::container_failed(&error));
            self.slot(name).fail("RunContainerError", error, now, SignedDuration::from_secs(1));
            return;
        }
        self.container_event(name, event::started(name));
        let slot = self.slot(name);
        slot.failure = None;
        slot.op = None;
        let pod = Arc::clone(&self.pod);
        let hook = find(&pod, name).and_then(|container| {
            let hook = container.lifecycle.as_ref()?.post_start.as_ref()?;
            Some((container, hook))
        });
        let Some((container, hook)) = hook.filter(|_| !self.is_winding_down()) else { return };
        match check::of_hook(container, hook, self.pod_ips.first().map_or("", String::as_str)) {
            Ok(None) => {}
            Ok(Some(check)) => {
                self.slot(name).op = Some(Op::PostStart { id: id.clone() });
                let (container, kind) = (name.to_owned(), HookKind::PostStart);
                // The container may not be stopped for it to end, so that it has all the time that there is.
                let timeout = SignedDuration::from_hours(24);
                self.emit(Command::RunHook { container, id, kind, check, timeout });
            }
            Err(error) => self.post_start_failed(container, &id, &error.to_string(), now),
        }
    }

    pub(super) fn hook_done(
        &mut self,
        name: &str,
        id: &str,
        kind: HookKind,
        result: Result<(), String>,
        now: Timestamp,
    ) {
        let pod = Arc::clone(&self.pod);
        match (kind, self.slots.get(name).and_then(|slot| slot.op.clone())) {
            (HookKind::PostStart, Some(Op::PostStart { id: current })) if current == id => {
                self.slot(name).op = None;
                if let (Err(error), Some(container)) = (result, find(&pod, name)) {
                    self.post_start_failed(container, id, &error, now);
                }
            }
            (HookKind::PreStop, Some(Op::PreStop { id: current, deadline })) if current == id => {
                if result.is_err() {
                    self.container_event(name, event::pre_stop_failed());
                }
                self.stop(name, id, deadline, now);
            }
            _ => {}
        }
    }

    fn post_start_failed(&mut self, container: &Container, id: &str, _error: &str, now: Timestamp) {
        self.container_event(&container.name, event::post_start_failed());
        let grace = crate::pods::grace_seconds(spec(&self.pod)).max(1);
        self.kill(container, id, after(now, grace), "FailedPostStartHook".to_owned(), now);
    }
}

/// A container of the pod by name.
pub(super) fn find<'a>(pod: &'a k8s_openapi::api::core::v1::Pod, name: &str) -> Option<&'a Container> {
    let spec = spec(pod);
    spec.containers.iter().chain(spec.init_containers.iter().flatten()).find(|container| container.name == name)
}
