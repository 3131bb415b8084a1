use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{ReplicaSets, rank};
use crate::api::{DeleteOptions, Subresource};
use crate::controllers::testing::World;
use crate::controllers::{Controller, Index, Key, Kind, Outcome, Turn, Write};

fn set(replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}, "annotations": {"note": "kept"}},
                "spec": {"containers": [{"name": "main", "image": "demo:1"}]},
            },
        },
    })
}

fn outcome(world: &World, key: &Key) -> Outcome {
    let mut index = Index::default();
    index.apply(world.listing(), world.now);
    ReplicaSets.reconcile(key, &index, Turn { now: world.now, seed: world.revision })
}

fn run(world: &mut World, key: &Key) -> Vec<String> {
    let mut messages = Vec::new();
    for action in outcome(world, key).actions {
        world.write(&action.write).unwrap_or_else(|status| panic!("{}: {:?}", status.message, action.write));
        messages.extend(action.done.map(|note| format!("{} {}", note.reason, note.message)));
    }
    messages
}

#[test]
fn missing_pods_are_created_from_the_template() {
    let mut world = World::new();
    let key = world.must(set(2));
    let messages = run(&mut world, &key);
    let pods = world.keys(Kind::Pod);
    assert_eq!(pods.len(), 2);
    let pod = world.value(&pods[0]).expect("is there");
    assert!(pods[0].name.starts_with("web-") && pods[0].name.len() == "web-".len() + 5, "{}", pods[0].name);
    assert_eq!(pod["metadata"]["annotations"]["note"], "kept");
    assert_eq!(pod["metadata"]["ownerReferences"][0]["kind"], "ReplicaSet");
    let mut expected: Vec<String> =
        pods.iter().map(|pod| format!("SuccessfulCreate Created pod: {}", pod.name)).collect();
    let mut messages: Vec<String> = messages.into_iter().filter(|message| message.starts_with("Successful")).collect();
    expected.sort();
    messages.sort();
    assert_eq!(messages, expected);
    run(&mut world, &key);
    assert_eq!(world.value(&key).expect("is there")["status"]["replicas"], 2);
    assert_eq!(outcome(&world, &key), Outcome::idle());
}

#[test]
fn finished_and_terminating_pods_are_replaced() {
    let mut world = World::new();
    let key = world.must(set(2));
    run(&mut world, &key);
    let pods = world.keys(Kind::Pod);
    let failed = json!({"status": {"phase": "Failed"}});
    world.merge(&pods[0], Some(Subresource::Status), &failed).expect("a status");
    world.merge(&pods[1], None, &json!({"metadata": {"finalizers": ["example.com/keep"]}})).expect("a finalizer");
    world.delete(&pods[1], &DeleteOptions::default()).expect("deletes");
    run(&mut world, &key);
    assert_eq!(world.keys(Kind::Pod).len(), 4);
}

#[test]
fn surplus_pods_are_deleted_with_an_event() {
    let mut world = World::new();
    let key = world.must(set(3));
    run(&mut world, &key);
    world.merge(&key, None, &json!({"spec": {"replicas": 1}})).expect("scales");
    let messages = run(&mut world, &key);
    assert_eq!(world.keys(Kind::Pod).len(), 1);
    assert_eq!(messages.iter().filter(|message| message.starts_with("SuccessfulDelete Deleted pod: web-")).count(), 2);
}

#[test]
fn pods_are_adopted_and_let_go_by_their_labels() {
    let mut world = World::new();
    let pod = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "demo:1"}]},
        })
    };
    let stray = world.must(pod("stray"));
    let key = world.must(set(1));
    run(&mut world, &key);
    assert_eq!(world.keys(Kind::Pod), std::slice::from_ref(&stray), "the stray pod is enough");
    assert_eq!(world.value(&stray).expect("is there")["metadata"]["ownerReferences"][0]["name"], "web");
    world.merge(&stray, None, &json!({"metadata": {"labels": {"app": "other"}}})).expect("relabels");
    run(&mut world, &key);
    assert!(world.value(&stray).expect("is there")["metadata"].get("ownerReferences").is_none());
    assert_eq!(world.keys(Kind::Pod).len(), 2);
}

#[test]
fn a_pod_is_available_only_after_min_ready_seconds() {
    let mut world = World::new();
    let mut value = set(1);
    value["spec"]["minReadySeconds"] = 10.into();
    let key = world.must(value);
    run(&mut world, &key);
    let pod = world.keys(Kind::Pod).remove(0);
    let since = crate::api::meta::time_text(world.now);
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]}});
    world.merge(&pod, Some(Subresource::Status), &ready).expect("a status");
    run(&mut world, &key);
    let status = |world: &World| world.value(&key).expect("is there")["status"].clone();
    assert_eq!((&status(&world)["readyReplicas"], &status(&world)["availableReplicas"]), (&json!(1), &json!(0)));
    assert_eq!(outcome(&world, &key).requeue_after, Some(jiff::SignedDuration::from_secs(10)));
    world.pass(jiff::SignedDuration::from_secs(10));
    run(&mut world, &key);
    assert_eq!(status(&world)["availableReplicas"], 1);
}

#[test]
fn a_burst_is_bounded() {
    let mut world = World::new();
    let key = world.must(set(2000));
    let creations = outcome(&world, &key).actions;
    let creations = creations.iter().filter(|action| matches!(action.write, Write::Create(_))).count();
    assert_eq!(creations, 500);
}

#[test]
fn victims_are_ranked() {
    let now: Timestamp = "2026-01-01T10:00:00Z".parse().expect("a time");
    let pod = |name: &str, node: &str, ready: Option<&str>, more: Value| -> Arc<Pod> {
        let conditions = ready.map(|since| json!([{"type": "Ready", "status": "True", "lastTransitionTime": since}]));
        let mut value = json!({
            "metadata": {"name": name, "creationTimestamp": "2026-01-01T09:00:00Z"},
            "spec": {"nodeName": node, "containers": []},
            "status": {"phase": "Running", "conditions": conditions},
        });
        json_patch::merge(&mut value, &more);
        Arc::new(serde_json::from_value(value).expect("a pod"))
    };
    let old = Some("2026-01-01T09:00:00Z");
    let pods = vec![
        pod("steady", "b", old, json!({})),
        pod("crowded", "a", old, json!({})),
        pod(
            "crowding",
            "a",
            old,
            json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "5"}}}),
        ),
        pod(
            "cheap",
            "c",
            old,
            json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}}),
        ),
        pod("young", "d", Some("2026-01-01T09:59:00Z"), json!({})),
        pod("unready", "e", None, json!({})),
        pod("pending", "f", None, json!({"status": {"phase": "Pending"}})),
        pod("unassigned", "", None, json!({"status": {"phase": "Pending"}})),
        pod(
            "restarted",
            "g",
            old,
            json!({"status": {"containerStatuses": [
                {"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 3},
            ]}}),
        ),
    ];
    let names: Vec<_> =
        rank::victims(&pods, &pods, 9, now).iter().map(|pod| pod.metadata.name.clone().unwrap_or_default()).collect();
    let expected = ["unassigned", "pending", "unready", "cheap", "crowded", "young", "restarted", "steady", "crowding"];
    assert_eq!(names, expected);
}
