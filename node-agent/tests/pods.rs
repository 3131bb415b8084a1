//! Pods on a real containerd: what users see when they run one.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests fail by panicking"
)]

#[path = "pods/image.rs"]
mod image;
#[path = "pods/world.rs"]
mod world;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use skep_agent::pods::Desired;
use world::{Containerd, World, condition, container, pod};

fn reasons(events: &[(String, String)]) -> Vec<&str> {
    events.iter().map(|(reason, _)| reason.as_str()).collect()
}

fn as_object<T: serde::de::DeserializeOwned>(value: Value) -> Box<T> {
    Box::new(serde_json::from_value(value).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_to_completion_and_is_removed() {
    let Some(containerd) = Containerd::start() else { return };
    let world = World::start(&containerd);
    let began = Instant::now();
    let pod = pod(
        "once",
        "echo hello from $NAME; sleep 0.2",
        json!({"env": [{"name": "NAME", "value": "a pod"}]}),
        json!({"restartPolicy": "Never"}),
    );
    world.run(&pod);
    world.pods.handle(Desired::Synced);
    let status = world.phase("once", "Running").await;
    println!("create to Running: {:?}", began.elapsed());
    assert_eq!(status.pod_ip.as_deref(), Some("192.0.2.1"));
    let followed = world.get("/containerLogs/test/once/app?follow=true").await;
    assert_eq!(followed, (200, "hello from a pod\n".to_owned()), "a log that is followed ends with the container");
    let status = world.phase("once", "Succeeded").await;
    let terminated = container(&status).state.clone().unwrap().terminated.unwrap();
    assert_eq!((terminated.exit_code, terminated.reason.as_deref()), (0, Some("Completed")));
    assert!(container(&status).container_id.as_ref().unwrap().starts_with("containerd://"));
    assert!(!container(&status).image_id.is_empty());
    assert_eq!(world.get("/containerLogs/test/once/app").await, (200, "hello from a pod\n".to_owned()));
    assert_eq!(reasons(&world.events("once")), ["Pulled", "Created", "Started"]);
    world.delete(&pod, 30);
    world.terminated("once").await;
    world.forget(&pod);
    let began = Instant::now();
    while containerd.path("agent/pods/once-uid").exists() || containerd.path("logs/test_once_once-uid").exists() {
        assert!(began.elapsed() < Duration::from_secs(20), "files of the pod are left");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(world.pods.sandboxes().await.unwrap().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn crashes_are_restarted_with_back_off() {
    let Some(containerd) = Containerd::start() else { return };
    let world = World::start(&containerd);
    let script = "echo start; echo went wrong > /dev/termination-log; exit 3";
    let pod = pod("crash", script, json!({}), json!({}));
    world.run(&pod);
    let status = world
        .wait("crash", "in CrashLoopBackOff", |report| {
            let waiting = container(&report.status).state.clone()?.waiting?;
            (waiting.reason.as_deref() == Some("CrashLoopBackOff")).then(|| report.status.clone())
        })
        .await;
    let status = container(&status);
    assert_eq!(status.restart_count, 1, "the first restart is immediate");
    let message = status.state.as_ref().unwrap().waiting.as_ref().unwrap().message.clone();
    assert_eq!(message.as_deref(), Some("back-off 10s restarting failed container=app pod=crash_test(crash-uid)"));
    let last = status.last_state.as_ref().unwrap().terminated.as_ref().unwrap();
    assert_eq!(
        (last.exit_code, last.reason.as_deref(), last.message.as_deref()),
        (3, Some("Error"), Some("went wrong\n"))
    );
    assert_eq!(world.get("/containerLogs/test/crash/app?previous=true").await, (200, "start\n".to_owned()));
    assert!(reasons(&world.events("crash")).contains(&"BackOff"));
    world
        .wait("crash", "restarted after 10 s", |report| (container(&report.status).restart_count == 2).then_some(()))
        .await;
    world.delete(&pod, 1);
    world.terminated("crash").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn configuration_reaches_the_container_and_follows_changes() {
    let Some(containerd) = Containerd::start() else { return };
    let world = World::start(&containerd);
    let map = |color: &str| {
        as_object(json!({"metadata": {"name": "settings", "namespace": "test"}, "data": {"color": color}}))
    };
    let script = "echo env $COLOR $PASSWORD $POD $LIMIT; ls -a /etc/settings; while true; do echo file $(cat /etc/settings/color); sleep 0.1; done";
    let pod = pod(
        "configured",
        script,
        json!({
            "env": [
                {"name": "COLOR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "color"}}},
                {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "login", "key": "password"}}},
                {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
            ],
            "resources": {"limits": {"memory": "64Mi", "cpu": "500m"}},
            "volumeMounts": [
                {"name": "settings", "mountPath": "/etc/settings"}, {"name": "login", "mountPath": "/etc/login"},
                {"name": "cache", "mountPath": "/cache", "subPath": "a/b"}, {"name": "memory", "mountPath": "/memory"},
                {"name": "info", "mountPath": "/etc/info"},
            ],
            "lifecycle": {"postStart": {"exec": {"command": ["sh", "-c", "cp /etc/login/password /etc/info/labels /cache; echo x > /memory/y"]}}},
        }),
        json!({
            "terminationGracePeriodSeconds": 1,
            "volumes": [
                {"name": "settings", "configMap": {"name": "settings"}}, {"name": "login", "secret": {"secretName": "login"}},
                {"name": "cache", "emptyDir": {}}, {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
                {"name": "info", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
            ],
        }),
    );
    world.run(&pod);
    let mounting = || reasons(&world.events("configured")).contains(&"FailedMount");
    let began = Instant::now();
    while !mounting() {
        assert!(began.elapsed() < Duration::from_secs(20), "the missing ConfigMap is told");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world.pods.handle(Desired::ConfigMap(map("red")));
    world.pods.handle(Desired::Secret(as_object(
        json!({"metadata": {"name": "login", "namespace": "test"}, "data": {"password": "aHVudGVyMg=="}}),
    )));
    let status = world.ready("configured").await;
    assert_eq!(status.qos_class.as_deref(), Some("Guaranteed"));
    let log = world.log_shows("configured", "file red").await;
    assert!(log.contains("env red hunter2 configured 64\n"), "{log}");
    let volume = containerd.path("agent/pods/configured-uid/volumes/cache/a/b");
    assert_eq!(std::fs::read_to_string(volume.join("password")).unwrap(), "hunter2");
    assert_eq!(std::fs::read_to_string(volume.join("labels")).unwrap(), "app=\"configured\"");
    world.pods.handle(Desired::ConfigMap(map("blue")));
    world.log_shows("configured", "file blue").await;
    let last = world.last("configured").unwrap();
    assert_eq!(container(&last.status).restart_count, 0, "a changed ConfigMap restarts nothing");
    world.delete(&pod, 1);
    world.terminated("configured").await;
    world.forget(&pod);
    let began = Instant::now();
    while containerd.path("agent/pods/configured-uid").exists() {
        assert!(began.elapsed() < Duration::from_secs(20), "files of the pod are left");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_decide_readiness_and_restarts() {
    let Some(containerd) = Containerd::start() else { return };
    let world = World::start(&containerd);
    let probed = pod(
        "probed",
        "touch /alive; sleep 1; touch /ready; sleep 1000",
        json!({
            "readinessProbe": {"exec": {"command": ["cat", "/ready"]}, "periodSeconds": 1},
            "livenessProbe": {"exec": {"command": ["cat", "/alive"]}, "periodSeconds": 1, "failureThreshold": 1, "initialDelaySeconds": 1},
        }),
        json!({"terminationGracePeriodSeconds": 1}),
    );
    world.run(&probed);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let serving = pod(
        "serving",
        &format!("mkdir /www; echo ok > /www/index.html; sleep 1; httpd -f -p 127.0.0.1:{port} -h /www"),
        json!({
            "ports": [{"name": "web", "containerPort": port}],
            "readinessProbe": {"httpGet": {"host": "127.0.0.1", "port": "web", "path": "/index.html"}, "periodSeconds": 1},
            "startupProbe": {"tcpSocket": {"host": "127.0.0.1", "port": port}, "periodSeconds": 1, "failureThreshold": 30},
            "livenessProbe": {"httpGet": {"host": "127.0.0.1", "port": port, "path": "/none"}, "periodSeconds": 1, "failureThreshold": 5},
        }),
        json!({"terminationGracePeriodSeconds": 1}),
    );
    world.run(&serving);
    world.ready("probed").await;
    let failed = world.events("probed").into_iter().find(|(reason, _)| reason == "Unhealthy").unwrap();
    assert!(failed.1.starts_with("Readiness probe failed: cat: can't open '/ready'"), "{}", failed.1);
    world.ready("serving").await;
    let messages: Vec<String> = world.events("serving").into_iter().map(|(_, message)| message).collect();
    let refused = format!("Startup probe failed: dial tcp 127.0.0.1:{port}: connect: connection refused");
    assert!(messages.contains(&refused), "{messages:?}");
    world.wait("serving", "restarted", |report| (container(&report.status).restart_count == 1).then_some(())).await;
    let messages: Vec<String> = world.events("serving").into_iter().map(|(_, message)| message).collect();
    assert!(
        messages.contains(&"Liveness probe failed: HTTP probe failed with statuscode: 404".to_owned()),
        "{messages:?}"
    );
    assert!(messages.contains(&"Container app failed liveness probe, will be restarted".to_owned()), "{messages:?}");
    world.delete(&probed, 1);
    world.delete(&serving, 1);
    world.terminated("probed").await;
    world.terminated("serving").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deletion_is_graceful_and_has_an_end() {
    let Some(containerd) = Containerd::start() else { return };
    let world = World::start(&containerd);
    let script = "trap 'echo asked; sleep 0.5; echo done; exit 0' TERM; echo up; while true; do sleep 0.1; done";
    let polite = pod(
        "polite",
        script,
        json!({"lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", "echo hook > /proc/1/fd/1"]}}}}),
        json!({}),
    );
    let deaf = pod("deaf", "trap '' TERM; echo up; while true; do sleep 0.1; done", json!({}), json!({}));
    for pod in [&polite, &deaf] {
        world.run(pod);
    }
    world.ready("polite").await;
    world.ready("deaf").await;
    world.log_shows("polite", "up").await;
    world.log_shows("deaf", "up").await;
    let began = Instant::now();
    world.delete(&polite, 30);
    let status = world.terminated("polite").await;
    assert!(began.elapsed() < Duration::from_secs(10), "it need not wait for the grace to end");
    assert_eq!(container(&status).state.clone().unwrap().terminated.unwrap().exit_code, 0);
    assert_eq!(status.phase.as_deref(), Some("Succeeded"));
    let began = Instant::now();
    world.delete(&deaf, 2);
    let status = world.terminated("deaf").await;
    assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(container(&status).state.clone().unwrap().terminated.unwrap().exit_code, 137);
    assert_eq!(status.phase.as_deref(), Some("Failed"));
    assert!(world.events("deaf").contains(&("Killing".to_owned(), "Stopping container app".to_owned())));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_the_agent_restarts_nothing() {
    let Some(containerd) = Containerd::start() else { return };
    let kept =
        pod("kept", "echo up; sleep 1000", json!({"readinessProbe": {"exec": {"command": ["true"]}}}), json!({}));
    let orphan = pod("orphan", "sleep 1000", json!({}), json!({"terminationGracePeriodSeconds": 1}));
    let world = World::start(&containerd);
    world.run(&kept);
    world.run(&orphan);
    let before = world.ready("kept").await;
    world.ready("orphan").await;
    drop(world);

    let world = World::start(&containerd);
    let mut stored = kept.clone();
    stored.status = Some(before.clone());
    world.pods.handle(Desired::SnapshotBegin);
    world.run(&stored);
    let after = world.ready("kept").await;
    assert_eq!(container(&before).container_id, container(&after).container_id);
    assert_eq!(container(&after).restart_count, 0);
    let always_ready = world.reports("kept").iter().all(|report| condition(&report.status, "Ready") == "True");
    assert!(always_ready, "readiness is not lost in between");
    assert_eq!(before.start_time, after.start_time);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.pods.sandboxes().await.unwrap().len(), 2, "nothing is removed before the snapshot is complete");
    world.pods.handle(Desired::Synced);
    let began = Instant::now();
    while world.pods.sandboxes().await.unwrap().len() > 1 || containerd.path("agent/pods/orphan-uid").exists() {
        assert!(began.elapsed() < Duration::from_secs(30), "the orphan is removed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    world.delete(&kept, 1);
    world.terminated("kept").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_containers_and_sandboxes_are_replaced() {
    let Some(containerd) = Containerd::start() else { return };
    let world = World::start(&containerd);
    let pod = pod("lost", "sleep 1000", json!({}), json!({}));
    world.run(&pod);
    let status = world.ready("lost").await;
    let id = container(&status).container_id.clone().unwrap();
    let (killed, output) = containerd.ctr(&["tasks", "kill", "-s", "SIGKILL", id.trim_start_matches("containerd://")]);
    assert!(killed, "{output}");
    let died = world
        .wait("lost", "seen dead", |report| container(&report.status).state.clone()?.terminated?.finished_at)
        .await;
    println!("death noticed after {:?}", jiff::Timestamp::now().duration_since(died.0));
    world.wait("lost", "restarted", |report| (container(&report.status).restart_count == 1).then_some(())).await;
    world.ready("lost").await;
    let sandbox = world.pods.sandboxes().await.unwrap().remove(0);
    let (killed, output) = containerd.ctr(&["tasks", "kill", "-s", "SIGKILL", &sandbox.id]);
    assert!(killed, "{output}");
    let back = |report: &skep_agent::pods::PodReport| {
        (container(&report.status).restart_count == 2 && condition(&report.status, "Ready") == "True").then_some(())
    };
    world.wait("lost", "in a new sandbox", back).await;
    assert!(reasons(&world.events("lost")).contains(&"SandboxChanged"));
    world.delete(&pod, 1);
    world.terminated("lost").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once() {
    let Some(containerd) = Containerd::start() else { return };
    let world = World::start(&containerd);
    let pods: Vec<_> = (0..20)
        .map(|number| pod(&format!("p{number}"), "trap 'exit 0' TERM; sleep 1000 & wait", json!({}), json!({})))
        .collect();
    let began = Instant::now();
    let mut times = Vec::new();
    for pod in &pods {
        world.run(pod);
    }
    for pod in &pods {
        world.ready(pod.metadata.name.as_deref().unwrap()).await;
        times.push(began.elapsed());
    }
    println!("20 pods create to Ready: p50 {:?}, last {:?}", times[times.len() / 2], times.last());
    let (status, list) = world.get("/pods").await;
    let list: Value = serde_json::from_str(&list).unwrap();
    assert_eq!((status, &list["kind"], list["items"].as_array().unwrap().len()), (200, &json!("PodList"), 20));
    assert_eq!(list["items"][0]["status"]["phase"], "Running");
    for pod in &pods {
        world.delete(pod, 5);
    }
    for pod in &pods {
        world.terminated(pod.metadata.name.as_deref().unwrap()).await;
        world.forget(pod);
    }
    let began = Instant::now();
    while !world.pods.sandboxes().await.unwrap().is_empty() || !world.pods.pods().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(60), "pods are left");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
