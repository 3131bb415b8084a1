use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, Taint};
use serde_json::{Value, json};

use super::eviction::{Stay, stay};
use super::{Lifecycle, PodCollector};
use crate::api::Subresource;
use crate::controllers::simulation::settings;
use crate::controllers::testing::{World, node, node_status};
use crate::controllers::{Controller, Index, Key, Kind, Outcome, Turn};

struct Scene {
    world: World,
    index: Index,
    node: Key,
}

impl Scene {
    fn new() -> Self {
        let mut world = World::new();
        let key = world.must(node("node-1"));
        world.merge(&key, Some(Subresource::Status), &node_status(world.now)).expect("a status");
        let other = world.must(node("node-2"));
        world.merge(&other, Some(Subresource::Status), &node_status(world.now)).expect("a status");
        let mut index = Index::default();
        index.apply(world.listing(), world.now);
        Self { world, index, node: key }
    }

    fn turn(&self) -> Turn {
        Turn { now: self.world.now, seed: 1 }
    }

    fn outcome(&mut self) -> Outcome {
        self.index.apply(self.world.listing(), self.world.now);
        let settings = crate::controllers::Settings {
            node_monitor_grace: SignedDuration::from_secs(40),
            node_eviction: SignedDuration::from_secs(300),
            ..settings()
        };
        Lifecycle::new(&settings).reconcile(&self.node, &self.index, self.turn())
    }

    /// Reconciles until nothing is left to do now; gives reasons and messages of the Events.
    fn run(&mut self) -> Vec<String> {
        let mut messages = Vec::new();
        for _ in 0..10 {
            let outcome = self.outcome();
            if outcome.actions.is_empty() {
                return messages;
            }
            for action in outcome.actions {
                self.world.write(&action.write).unwrap_or_else(|status| panic!("{}", status.message));
                messages.extend(action.done.map(|note| format!("{} {}", note.reason, note.message)));
            }
        }
        panic!("does not settle");
    }

    fn value(&self) -> &Value {
        self.world.value(&self.node).expect("is there")
    }

    fn pod(&mut self, name: &str, tolerations: Value) -> Key {
        let key = self.world.must(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {"nodeName": "node-1", "tolerations": tolerations, "containers": [{"name": "main", "image": "demo:1"}]},
        }));
        let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        self.world.merge(&key, Some(Subresource::Status), &ready).expect("a status");
        key
    }

    fn deleted(&self, pod: &Key) -> bool {
        self.world.value(pod).is_none_or(crate::api::meta::is_deleting)
    }
}

#[test]
fn a_silent_node_becomes_unknown_after_the_grace() {
    let mut scene = Scene::new();
    assert_eq!(scene.outcome().requeue_after, Some(SignedDuration::from_secs(40)));
    scene.world.pass(SignedDuration::from_secs(39));
    assert!(scene.outcome().actions.is_empty());
    scene.world.pass(SignedDuration::from_secs(1));
    let messages = scene.run();
    assert_eq!(messages, ["NodeNotReady Node node-1 status is now: NodeNotReady"]);
    let ready = &scene.value()["status"]["conditions"][0];
    assert_eq!((&ready["status"], &ready["reason"]), (&json!("Unknown"), &json!("NodeStatusUnknown")));
    assert_eq!(ready["message"], "Kubelet stopped posting node status.");
    let pressure = &scene.value()["status"]["conditions"][1];
    assert_eq!((&pressure["type"], &pressure["reason"]), (&json!("MemoryPressure"), &json!("NodeStatusNeverUpdated")));
    let taints = scene.value()["spec"]["taints"].clone();
    assert_eq!(taints[0]["key"], "node.kubernetes.io/unreachable");
    assert_eq!((&taints[0]["effect"], &taints[1]["effect"]), (&json!("NoSchedule"), &json!("NoExecute")));
    assert!(taints[1]["timeAdded"].is_string());
}

#[test]
fn a_lease_is_a_sign_of_life_and_its_own_times_are_not_believed() {
    let mut scene = Scene::new();
    let lease = scene.world.must(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "node-1", "namespace": "kube-node-lease"},
        "spec": {"renewTime": "1999-01-01T00:00:00.000000Z"},
    }));
    scene.outcome();
    scene.world.pass(SignedDuration::from_secs(39));
    let renewed = json!({"spec": {"renewTime": "1999-01-01T00:00:10.000000Z"}});
    scene.world.merge(&lease, None, &renewed).expect("renews");
    assert_eq!(scene.outcome().requeue_after, Some(SignedDuration::from_secs(40)));
    scene.world.pass(SignedDuration::from_secs(40));
    assert!(!scene.outcome().actions.is_empty());
}

#[test]
fn taints_follow_conditions_and_leave_others_alone() {
    let mut scene = Scene::new();
    let mine = json!([{"key": "team", "value": "a", "effect": "NoSchedule"}]);
    scene
        .world
        .merge(&scene.node.clone(), None, &json!({"spec": {"taints": mine, "unschedulable": true}}))
        .expect("taints");
    let mut status = node_status(scene.world.now);
    status["status"]["conditions"][0]["status"] = "False".into();
    let pressure = json!({"type": "DiskPressure", "status": "True"});
    status["status"]["conditions"].as_array_mut().expect("conditions").push(pressure);
    scene.world.merge(&scene.node.clone(), Some(Subresource::Status), &status).expect("a status");
    scene.run();
    let taints = |scene: &Scene| -> Vec<String> {
        let taints = scene.value()["spec"]["taints"].as_array().cloned().unwrap_or_default();
        taints
            .iter()
            .map(|taint| {
                format!(
                    "{} {}",
                    taint["key"].as_str().unwrap_or_default(),
                    taint["effect"].as_str().unwrap_or_default()
                )
            })
            .collect()
    };
    assert_eq!(
        taints(&scene),
        [
            "team NoSchedule",
            "node.kubernetes.io/not-ready NoSchedule",
            "node.kubernetes.io/not-ready NoExecute",
            "node.kubernetes.io/disk-pressure NoSchedule",
            "node.kubernetes.io/unschedulable NoSchedule",
        ]
    );
    scene.world.merge(&scene.node.clone(), Some(Subresource::Status), &node_status(scene.world.now)).expect("a status");
    scene.world.merge(&scene.node.clone(), None, &json!({"spec": {"unschedulable": null}})).expect("uncordons");
    scene.run();
    assert_eq!(taints(&scene), ["team NoSchedule"]);
}

#[test]
fn pods_of_a_lost_node_leave_service_at_once_and_go_when_their_time_is_up() {
    let mut scene = Scene::new();
    let tolerant = json!([{"operator": "Exists"}]);
    let short = json!([{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]);
    let (daemon, short, plain) =
        (scene.pod("daemon", tolerant), scene.pod("short", short), scene.pod("plain", json!([])));
    scene.world.pass(SignedDuration::from_secs(40));
    scene.run();
    for pod in [&daemon, &short, &plain] {
        let ready = &scene.world.value(pod).expect("is there")["status"]["conditions"][0];
        assert_eq!(ready["status"], "False", "{pod}");
        assert!(!scene.deleted(pod));
    }
    scene.world.pass(SignedDuration::from_secs(5));
    let messages = scene.run();
    assert_eq!(messages, ["TaintManagerEviction Marking for deletion Pod default/short"]);
    assert!(scene.deleted(&short) && !scene.deleted(&plain));
    scene.world.pass(SignedDuration::from_secs(300));
    scene.run();
    assert!(scene.deleted(&plain) && !scene.deleted(&daemon));
}

#[test]
fn the_shortest_matching_toleration_counts() {
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    let taint = |key: &str| -> Taint {
        serde_json::from_value(json!({"key": key, "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}))
            .expect("a taint")
    };
    let (lost, other) = (taint("node.kubernetes.io/not-ready"), taint("gpu"));
    let seconds = |seconds: i64| Stay::Until(now + SignedDuration::from_secs(seconds));
    let exists =
        |key: &str, seconds: Option<i64>| json!({"key": key, "operator": "Exists", "tolerationSeconds": seconds});
    for (tolerations, taints, expected) in [
        (json!([]), vec![&lost], seconds(60)),
        (json!([]), vec![&other], seconds(0)),
        (json!([exists("gpu", None)]), vec![&other], Stay::Forever),
        (json!([exists("gpu", Some(7)), exists("gpu", None)]), vec![&other], seconds(7)),
        (json!([exists("node.kubernetes.io/not-ready", Some(300))]), vec![&lost], seconds(60)),
        (json!([exists("node.kubernetes.io/not-ready", Some(3))]), vec![&lost], seconds(3)),
        (
            json!([exists("node.kubernetes.io/not-ready", None), exists("gpu", Some(9))]),
            vec![&lost, &other],
            seconds(9),
        ),
    ] {
        let pod: Pod =
            serde_json::from_value(json!({"metadata": {}, "spec": {"containers": [], "tolerations": tolerations}}))
                .expect("a pod");
        assert_eq!(stay(&pod, &taints, SignedDuration::from_secs(60), now), expected, "{tolerations}");
    }
}

#[test]
fn pods_of_a_removed_node_go_after_the_quarantine() {
    let mut scene = Scene::new();
    let pod = scene.pod("web", json!([]));
    scene.index.apply(scene.world.listing(), scene.world.now);
    scene.world.remove(&scene.node.clone());
    scene.index.apply(scene.world.listing(), scene.world.now);
    let outcome = PodCollector.reconcile(&scene.node, &scene.index, scene.turn());
    assert_eq!(outcome.requeue_after, Some(SignedDuration::from_secs(40)));
    scene.world.pass(SignedDuration::from_secs(40));
    let outcome = PodCollector.reconcile(&scene.node, &scene.index, scene.turn());
    for action in outcome.actions {
        scene.world.write(&action.write).expect("deletes");
    }
    assert!(scene.world.value(&pod).is_none());
}

#[test]
fn a_deleted_pod_without_a_node_goes_at_once() {
    let mut world = World::new();
    let pod = world.must(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "finalizers": ["example.com/keep"]},
        "spec": {"containers": [{"name": "main", "image": "demo:1"}]},
    }));
    world.delete(&pod, &crate::api::DeleteOptions::default()).expect("deletes");
    let mut index = Index::default();
    index.apply(world.listing(), world.now);
    let outcome =
        PodCollector.reconcile(&Key::new(Kind::Pod, "default", "web"), &index, Turn { now: world.now, seed: 1 });
    assert_eq!(outcome.actions.len(), 1);
}
