//! The status of a pod as users see it.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState as ApiState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, HostIP, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::conditions;
use super::machine::{Machine, Op, Role, spec};
use super::node::NodeFacts;
use super::observed::{ContainerState, Exit};
use super::qos;

/// The whole status.
pub(super) fn of(machine: &Machine, now: Timestamp) -> PodStatus {
    let spec = spec(&machine.pod);
    let init_statuses: Vec<ContainerStatus> = spec
        .init_containers
        .iter()
        .flatten()
        .map(|container| container_status(machine, container, Role::of_init(container)))
        .collect();
    let statuses: Vec<ContainerStatus> =
        spec.containers.iter().map(|container| container_status(machine, container, Role::Main)).collect();
    let phase = phase(machine, &init_statuses, &statuses);
    let conditions = conditions::of(machine, phase, &init_statuses, &statuses, now);
    let stored = machine.pod.status.as_ref();
    let addresses = &machine.node.addresses;
    let outcome = machine.outcome.as_ref();
    PodStatus {
        conditions: Some(conditions),
        container_statuses: Some(statuses),
        init_container_statuses: (!init_statuses.is_empty()).then_some(init_statuses),
        host_ip: addresses.first().cloned(),
        host_ips: (!addresses.is_empty()).then(|| addresses.iter().map(|ip| HostIP { ip: ip.clone() }).collect()),
        message: outcome.and_then(|outcome| outcome.message.clone()),
        reason: outcome.and_then(|outcome| outcome.reason.clone()),
        nominated_node_name: stored.and_then(|stored| stored.nominated_node_name.clone()),
        phase: Some(phase.to_owned()),
        pod_ip: machine.pod_ips.first().cloned(),
        pod_ips: (!machine.pod_ips.is_empty())
            .then(|| machine.pod_ips.iter().map(|ip| PodIP { ip: ip.clone() }).collect()),
        qos_class: Some(
            stored.and_then(|stored| stored.qos_class.clone()).unwrap_or_else(|| qos::class(spec).to_string()),
        ),
        start_time: machine.start_time.map(Time),
        ..PodStatus::default()
    }
}

/// `containerd://{id}`.
pub(super) fn container_id(node: &NodeFacts, id: &str) -> String {
    format!("{}://{id}", node.runtime)
}

/// `state.terminated` of a container that has ended.
pub(super) fn terminated(container_id: &str, exit: &Exit) -> ContainerStateTerminated {
    let by_code = if exit.code == 0 { "Completed" } else { "Error" };
    let reason = if exit.reason.is_empty() { by_code } else { exit.reason.as_str() };
    ContainerStateTerminated {
        container_id: Some(container_id.to_owned()),
        exit_code: exit.code,
        finished_at: Some(Time(exit.finished_at)),
        message: (!exit.message.is_empty()).then(|| exit.message.clone()),
        reason: Some(reason.to_owned()),
        signal: None,
        started_at: exit.started_at.map(Time),
    }
}

fn in_state(terminated: Option<ContainerStateTerminated>) -> Option<ApiState> {
    terminated.map(|terminated| ApiState { terminated: Some(terminated), ..ApiState::default() })
}

fn waiting(reason: &str, message: Option<String>) -> ApiState {
    let waiting = ContainerStateWaiting { reason: Some(reason.to_owned()), message };
    ApiState { waiting: Some(waiting), ..ApiState::default() }
}

fn container_status(machine: &Machine, container: &Container, role: Role) -> ContainerStatus {
    let name = container.name.as_str();
    let slot = machine.slots.get(name);
    let current = machine.latest(name);
    let id = current.map(|record| container_id(&machine.node, &record.id));
    let failure = slot.and_then(|slot| slot.failure.as_ref());
    let last_exit = slot.and_then(|slot| slot.last_exit.clone());
    let has_init = spec(&machine.pod).init_containers.iter().flatten().next().is_some();
    let waiting_state = || match failure {
        Some(failure) => waiting(failure.reason, Some(failure.message.clone())),
        None if has_init && last_exit.is_none() => waiting("PodInitializing", None),
        None => waiting("ContainerCreating", None),
    };
    let will_run = machine.outcome.is_none() && !machine.is_terminating();
    let mut running = false;
    let (state, last_state) = match current.map(|record| &record.state) {
        Some(ContainerState::Running { started_at }) => {
            running = true;
            let running = ContainerStateRunning { started_at: Some(Time(*started_at)) };
            (ApiState { running: Some(running), ..ApiState::default() }, in_state(last_exit))
        }
        Some(ContainerState::Exited(exit)) => {
            let ended = terminated(id.as_deref().unwrap_or_default(), exit);
            if failure.is_some() && will_run {
                (waiting_state(), in_state(Some(ended)))
            } else {
                let before =
                    machine.records(name).filter(|record| Some(&record.id) != current.map(|current| &current.id));
                let before = before.max_by_key(|record| record.attempt);
                let before = before
                    .and_then(|record| Some(terminated(&container_id(&machine.node, &record.id), record.exit()?)));
                (ApiState { terminated: Some(ended), ..ApiState::default() }, in_state(before))
            }
        }
        Some(ContainerState::Created | ContainerState::Unknown) => (waiting_state(), in_state(last_exit)),
        // The runtime has forgotten it.
        None if !will_run && slot.is_some_and(|slot| slot.attempt.is_some()) => {
            let ended = last_exit.unwrap_or_else(|| ContainerStateTerminated {
                exit_code: 137,
                reason: Some("ContainerStatusUnknown".to_owned()),
                message: Some("The container could not be located when the pod was terminated".to_owned()),
                ..ContainerStateTerminated::default()
            });
            (ApiState { terminated: Some(ended), ..ApiState::default() }, None)
        }
        None => (waiting_state(), in_state(last_exit)),
    };
    let probes = slot.and_then(|slot| slot.probes.as_ref()).filter(|_| running);
    let in_hook = slot.is_some_and(|slot| matches!(slot.op, Some(Op::PostStart { .. })));
    let ready = match role {
        Role::Init => machine.exit_code(name) == Some(0),
        // Also while the pod is going away, as far as its probes tell: what serves to the end is the last resort of a Service
        // that has nothing else (KEP-1669).
        Role::Sidecar | Role::Main => probes.is_some_and(super::probe::Probes::is_ready) && !in_hook,
    };
    let stored = slot.and_then(|slot| slot.stored.as_ref());
    let named = container.image.clone().unwrap_or_default();
    let image =
        current.map(|record| record.image.as_str()).filter(|image| !image.is_empty() && !image.starts_with("sha256:"));
    ContainerStatus {
        container_id: id.or_else(|| stored.and_then(|stored| stored.container_id.clone())),
        image: image.map_or(named, str::to_owned),
        image_id: current
            .map(|record| record.image_id.clone())
            .or_else(|| stored.map(|stored| stored.image_id.clone()))
            .unwrap_or_default(),
        last_state: Some(last_state.unwrap_or_default()),
        name: name.to_owned(),
        ready,
        restart_count: current
            .map(|record| record.attempt)
            .or_else(|| slot.and_then(|slot| slot.attempt))
            .and_then(|attempt| i32::try_from(attempt).ok())
            .unwrap_or(0),
        started: Some(probes.is_some_and(super::probe::Probes::is_started) && !in_hook),
        state: Some(state),
        ..ContainerStatus::default()
    }
}

/// How many containers are in which state.
#[derive(Default)]
struct Counts {
    waiting: usize,
    running: usize,
    stopped: usize,
    succeeded: usize,
}

impl Counts {
    fn of(statuses: &[ContainerStatus]) -> Self {
        let mut counts = Self::default();
        for status in statuses {
            let ended_before = status.last_state.as_ref().is_some_and(|state| state.terminated.is_some());
            match &status.state {
                Some(ApiState { running: Some(_), .. }) => counts.running += 1,
                Some(ApiState { terminated: Some(terminated), .. }) => {
                    counts.stopped += 1;
                    counts.succeeded += usize::from(terminated.exit_code == 0);
                }
                _ if ended_before => counts.stopped += 1,
                _ => counts.waiting += 1,
            }
        }
        counts
    }
}

fn phase(machine: &Machine, init_statuses: &[ContainerStatus], statuses: &[ContainerStatus]) -> &'static str {
    let counts = Counts::of(statuses);
    if let Some(outcome) = machine.outcome.as_ref().filter(|_| machine.all_stopped()) {
        return if outcome.failed { "Failed" } else { "Succeeded" };
    }
    let ended = counts.running == 0 && counts.waiting == 0 && counts.stopped > 0;
    if machine.is_terminating() && machine.all_stopped() && ended {
        return if counts.succeeded == counts.stopped { "Succeeded" } else { "Failed" };
    }
    let started = counts.running > 0 || counts.stopped > 0;
    if !started && init_statuses.iter().any(|status| !conditions::is_initialized(machine, status)) {
        return "Pending";
    }
    match counts {
        Counts { waiting: 1.., stopped: 0, .. } => "Pending",
        _ if started => "Running",
        _ => "Pending",
    }
}
