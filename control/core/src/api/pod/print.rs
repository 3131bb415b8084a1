//! The row of `kubectl get pods`.

use serde_json::Value;

use crate::api::access::{items, text};
use crate::api::meta;
use crate::api::table::{age, human, or_none};

/// Cells: name, ready, status, restarts, age, address, node, nominated node, readiness gates.
pub(crate) fn row(pod: &Value, now: jiff::Timestamp) -> Vec<Value> {
    let summary = Summary::of(pod);
    let restarts = match summary.last_restart.filter(|_| summary.restarts > 0) {
        Some(time) => format!("{} ({} ago)", summary.restarts, human(now.duration_since(time))),
        None => summary.restarts.to_string(),
    };
    let status = &pod["status"];
    let address = items(&status["podIPs"]).first().map_or(text(&status["podIP"]), |ip| text(&ip["ip"]));
    vec![
        meta::name(pod).into(),
        format!("{}/{}", summary.ready, summary.total).into(),
        summary.status.into(),
        restarts.into(),
        age(pod, now),
        or_none(address),
        or_none(text(&pod["spec"]["nodeName"])),
        or_none(text(&status["nominatedNodeName"])),
        gates(pod),
    ]
}

fn gates(pod: &Value) -> Value {
    let gates = items(&pod["spec"]["readinessGates"]);
    if gates.is_empty() {
        return "<none>".into();
    }
    let met = gates.iter().filter(|gate| condition(pod, text(&gate["conditionType"])) == Some("True")).count();
    format!("{met}/{}", gates.len()).into()
}

fn condition<'a>(pod: &'a Value, kind: &str) -> Option<&'a str> {
    items(&pod["status"]["conditions"]).iter().find(|c| c["type"] == kind).map(|c| text(&c["status"]))
}

/// What the containers of a pod come to in one line.
struct Summary {
    status: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<jiff::Timestamp>,
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let (spec, status) = (&pod["spec"], &pod["status"]);
        let phase = text(&status["phase"]);
        let mut summary = Self {
            status: match text(&status["reason"]) {
                "" => phase.to_owned(),
                reason => reason.to_owned(),
            },
            ready: 0,
            total: items(&spec["containers"]).len(),
            restarts: 0,
            last_restart: None,
        };
        let gated = items(&status["conditions"])
            .iter()
            .any(|c| c["type"] == "PodScheduled" && c["reason"] == "SchedulingGated");
        if gated {
            summary.status = "SchedulingGated".into();
        }
        let (initializing, sidecar_restarts) = summary.init_containers(spec, status);
        if !initializing || condition(pod, "Initialized") == Some("True") {
            summary.restarts = sidecar_restarts;
            summary.containers(pod, status);
        }
        if meta::is_deleting(pod) {
            if text(&status["reason"]) == "NodeLost" {
                summary.status = "Unknown".into();
            } else if !matches!(phase, "Succeeded" | "Failed") {
                summary.status = "Terminating".into();
            }
        }
        summary
    }

    /// Whether initialisation goes on, and the restarts of sidecars.
    fn init_containers(&mut self, spec: &Value, status: &Value) -> (bool, i64) {
        let specs = items(&spec["initContainers"]);
        let is_sidecar =
            |name: &Value| specs.iter().any(|c| c["name"] == *name && text(&c["restartPolicy"]) == "Always");
        self.total += specs.iter().filter(|c| text(&c["restartPolicy"]) == "Always").count();
        let mut sidecar_restarts = 0;
        for (index, container) in items(&status["initContainerStatuses"]).iter().enumerate() {
            let sidecar = is_sidecar(&container["name"]);
            let restarts = container["restartCount"].as_i64().unwrap_or_default();
            self.restarts += restarts;
            self.note_restart(container);
            if sidecar {
                sidecar_restarts += restarts;
            }
            let state = &container["state"];
            if !state["terminated"].is_null() && state["terminated"]["exitCode"].as_i64().unwrap_or_default() == 0 {
                continue;
            }
            if sidecar && container["started"] == true {
                self.ready += usize::from(container["ready"] == true);
                continue;
            }
            let waiting = text(&state["waiting"]["reason"]);
            self.status = if let Some(ended) = ended(&state["terminated"]) {
                format!("Init:{ended}")
            } else if !waiting.is_empty() && waiting != "PodInitializing" {
                format!("Init:{waiting}")
            } else {
                format!("Init:{index}/{}", specs.len())
            };
            return (true, sidecar_restarts);
        }
        (false, sidecar_restarts)
    }

    fn containers(&mut self, pod: &Value, status: &Value) {
        let mut running = false;
        for container in items(&status["containerStatuses"]).iter().rev() {
            self.restarts += container["restartCount"].as_i64().unwrap_or_default();
            self.note_restart(container);
            let state = &container["state"];
            let waiting = text(&state["waiting"]["reason"]);
            if !waiting.is_empty() {
                self.status = waiting.to_owned();
            } else if let Some(ended) = ended(&state["terminated"]) {
                self.status = ended;
            } else if container["ready"] == true && !state["running"].is_null() {
                running = true;
                self.ready += 1;
            }
        }
        if self.status == "Completed" && running {
            let ready = condition(pod, "Ready") == Some("True");
            self.status = if ready { "Running" } else { "NotReady" }.into();
        }
    }

    fn note_restart(&mut self, container: &Value) {
        let ended = meta::time(&container["lastState"]["terminated"]["finishedAt"]);
        self.last_restart = self.last_restart.max(ended);
    }
}

/// How a container ended: its reason, else signal or exit code.
fn ended(terminated: &Value) -> Option<String> {
    if terminated.is_null() {
        return None;
    }
    let reason = text(&terminated["reason"]);
    if !reason.is_empty() {
        return Some(reason.to_owned());
    }
    match terminated["signal"].as_i64().unwrap_or_default() {
        0 => Some(format!("ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or_default())),
        signal => Some(format!("Signal:{signal}")),
    }
}
