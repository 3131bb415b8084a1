//! The stream of what the dataplane must obey.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use skep_proto::dataplane::v1::watch_event::Event;
use skep_proto::dataplane::v1::{WatchEvent, WatchRequest};
use tonic::Streaming;

use super::{Control, message, plain};
use crate::api::Subresource;

async fn watch(control: &Control, node: &str, resume_revision: u64) -> Streaming<WatchEvent> {
    let request = WatchRequest { node: node.to_owned(), resume_revision };
    control.dataplane(node).watch(request).await.unwrap().into_inner()
}

fn brief(event: &WatchEvent) -> String {
    match event.event.as_ref().unwrap() {
        Event::SnapshotBegin(_) => "begin".into(),
        Event::Synced(_) => "synced".into(),
        Event::Progress(_) => "progress".into(),
        Event::Deleted(deleted) => format!("-{:?} {}", deleted.kind(), deleted.name),
        Event::Service(service) => format!("service {}", service.name),
        Event::EndpointSlice(slice) => format!("slice {}", slice.name),
        Event::NetworkPolicy(policy) => format!("policy {}", policy.name),
        Event::Workload(workload) => format!("workload {} {}", workload.name, workload.addresses.join(",")),
        Event::Namespace(namespace) => format!("namespace {}", namespace.name),
        Event::NodeRoute(route) => format!("route {} {}", route.name, route.pod_cidrs.join(",")),
    }
}

/// The next event that is no progress.
async fn next_event(stream: &mut Streaming<WatchEvent>) -> WatchEvent {
    loop {
        let event = message(stream).await;
        if !matches!(event.event, Some(Event::Progress(_))) {
            return event;
        }
    }
}

async fn next(stream: &mut Streaming<WatchEvent>) -> (String, u64) {
    let event = next_event(stream).await;
    (brief(&event), event.revision)
}

/// Reads up to the mark that the state is complete: what was sent, in the order of the alphabet, and the revision.
async fn until_synced(stream: &mut Streaming<WatchEvent>) -> (Vec<String>, u64) {
    let mut seen = Vec::new();
    loop {
        let (text, revision) = next(stream).await;
        if text == "synced" {
            seen.sort();
            return (seen, revision);
        }
        seen.push(text);
    }
}

fn service(name: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}})
}

const NAMESPACES: [&str; 4] =
    ["namespace default", "namespace kube-node-lease", "namespace kube-public", "namespace kube-system"];

async fn run(control: &Control, pod: &str, address: &str) {
    control
        .modify("pods", Some(Subresource::Status), "default", pod, |pod| {
            pod["status"]["phase"] = "Running".into();
            pod["status"]["podIP"] = address.into();
            pod["status"]["podIPs"] = json!([{"ip": address}]);
        })
        .await;
}

#[tokio::test]
async fn the_whole_state_comes_first_and_then_each_change_once() {
    let control = Control::start().await;
    control.register("n1").await;
    control.create("services", "default", service("web")).await;
    control.pod("a", "n1", plain()).await;
    let mut stream = watch(&control, "n1", 0).await;
    let (seen, synced) = until_synced(&mut stream).await;
    let own = [
        "begin",
        NAMESPACES[0],
        NAMESPACES[1],
        NAMESPACES[2],
        NAMESPACES[3],
        "route n1 10.244.0.0/24,fd53:6b65:7070::/64",
        "service web",
    ];
    assert_eq!(seen, own);

    run(&control, "a", "10.244.0.7").await;
    let (workload, revision) = next(&mut stream).await;
    assert_eq!(workload, "workload a 10.244.0.7");
    assert!(revision > synced);
    // A heartbeat, and anything else that means nothing to packets, is not sent.
    control.modify("pods", Some(Subresource::Status), "default", "a", |pod| pod["status"]["reason"] = "x".into()).await;
    control.modify("nodes", None, "", "n1", |node| node["metadata"]["labels"]["x"] = "y".into()).await;
    control
        .modify("nodes", Some(Subresource::Status), "", "n1", |node| {
            node["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-01-01T00:01:00Z".into();
            node["status"]["images"] = json!([{"names": ["demo"], "sizeBytes": 1}]);
        })
        .await;
    control.modify("services", None, "default", "web", |s| s["metadata"]["labels"] = json!({"x": "y"})).await;
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "ports": [{"port": 8080, "protocol": "TCP", "name": ""}],
        "endpoints": [{"addresses": ["10.244.0.7"], "conditions": {"ready": true}}],
    });
    let made = control.create("endpointslices.discovery.k8s.io", "default", slice).await;
    assert_eq!(next(&mut stream).await, ("slice web-1".into(), made.revision));
    let policy = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": "deny"}, "spec": {"podSelector": {}}});
    control.create("networkpolicies.networking.k8s.io", "default", policy).await;
    assert_eq!(next(&mut stream).await.0, "policy deny");
    control.delete("networkpolicies.networking.k8s.io", "default", "deny").await;
    assert_eq!(next(&mut stream).await.0, "-NetworkPolicy deny");
    // A node that is lost must not be sent packets for load balancer addresses.
    control
        .modify("nodes", Some(Subresource::Status), "", "n1", |node| {
            node["status"]["conditions"][0]["status"] = "Unknown".into();
        })
        .await;
    assert_eq!(next(&mut stream).await.0, "route n1 10.244.0.0/24,fd53:6b65:7070::/64");
    // A pod that has ended has no address any more.
    control
        .modify("pods", Some(Subresource::Status), "default", "a", |pod| pod["status"]["phase"] = "Failed".into())
        .await;
    assert_eq!(next(&mut stream).await.0, "-Workload a");
}

fn unix_nanos() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos().try_into().unwrap()
}

/// The times of the objects up to the mark that the state is complete.
async fn times_until_synced(stream: &mut Streaming<WatchEvent>) -> Vec<u64> {
    let mut times = Vec::new();
    loop {
        let event = message(stream).await;
        match event.event {
            Some(Event::Synced(_)) => return times,
            Some(Event::SnapshotBegin(_) | Event::Progress(_)) => assert_eq!(event.changed_at_unix_nanos, 0),
            _ => times.push(event.changed_at_unix_nanos),
        }
    }
}

#[tokio::test]
async fn a_change_says_when_it_was_seen_and_a_snapshot_does_not() {
    let control = Control::start().await;
    let mut stream = watch(&control, "n1", 0).await;
    let (_, revision) = until_synced(&mut stream).await;
    let before = unix_nanos();
    control.create("services", "default", service("web")).await;
    let event = next_event(&mut stream).await;
    assert_eq!(brief(&event), "service web");
    let created = event.changed_at_unix_nanos;
    assert!((before..=unix_nanos()).contains(&created), "{created}");
    control.delete("services", "default", "web").await;
    let event = next_event(&mut stream).await;
    assert_eq!(brief(&event), "-Service web");
    assert!((created..=unix_nanos()).contains(&event.changed_at_unix_nanos));
    control.create("services", "default", service("late")).await;
    assert!(next_event(&mut stream).await.changed_at_unix_nanos >= created);

    // Who was away learns how long it takes to reach it; who begins has nothing to compare with.
    let mut resumed = watch(&control, "n1", revision).await;
    let times = times_until_synced(&mut resumed).await;
    assert!(times.len() == 2 && times.iter().all(|time| *time >= created), "{times:?}");
    let mut snapshot = watch(&control, "n2", 0).await;
    let times = times_until_synced(&mut snapshot).await;
    assert!(times.len() > 2 && times.iter().all(|time| *time == 0), "{times:?}");

    // A service that has just started cannot know.
    drop((stream, resumed, snapshot));
    let control = control.restart().await;
    let mut resumed = watch(&control, "n1", revision).await;
    assert_eq!(times_until_synced(&mut resumed).await, [0, 0]);
}

#[tokio::test]
async fn a_stream_resumes_with_what_changed_meanwhile() {
    let control = Control::start().await;
    control.create("services", "default", service("kept")).await;
    control.create("services", "default", service("gone")).await;
    let mut stream = watch(&control, "n1", 0).await;
    let (_, revision) = until_synced(&mut stream).await;
    drop(stream);
    control.delete("services", "default", "gone").await;
    control.create("services", "default", service("new")).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut stream = watch(&control, "n1", revision).await;
    let (seen, newest) = until_synced(&mut stream).await;
    assert_eq!(seen, ["-Service gone", "service new"]);
    drop(stream);

    let control = control.restart().await;
    let mut stream = watch(&control, "n1", revision).await;
    assert_eq!(until_synced(&mut stream).await.0, ["-Service gone", "service new"]);
    let mut stream = watch(&control, "n1", newest).await;
    assert!(until_synced(&mut stream).await.0.is_empty());
    let mut stream = watch(&control, "n1", newest + 1000).await;
    let (seen, _) = until_synced(&mut stream).await;
    assert_eq!(seen.len(), 1 + NAMESPACES.len() + 2, "{seen:?}");
    assert!(!seen.iter().any(|text| text.starts_with('-')), "{seen:?}");
}

#[tokio::test]
async fn many_objects_reach_many_streams_complete() {
    let control = Control::start().await;
    let mut streams = Vec::new();
    for node in 0..20 {
        streams.push(watch(&control, &format!("n{node}"), 0).await);
    }
    for stream in &mut streams {
        until_synced(stream).await;
    }
    let names: Vec<String> = (0..300).map(|n| format!("s{n:03}")).collect();
    futures_util::future::join_all(names.iter().map(|name| control.create("services", "default", service(name)))).await;
    for mut stream in streams {
        let (mut seen, mut last) = (Vec::new(), 0);
        while seen.len() < names.len() {
            let (text, revision) = next(&mut stream).await;
            assert!(revision >= last);
            (last, seen) = (revision, [seen, vec![text]].concat());
        }
        seen.sort();
        assert_eq!(seen, names.iter().map(|name| format!("service {name}")).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_quiet_stream_says_how_far_it_is() {
    let control = Control::start().await;
    let mut stream = watch(&control, "n1", 0).await;
    let (_, synced) = until_synced(&mut stream).await;
    control.config_map("cm", "1").await;
    let event = message(&mut stream).await;
    assert_eq!(brief(&event), "progress");
    assert!(event.revision > synced);
}

#[tokio::test]
async fn streams_end_when_the_service_does() {
    let control = Control::start().await;
    let mut stream = watch(&control, "n1", 0).await;
    until_synced(&mut stream).await;
    control.end();
    let ended = loop {
        match stream.message().await {
            Ok(Some(_)) => {}
            other => break other,
        }
    };
    assert_eq!(ended.unwrap_err().code(), tonic::Code::Unavailable);
    // One that comes too late is told as well.
    let mut late = watch(&control, "n1", 0).await;
    assert_eq!(late.message().await.unwrap_err().code(), tonic::Code::Unavailable);
}
