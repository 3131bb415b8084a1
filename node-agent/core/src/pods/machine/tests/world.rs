//! A runtime as a value: what it holds, and the results of commands.

use serde_json::{Value, json};

use super::super::*;
use crate::pods::command::{Done, HookKind, Reread};
use crate::pods::image::ImageInfo;
use crate::pods::observed::Exit;
use crate::pods::probe::{ProbeKind, ProbeOutcome};
use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};

/// One pod, its machine, and the runtime under it.
pub(in super::super) struct World {
    pub(in super::super) machine: Machine,
    pub(in super::super) now: Timestamp,
    pub(in super::super) held: Observed,
    pub(in super::super) reports: Vec<Report>,
    pub(in super::super) events: Vec<(String, String)>,
    /// What the machine asked for, in short.
    pub(in super::super) asked: Vec<String>,
    pub(in super::super) wake: Option<Timestamp>,
    pub(in super::super) finished: bool,
    /// Commands that begin with one of these are not answered.
    pub(in super::super) unanswered: Vec<&'static str>,
    /// Commands that begin with these fail.
    pub(in super::super) failing: Vec<&'static str>,
    /// Images that the runtime has.
    pub(in super::super) has_image: bool,
    pub(in super::super) outcome: ProbeOutcome,
    ids: u32,
}

pub(in super::super) const START: i64 = 1_800_000_000;

pub(in super::super) fn pod(spec: Value) -> Pod {
    let mut spec = spec;
    if spec.get("containers").is_none() {
        spec["containers"] = json!([{"name": "app", "image": "app:1"}]);
    }
    serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u1"}, "spec": spec}))
        .unwrap()
}

impl World {
    /// A pod of this spec, on a node that has its image.
    pub(in super::super) fn new(spec: Value) -> Self {
        Self::of(pod(spec), Observed::default())
    }

    pub(in super::super) fn of(pod: Pod, held: Observed) -> Self {
        let node = NodeFacts {
            name: "n1".to_owned(),
            addresses: vec!["192.0.2.1".to_owned()],
            runtime: "containerd".to_owned(),
            log_dir: "/logs".to_owned(),
            ..NodeFacts::default()
        };
        Self {
            machine: Machine::new(Arc::new(pod), Objects::default(), Arc::new(node)),
            now: Timestamp::from_second(START).unwrap(),
            held,
            reports: vec![],
            events: vec![],
            asked: vec![],
            wake: None,
            finished: false,
            unanswered: vec![],
            failing: vec![],
            has_image: true,
            outcome: ProbeOutcome::Success,
            ids: 0,
        }
    }

    /// Begins with what the runtime holds.
    pub(in super::super) fn begin(&mut self) -> &mut Self {
        let held = self.held.clone();
        self.input(Input::Observed(held));
        self
    }

    /// Takes an input, and answers what follows from it until nothing does.
    pub(in super::super) fn input(&mut self, input: Input) {
        let mut inputs = vec![input];
        while !inputs.is_empty() {
            let step = self.machine.handle(inputs.remove(0), self.now);
            self.wake = step.wake;
            self.finished |= step.finished;
            for command in step.commands {
                inputs.extend(self.answer(command));
            }
        }
    }

    /// Lets time pass, with a look at every moment that the machine asks for.
    pub(in super::super) fn pass(&mut self, seconds: i64) -> &mut Self {
        let end = after(self.now, seconds);
        let mut looks = 0;
        while let Some(wake) = self.wake.filter(|wake| *wake <= end) {
            self.now = wake.max(self.now);
            self.input(Input::Tick);
            looks += 1;
            assert!(looks < 1000, "the machine asks for one moment again and again");
        }
        self.now = end;
        self.input(Input::Tick);
        self
    }

    pub(in super::super) fn status(&self) -> &PodStatus {
        &self.reports.last().expect("no report yet").status
    }

    pub(in super::super) fn container(&self, name: &str) -> &ContainerStatus {
        let status = self.status();
        let mut all = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
        all.find(|status| status.name == name).unwrap()
    }

    pub(in super::super) fn phase(&self) -> &str {
        self.status().phase.as_deref().unwrap()
    }

    /// `True`, `False`, or the reason why not after it.
    pub(in super::super) fn condition(&self, type_: &str) -> String {
        let conditions = self.status().conditions.as_ref().unwrap();
        let condition = conditions.iter().find(|condition| condition.type_ == type_).unwrap();
        match &condition.reason {
            None => condition.status.clone(),
            Some(reason) => format!("{} {reason}", condition.status),
        }
    }

    /// The state of a container in short: `running`, or the reason of its waiting or end.
    pub(in super::super) fn state(&self, name: &str) -> String {
        let state = self.container(name).state.clone().unwrap();
        let waiting = state.waiting.and_then(|waiting| waiting.reason);
        let ended = state.terminated.and_then(|ended| ended.reason);
        waiting.or(ended).unwrap_or_else(|| "running".to_owned())
    }

    pub(in super::super) fn reasons(&self) -> Vec<&str> {
        self.events.iter().map(|(reason, _)| reason.as_str()).collect()
    }

    pub(in super::super) fn take_asked(&mut self) -> Vec<String> {
        std::mem::take(&mut self.asked)
    }

    /// The container ends by itself.
    pub(in super::super) fn exits(&mut self, name: &str, code: i32) -> &mut Self {
        self.end(name, code);
        let held = self.held.clone();
        self.input(Input::Observed(held));
        self
    }

    /// The sandbox dies, and everything in it.
    pub(in super::super) fn sandbox_dies(&mut self) -> &mut Self {
        for sandbox in &mut self.held.sandboxes {
            sandbox.ready = false;
        }
        let names: Vec<String> = self.held.containers.iter().map(|record| record.name.clone()).collect();
        for name in names {
            self.end(&name, 137);
        }
        let held = self.held.clone();
        self.input(Input::Observed(held));
        self
    }

    fn end(&mut self, name: &str, code: i32) {
        let now = self.now;
        let running = self.held.containers.iter_mut().filter(|record| record.name == name);
        for record in running.filter(|record| matches!(record.state, ContainerState::Running { .. })) {
            let started_at = record.running_since();
            let (reason, message) = (String::new(), String::new());
            record.state = ContainerState::Exited(Exit { code, reason, message, started_at, finished_at: now });
        }
    }

    fn id(&mut self, kind: &str) -> String {
        self.ids += 1;
        format!("{kind}{}", self.ids)
    }

    pub(in super::super) fn reread(&self) -> Reread {
        Reread::Holds(self.held.clone())
    }

    fn answer(&mut self, command: Command) -> Option<Input> {
        let short = match &command {
            Command::Report(report) => {
                self.reports.push((**report).clone());
                return None;
            }
            Command::Event(event) => {
                self.events.push((event.reason.to_owned(), event.message.clone()));
                return None;
            }
            Command::WriteVolumes(_) => "write volumes".to_owned(),
            Command::CreateSandbox(config) => format!("create sandbox {}", config.attempt),
            Command::StopSandbox(id) => format!("stop sandbox {id}"),
            Command::RemoveSandbox(id) => format!("remove sandbox {id}"),
            Command::CheckImage { image, .. } => format!("check {image}"),
            Command::PullImage { image, .. } => format!("pull {image}"),
            Command::CreateContainer { config, .. } => format!("create {} {}", config.name, config.attempt),
            Command::StartContainer { container, .. } => format!("start {container}"),
            Command::StopContainer { container, grace, .. } => format!("stop {container} {}", grace.as_secs()),
            Command::RemoveContainer { log_path, .. } => format!("remove {log_path}"),
            Command::RunProbe { container, kind, .. } => format!("probe {container} {kind}"),
            Command::RunHook { container, kind: HookKind::PostStart, .. } => format!("postStart {container}"),
            Command::RunHook { container, kind: HookKind::PreStop, timeout, .. } => {
                format!("preStop {container} {}", timeout.as_secs())
            }
            Command::RemoveFiles => "remove files".to_owned(),
        };
        let unanswered = self.unanswered.iter().any(|prefix| short.starts_with(prefix));
        let fails = self.failing.iter().any(|prefix| short.starts_with(prefix));
        let failure = fails.then(|| "it broke".to_owned());
        self.asked.push(short);
        if unanswered {
            return None;
        }
        Some(self.carry_out(command, failure))
    }

    fn carry_out(&mut self, command: Command, failure: Option<String>) -> Input {
        let result = failure.map_or(Ok(()), Err);
        let unneeded = Reread::Unneeded;
        match command {
            Command::WriteVolumes(_) => {
                Input::Done(Done::VolumesWritten(result.map_err(|error| ("v".to_owned(), error))), unneeded)
            }
            Command::CreateSandbox(config) => {
                if result.is_ok() {
                    let (id, ips) = (self.id("s"), vec!["10.244.0.5".to_owned()]);
                    self.held.sandboxes.push(ObservedSandbox { id, attempt: config.attempt, ready: true, ips });
                }
                Input::Done(Done::SandboxCreated(result), self.reread())
            }
            Command::StopSandbox(id) => {
                if result.is_ok() {
                    let of_id = self.held.sandboxes.iter_mut().filter(|sandbox| sandbox.id == id);
                    of_id.for_each(|sandbox| sandbox.ready = false);
                }
                Input::Done(Done::SandboxStopped(id, result), self.reread())
            }
            Command::RemoveSandbox(id) => {
                if result.is_ok() {
                    self.held.sandboxes.retain(|sandbox| sandbox.id != id);
                    self.held.containers.retain(|record| record.sandbox_id != id);
                }
                Input::Done(Done::SandboxRemoved(id, result), self.reread())
            }
            Command::CheckImage { container, .. } => {
                let info = self.has_image.then(|| ImageInfo { id: "i1".to_owned(), ..ImageInfo::default() });
                Input::Done(Done::ImageChecked(container, result.map(|()| info)), unneeded)
            }
            Command::PullImage { container, .. } => {
                let info = (
                    ImageInfo { id: "i1".to_owned(), size: 7, ..ImageInfo::default() },
                    SignedDuration::from_millis(1500),
                );
                Input::Done(Done::ImagePulled(container, result.map(|()| info)), unneeded)
            }
            Command::CreateContainer { sandbox_id, config, .. } => {
                let id = self.id("c");
                if result.is_ok() {
                    let hash = config.annotations[crate::pods::container::HASH].clone();
                    let (name, attempt) = (config.name.clone(), config.attempt);
                    let (image, image_id) = ("docker.io/library/app:1".to_owned(), "sha256:1".to_owned());
                    let state = ContainerState::Created;
                    let record =
                        ObservedContainer { id: id.clone(), sandbox_id, name, attempt, hash, image, image_id, state };
                    self.held.containers.push(record);
                }
                Input::Done(Done::ContainerCreated(config.name.clone(), result.map(|()| id)), unneeded)
            }
            Command::StartContainer { container, id } => {
                let now = self.now;
                let record = self.held.containers.iter_mut().find(|record| record.id == id).unwrap();
                record.state = match &result {
                    Ok(()) => ContainerState::Running { started_at: now },
                    Err(_) => {
                        let (reason, message) = ("StartError".to_owned(), "no such program".to_owned());
                        ContainerState::Exited(Exit { code: 128, reason, message, started_at: None, finished_at: now })
                    }
                };
                Input::Done(Done::ContainerStarted(container, result), self.reread())
            }
            Command::StopContainer { container, id, .. } => {
                if result.is_ok() {
                    self.end(&container, 143);
                }
                Input::Done(Done::ContainerStopped(container, id, result), self.reread())
            }
            Command::RemoveContainer { id, .. } => {
                self.held.containers.retain(|record| record.id != id);
                Input::Done(Done::ContainerRemoved(id, result), self.reread())
            }
            Command::RunProbe { container, id, kind, .. } => {
                Input::Done(Done::Probed(container, id, kind, self.outcome.clone()), unneeded)
            }
            Command::RunHook { container, id, kind, .. } => {
                Input::Done(Done::HookDone(container, id, kind, result), unneeded)
            }
            Command::RemoveFiles => Input::Done(Done::FilesRemoved(result), unneeded),
            Command::Report(_) | Command::Event(_) => unreachable!("answered by nobody"),
        }
    }

    /// A probe that was left unanswered ends now.
    pub(in super::super) fn probed(&mut self, name: &str, kind: ProbeKind, outcome: ProbeOutcome) {
        let id = self.held.containers.iter().rfind(|record| record.name == name).unwrap().id.clone();
        self.input(Input::Done(Done::Probed(name.to_owned(), id, kind, outcome), Reread::Unneeded));
    }
}
