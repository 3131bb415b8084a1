use serde_json::{Value, json};

use super::*;

fn cells(status: Value, extra: Value) -> Vec<Value> {
    let mut pod = json!({"metadata": {"name": "web", "creationTimestamp": "2026-12-01T11:00:00Z"},
        "spec": {"containers": [{"name": "a"}, {"name": "b"}], "nodeName": "n1"}, "status": status});
    json_patch::merge(&mut pod, &extra);
    row(&pod, "2026-12-01T12:00:00Z".parse().unwrap())
}

fn running(ready: bool) -> Value {
    json!({"ready": ready, "restartCount": 0, "state": {"running": {}}})
}

fn container(state: Value) -> Value {
    json!({"ready": false, "restartCount": 0, "state": state})
}

#[track_caller]
fn shows(status: Value, extra: Value, ready: &str, text: &str) {
    let cells = cells(status, extra);
    assert_eq!((cells[1].as_str().unwrap(), cells[2].as_str().unwrap()), (ready, text));
}

#[test]
fn status_by_phase_and_containers() {
    shows(json!({"phase": "Pending"}), json!({}), "0/2", "Pending");
    shows(
        json!({"phase": "Running", "containerStatuses": [running(true), running(true)]}),
        json!({}),
        "2/2",
        "Running",
    );
    shows(
        json!({"phase": "Running", "containerStatuses": [running(true), running(false)]}),
        json!({}),
        "1/2",
        "Running",
    );
    let creating = container(json!({"waiting": {"reason": "ContainerCreating"}}));
    shows(
        json!({"phase": "Pending", "containerStatuses": [creating, creating]}),
        json!({}),
        "0/2",
        "ContainerCreating",
    );
    let crashing = container(json!({"waiting": {"reason": "CrashLoopBackOff"}}));
    shows(
        json!({"phase": "Running", "containerStatuses": [running(true), crashing]}),
        json!({}),
        "1/2",
        "CrashLoopBackOff",
    );
    let done = container(json!({"terminated": {"reason": "Completed", "exitCode": 0}}));
    shows(json!({"phase": "Succeeded", "containerStatuses": [done, done]}), json!({}), "0/2", "Completed");
    shows(json!({"phase": "Running", "containerStatuses": [done, running(true)]}), json!({}), "1/2", "NotReady");
    let ready = json!([{"type": "Ready", "status": "True"}]);
    shows(
        json!({"phase": "Running", "containerStatuses": [done, running(true)], "conditions": ready}),
        json!({}),
        "1/2",
        "Running",
    );
    shows(
        json!({"phase": "Failed", "containerStatuses": [container(json!({"terminated": {"exitCode": 3}}))]}),
        json!({}),
        "0/2",
        "ExitCode:3",
    );
    shows(
        json!({"phase": "Failed", "containerStatuses": [container(json!({"terminated": {"exitCode": 137, "signal": 9}}))]}),
        json!({}),
        "0/2",
        "Signal:9",
    );
    shows(json!({"phase": "Failed", "reason": "Evicted"}), json!({}), "0/2", "Evicted");
    let gated = json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]);
    shows(json!({"phase": "Pending", "conditions": gated}), json!({}), "0/2", "SchedulingGated");
}

#[test]
fn status_of_a_deleted_pod() {
    let deleted = json!({"metadata": {"deletionTimestamp": "2026-12-01T12:00:00Z"}});
    shows(
        json!({"phase": "Running", "containerStatuses": [running(true), running(true)]}),
        deleted.clone(),
        "2/2",
        "Terminating",
    );
    shows(json!({"phase": "Succeeded"}), deleted.clone(), "0/2", "Succeeded");
    shows(json!({"phase": "Running", "reason": "NodeLost"}), deleted, "0/2", "Unknown");
}

#[test]
fn status_while_initialising() {
    let spec = json!({"spec": {"initContainers": [{"name": "i"}, {"name": "j"}]}});
    let done = json!({"name": "i", "state": {"terminated": {"exitCode": 0}}});
    let with = |second: Value| json!({"phase": "Pending", "initContainerStatuses": [done, second]});
    shows(
        json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}),
        spec.clone(),
        "0/2",
        "Init:0/2",
    );
    shows(with(json!({"name": "j", "state": {"running": {}}})), spec.clone(), "0/2", "Init:1/2");
    shows(
        with(json!({"name": "j", "state": {"waiting": {"reason": "PodInitializing"}}})),
        spec.clone(),
        "0/2",
        "Init:1/2",
    );
    shows(
        with(json!({"name": "j", "state": {"waiting": {"reason": "ImagePullBackOff"}}})),
        spec.clone(),
        "0/2",
        "Init:ImagePullBackOff",
    );
    shows(with(json!({"name": "j", "state": {"terminated": {"exitCode": 2}}})), spec.clone(), "0/2", "Init:ExitCode:2");
    shows(
        with(json!({"name": "j", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}})),
        spec,
        "0/2",
        "Init:Error",
    );
    let sidecar = json!({"spec": {"initContainers": [{"name": "s", "restartPolicy": "Always"}]}});
    let status = json!({"phase": "Running", "initContainerStatuses": [{"name": "s", "started": true, "ready": true, "state": {"running": {}}}],
        "containerStatuses": [running(true), running(true)]});
    shows(status, sidecar, "3/3", "Running");
}

#[test]
fn restarts_and_wide_columns() {
    let restarted = json!({"ready": true, "restartCount": 3, "state": {"running": {}}, "lastState": {"terminated": {"finishedAt": "2026-12-01T11:55:00Z"}}});
    let status = json!({"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
        "containerStatuses": [restarted, running(true)], "conditions": [{"type": "g/a", "status": "True"}]});
    let gates = json!({"spec": {"readinessGates": [{"conditionType": "g/a"}, {"conditionType": "g/b"}]}});
    assert_eq!(
        Value::from(cells(status, gates)),
        json!(["web", "2/2", "Running", "3 (5m ago)", "60m", "10.0.0.1", "n1", "<none>", "1/2"])
    );
    assert_eq!(
        Value::from(cells(json!({"phase": "Pending"}), json!({"spec": {"nodeName": null}}))),
        json!(["web", "0/2", "Pending", "0", "60m", "<none>", "<none>", "<none>", "<none>"])
    );
}

#[test]
fn quality_of_service() {
    let class = |resources: Value| qos_class(&json!({"containers": [{"resources": resources}]}));
    assert_eq!(class(json!({})), "BestEffort");
    assert_eq!(class(json!({"requests": {"cpu": "1"}})), "Burstable");
    assert_eq!(
        class(json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}})),
        "Guaranteed"
    );
    assert_eq!(
        class(json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}})),
        "Burstable"
    );
    assert_eq!(class(json!({"limits": {"cpu": "0"}})), "BestEffort");
}
