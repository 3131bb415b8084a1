use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{Decision, Scheduler};
use crate::api::Subresource;
use crate::controllers::testing::{World, node, service};
use crate::controllers::{Index, Key, Kind, Write};

/// The scheduler over a world; bindings are executed, nothing else happens.
struct Scene {
    world: World,
    index: Index,
    scheduler: Scheduler,
    seed: u64,
}

impl Scene {
    fn new() -> Self {
        Self { world: World::new(), index: Index::default(), scheduler: Scheduler::default(), seed: 0 }
    }

    fn sync(&mut self) {
        for touched in self.index.apply(self.world.listing(), self.world.now) {
            self.scheduler.observe(&touched, &self.index, self.world.now);
        }
    }

    fn node(&mut self, name: &str, change: Value) -> Key {
        let mut value = node(name);
        let mut status = json!({"status": {
            "allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True"}],
        }});
        if let Some(allocatable) = change.get("allocatable") {
            status["status"]["allocatable"] = allocatable.clone();
        }
        let mut change = change;
        change.as_object_mut().expect("an object").remove("allocatable");
        json_patch::merge(&mut value, &change);
        let key = self.world.must(value);
        self.world.merge(&key, Some(Subresource::Status), &status).expect("a status");
        key
    }

    fn pod(&mut self, name: &str, spec: Value) -> Key {
        let mut value = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "demo:1"}]},
        });
        json_patch::merge(&mut value["spec"], &spec);
        self.world.must(value)
    }

    fn decide(&mut self) -> Option<Decision> {
        self.sync();
        self.seed += 1;
        let decision = self.scheduler.decide(&self.index, self.world.now, self.seed)?;
        for action in &decision.actions {
            self.world.write(&action.write).unwrap_or_else(|status| panic!("{}", status.message));
        }
        self.scheduler.finish(&decision.pod, &decision.uid, true, self.world.now);
        self.sync();
        Some(decision)
    }

    /// Node of the next pod, or why there is none.
    fn verdict(&mut self) -> Result<String, String> {
        let decision = self.decide().expect("a pod waits");
        match decision.node {
            Some(node) => Ok(node),
            None => Err(decision.actions.last().and_then(|action| action.done.clone()).expect("an Event").message),
        }
    }
}

fn requests(cpu: &str, memory: &str) -> Value {
    json!({"containers": [{"name": "main", "image": "demo:1", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]})
}

#[test]
fn each_filter_gives_its_reason() {
    let taint = json!({"spec": {"taints": [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]}});
    let in_zone = |zone: &str| {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]},
        ]}}}})
    };
    for (node, pod, expected) in [
        (json!({"spec": {"unschedulable": true}}), json!({}), "1 node(s) were unschedulable"),
        (taint, json!({}), "1 node(s) had untolerated taint {gpu: true}"),
        (json!({}), json!({"nodeSelector": {"disk": "ssd"}}), "1 node(s) didn't match Pod's node affinity/selector"),
        (
            json!({"metadata": {"labels": {"zone": "a"}}}),
            in_zone("b"),
            "1 node(s) didn't match Pod's node affinity/selector",
        ),
        (json!({}), requests("3", "1Gi"), "1 Insufficient cpu"),
        (json!({}), requests("3", "5Gi"), "1 Insufficient cpu, 1 Insufficient memory"),
        (json!({"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "0"}}), json!({}), "1 Too many pods"),
    ] {
        let mut scene = Scene::new();
        scene.node("node-1", node.clone());
        scene.pod("web", pod.clone());
        let expected = format!("0/1 nodes are available: {expected}.");
        assert_eq!(scene.verdict(), Err(expected), "{node} {pod}");
    }
}

#[test]
fn reasons_of_all_nodes_are_summed_up_and_told_in_the_pods_condition() {
    let mut scene = Scene::new();
    scene.node("node-1", json!({}));
    scene.node("node-2", json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}}));
    let pod = scene.pod("web", requests("3", "1Gi"));
    let message = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {k: v}.";
    assert_eq!(scene.verdict(), Err(message.to_owned()));
    let conditions = &scene.world.value(&pod).expect("is there")["status"]["conditions"];
    let condition =
        conditions.as_array().expect("conditions").iter().find(|c| c["type"] == "PodScheduled").expect("one");
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("Unschedulable")));
    assert_eq!(condition["message"], message);
}

#[test]
fn a_node_that_is_not_ready_gets_no_pods_before_its_taint_is_written() {
    let mut scene = Scene::new();
    let node = scene.node("node-1", json!({}));
    let silent = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    scene.world.merge(&node, Some(Subresource::Status), &silent).expect("a status");
    scene.pod("web", json!({}));
    let expected = "0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }.";
    assert_eq!(scene.verdict(), Err(expected.to_owned()));
}

#[test]
fn without_nodes_it_says_so() {
    let mut scene = Scene::new();
    scene.pod("web", json!({}));
    assert_eq!(scene.verdict(), Err("no nodes available to schedule pods".to_owned()));
}

#[test]
fn a_host_port_is_taken_once_a_node() {
    let mut scene = Scene::new();
    scene.node("node-1", json!({}));
    let port = json!({"containers": [{"name": "main", "image": "demo:1", "ports": [{"containerPort": 80, "hostPort": 8080}]}]});
    scene.pod("a", port.clone());
    scene.pod("b", port);
    assert_eq!(scene.verdict(), Ok("node-1".to_owned()));
    let expected = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.";
    assert_eq!(scene.verdict(), Err(expected.to_owned()));
}

#[test]
fn ports_of_the_hosts_network_are_host_ports() {
    let mut scene = Scene::new();
    scene.node("node-1", json!({}));
    scene.node("node-2", json!({}));
    let server = |ports: Value| json!({"containers": [{"name": "main", "image": "demo:1", "ports": ports}]});
    let host = |port: i32| {
        let mut spec = server(json!([{"containerPort": port}]));
        spec["hostNetwork"] = true.into();
        spec
    };
    // A sidecar's port counts as well.
    let sidecar = json!({
        "containers": [{"name": "main", "image": "demo:1"}],
        "initContainers": [{"name": "side", "image": "demo:1", "restartPolicy": "Always", "ports": [{"containerPort": 1, "hostPort": 53}]}],
    });
    scene.pod("a", host(80));
    scene.pod("b", host(80));
    assert_ne!(scene.verdict().expect("a node"), scene.verdict().expect("a node"));
    scene.pod("c", server(json!([{"containerPort": 8080, "hostPort": 80}])));
    let expected = "0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports.";
    assert_eq!(scene.verdict(), Err(expected.to_owned()));
    // Another protocol is another port.
    scene.pod("d", server(json!([{"containerPort": 80, "hostPort": 80, "protocol": "UDP"}])));
    scene.verdict().expect("a node");
    scene.pod("e", sidecar.clone());
    scene.pod("f", sidecar.clone());
    scene.pod("g", sidecar);
    scene.verdict().expect("a node");
    scene.verdict().expect("a node");
    assert_eq!(scene.verdict(), Err(expected.to_owned()));
}

#[test]
fn host_ports_of_two_addresses_do_not_clash() {
    let mut scene = Scene::new();
    scene.node("node-1", json!({}));
    let at = |ip: &str| json!({"containers": [{"name": "main", "image": "demo:1", "ports": [{"containerPort": 80, "hostPort": 80, "hostIP": ip}]}]});
    scene.pod("a", at("192.0.2.1"));
    scene.pod("b", at("192.0.2.2"));
    scene.pod("c", at("0.0.0.0"));
    scene.verdict().expect("a node");
    scene.verdict().expect("a node");
    scene.verdict().expect_err("all addresses include those two");
}

#[test]
fn tolerations_and_affinity_open_a_node() {
    let mut scene = Scene::new();
    scene.node(
        "node-1",
        json!({
            "metadata": {"labels": {"zone": "a", "size": "4"}},
            "spec": {"taints": [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]},
        }),
    );
    scene.pod(
        "web",
        json!({
            "tolerations": [{"key": "gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"}],
            "nodeSelector": {"zone": "a"},
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x"]}]},
                {"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["3"]}],
                 "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]},
            ]}}},
        }),
    );
    let decision = scene.decide().expect("a pod waits");
    assert_eq!(decision.node.as_deref(), Some("node-1"));
    let note = decision.actions[0].done.clone().expect("an Event");
    assert_eq!((note.reason, note.message.as_str()), ("Scheduled", "Successfully assigned default/web to node-1"));
    assert!(matches!(&decision.actions[0].write, Write::Bind { node, .. } if node == "node-1"));
}

#[test]
fn preferences_decide_between_nodes_that_would_do() {
    for (what, first, second, spec, expected) in [
        (
            "affinity",
            json!({}),
            json!({"metadata": {"labels": {"disk": "ssd"}}}),
            json!({"affinity": {"nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 10, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}},
                ],
            }}}),
            "b",
        ),
        ("taint", json!({"spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}}), json!({}), json!({}), "b"),
        ("room", json!({"allocatable": {"cpu": "1", "memory": "1Gi"}}), json!({}), requests("500m", "256Mi"), "b"),
    ] {
        let mut scene = Scene::new();
        scene.node("a", first);
        scene.node("b", second);
        scene.pod("web", spec);
        assert_eq!(scene.verdict(), Ok(expected.to_owned()), "{what}");
    }
}

#[test]
fn pods_of_one_service_or_set_are_spread() {
    let mut scene = Scene::new();
    for name in ["a", "b", "c"] {
        scene.node(name, json!({}));
    }
    for place in 0..6 {
        if place == 3 {
            scene.world.must(service("web"));
        }
        scene.pod(&format!("web-{place}"), json!({}));
        scene.verdict().expect("there is room");
    }
    for name in ["a", "b", "c"] {
        let pods = scene.world.values(Kind::Pod).filter(|(_, pod)| pod["spec"]["nodeName"] == name).count();
        assert_eq!(pods, 2, "on {name}");
    }
}

#[test]
fn higher_priority_goes_first() {
    let mut scene = Scene::new();
    scene.node("node-1", json!({}));
    scene.pod("low", json!({"priority": 1}));
    scene.pod("high", json!({"priority": 9}));
    scene.pod("middle", json!({"priority": 5}));
    let order: Vec<String> = (0..3).filter_map(|_| scene.decide()).map(|decision| decision.pod.name).collect();
    assert_eq!(order, ["high", "middle", "low"]);
}

#[test]
fn a_refused_pod_waits_for_a_change_that_matters() {
    let mut scene = Scene::new();
    let node = scene.node("node-1", json!({}));
    let big = scene.pod("big", requests("2", "1Gi"));
    let other = scene.pod("other", requests("1", "1Gi"));
    scene.decide();
    let refused = scene.decide().expect("the other");
    assert_eq!((refused.pod, refused.node), (other.clone(), None));
    assert!(scene.decide().is_none(), "nothing changed");
    // A node's heartbeat does not matter.
    let beat = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "again"}]}});
    scene.world.merge(&node, Some(Subresource::Status), &beat).expect("a status");
    scene.world.pass(SignedDuration::from_secs(5));
    assert!(scene.decide().is_none());
    // Room does.
    scene.world.remove(&big);
    let accepted = scene.decide().expect("it is tried again");
    assert_eq!((accepted.pod, accepted.node.as_deref()), (other, Some("node-1")));
}

#[test]
fn a_change_within_the_back_off_is_remembered_until_it_ends() {
    let mut scene = Scene::new();
    scene.pod("web", json!({}));
    scene.decide();
    scene.node("node-1", json!({}));
    assert!(scene.decide().is_none(), "too early");
    assert_eq!(scene.scheduler.deadline(), Some(scene.world.now + SignedDuration::from_secs(1)));
    scene.world.pass(SignedDuration::from_secs(1));
    assert_eq!(scene.verdict(), Ok("node-1".to_owned()));
}

#[test]
fn a_failed_binding_gives_the_place_back() {
    let mut scene = Scene::new();
    scene.node("node-1", json!({}));
    scene.pod("a", requests("2", "1Gi"));
    scene.sync();
    let decision = scene.scheduler.decide(&scene.index, scene.world.now, 1).expect("a pod waits");
    assert_eq!(decision.node.as_deref(), Some("node-1"));
    scene.scheduler.finish(&decision.pod, &decision.uid, false, scene.world.now);
    scene.pod("b", requests("2", "1Gi"));
    assert_eq!(scene.verdict(), Ok("node-1".to_owned()), "the room is free again");
    scene.world.pass(SignedDuration::from_secs(1));
    assert!(scene.verdict().is_err(), "a comes back, and b has the room");
}

#[test]
fn pods_for_other_schedulers_and_gated_ones_are_left_alone() {
    let mut scene = Scene::new();
    scene.node("node-1", json!({}));
    scene.pod("other", json!({"schedulerName": "mine"}));
    scene.pod("gated", json!({"schedulingGates": [{"name": "example.com/wait"}]}));
    assert!(scene.decide().is_none());
}

#[test]
fn init_containers_count_with_their_peak() {
    let mut scene = Scene::new();
    scene.node("node-1", json!({}));
    let container = |name: &str, cpu: &str, policy: Value| json!({"name": name, "image": "demo:1", "restartPolicy": policy, "resources": {"requests": {"cpu": cpu}}});
    // The sidecar runs beside the second init container: 500m + 1600m.
    scene.pod(
        "web",
        json!({
            "initContainers": [container("side", "500m", "Always".into()), container("init", "1600m", Value::Null)],
            "containers": [container("main", "100m", Value::Null)],
        }),
    );
    assert_eq!(scene.verdict(), Err("0/1 nodes are available: 1 Insufficient cpu.".to_owned()));
}
