//! `status.conditions`: what has been reached, and since when.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::machine::{Machine, Role, spec};

const READY: &str = "Ready";
const CONTAINERS_READY: &str = "ContainersReady";
const INITIALIZED: &str = "Initialized";
const SCHEDULED: &str = "PodScheduled";
const HAS_SANDBOX: &str = "PodReadyToStartContainers";
/// In the order in which Kubernetes shows them.
const OWN: [&str; 5] = [HAS_SANDBOX, INITIALIZED, READY, CONTAINERS_READY, SCHEDULED];

/// Whether a condition holds, and why not.
struct Verdict {
    holds: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

impl Verdict {
    fn holds() -> Self {
        Self { holds: true, reason: None, message: None }
    }

    fn fails(reason: &'static str, message: Option<String>) -> Self {
        Self { holds: false, reason: Some(reason), message }
    }
}

/// The agent's conditions, and those that others have written.
pub(super) fn of(
    machine: &Machine,
    phase: &str,
    init_statuses: &[ContainerStatus],
    statuses: &[ContainerStatus],
    now: Timestamp,
) -> Vec<PodCondition> {
    let stored: &[PodCondition] =
        machine.pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let reported = machine.reported.as_ref().and_then(|report| report.status.conditions.as_deref());
    let before = |type_: &str| {
        let is = |condition: &&PodCondition| condition.type_ == type_;
        reported.and_then(|conditions| conditions.iter().find(is)).or_else(|| stored.iter().find(is))
    };
    let condition = |type_: &str, verdict: Verdict| {
        let status = if verdict.holds { "True" } else { "False" };
        let since = before(type_).filter(|before| before.status == status);
        PodCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: verdict.reason.map(ToOwned::to_owned),
            message: verdict.message,
            last_transition_time: since.and_then(|since| since.last_transition_time.clone()).or(Some(Time(now))),
            ..PodCondition::default()
        }
    };
    let containers_ready = || containers_ready(machine, phase, init_statuses, statuses);
    let has_sandbox = machine.sandbox().is_some();
    let has_sandbox = Verdict { holds: has_sandbox, reason: None, message: None };
    let mut conditions = vec![
        condition(HAS_SANDBOX, has_sandbox),
        condition(INITIALIZED, initialized(machine, phase, init_statuses)),
        condition(READY, ready(machine, containers_ready(), stored)),
        condition(CONTAINERS_READY, containers_ready()),
    ];
    let scheduled = stored.iter().find(|condition| condition.type_ == SCHEDULED);
    conditions.push(scheduled.cloned().unwrap_or_else(|| condition(SCHEDULED, Verdict::holds())));
    conditions.extend(stored.iter().filter(|condition| !OWN.contains(&condition.type_.as_str())).cloned());
    conditions
}

/// An init container lets the next one start.
pub(super) fn is_initialized(machine: &Machine, status: &ContainerStatus) -> bool {
    let inits = spec(&machine.pod).init_containers.iter().flatten();
    let role = inits.into_iter().find(|init| init.name == status.name).map(Role::of_init);
    match role {
        Some(Role::Sidecar) => status.started == Some(true),
        _ => status.ready,
    }
}

fn initialized(machine: &Machine, phase: &str, init_statuses: &[ContainerStatus]) -> Verdict {
    if phase == "Succeeded" {
        return Verdict { holds: true, reason: Some("PodCompleted"), message: None };
    }
    let main_started = spec(&machine.pod).containers.iter().any(|container| machine.latest(&container.name).is_some());
    let missing: Vec<&str> = init_statuses
        .iter()
        .filter(|status| !is_initialized(machine, status))
        .map(|status| status.name.as_str())
        .collect();
    if missing.is_empty() || main_started {
        return Verdict::holds();
    }
    Verdict::fails(
        "ContainersNotInitialized",
        Some(format!("containers with incomplete status: [{}]", missing.join(" "))),
    )
}

fn containers_ready(
    machine: &Machine,
    phase: &str,
    init_statuses: &[ContainerStatus],
    statuses: &[ContainerStatus],
) -> Verdict {
    match phase {
        "Succeeded" => return Verdict::fails("PodCompleted", None),
        "Failed" => return Verdict::fails("PodFailed", None),
        _ => {}
    }
    let inits = spec(&machine.pod).init_containers.iter().flatten();
    let sidecars: Vec<&str> =
        inits.filter(|init| Role::of_init(init) == Role::Sidecar).map(|init| init.name.as_str()).collect();
    let sidecar_statuses = init_statuses.iter().filter(|status| sidecars.contains(&status.name.as_str()));
    let unready: Vec<&str> =
        sidecar_statuses.chain(statuses).filter(|status| !status.ready).map(|status| status.name.as_str()).collect();
    if unready.is_empty() {
        return Verdict::holds();
    }
    Verdict::fails("ContainersNotReady", Some(format!("containers with unready status: [{}]", unready.join(" "))))
}

fn ready(machine: &Machine, containers: Verdict, stored: &[PodCondition]) -> Verdict {
    if !containers.holds {
        return containers;
    }
    for gate in spec(&machine.pod).readiness_gates.iter().flatten() {
        let type_ = &gate.condition_type;
        let found = stored.iter().find(|condition| condition.type_ == *type_);
        let message = match found.map(|condition| condition.status.as_str()) {
            Some("True") => continue,
            Some(status) => format!("the status of pod readiness gate \"{type_}\" is not \"True\", but {status}"),
            None => format!("corresponding condition of pod readiness gate \"{type_}\" does not exist."),
        };
        return Verdict::fails("ReadinessGatesNotReady", Some(message));
    }
    containers
}
