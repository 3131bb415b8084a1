//! What only the status shows.

use serde_json::json;

use super::World;
use crate::pods::observed::Observed;

#[test]
fn transition_times_are_kept() {
    let mut world = World::new(json!({}));
    world.begin();
    let since = |world: &World, type_: &str| {
        let conditions = world.status().conditions.as_ref().unwrap();
        let condition = conditions.iter().find(|condition| condition.type_ == type_).unwrap();
        condition.last_transition_time.as_ref().unwrap().0
    };
    let start = world.now;
    world.pass(100);
    world.exits("app", 1);
    assert_eq!(since(&world, "Initialized"), start);
    assert_eq!(since(&world, "Ready"), world.now, "it was not ready for a moment");
    assert_eq!(world.status().start_time.as_ref().unwrap().0, start);
}

#[test]
fn conditions_of_others_are_kept_and_gates_waited_for() {
    let mut pod = super::world::pod(json!({"readinessGates": [{"conditionType": "example.org/ok"}]}));
    let scheduled = json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    pod.status = Some(serde_json::from_value(json!({"phase": "Pending", "conditions": [scheduled]})).unwrap());
    let mut world = World::of(pod.clone(), Observed::default());
    world.begin();
    assert_eq!(world.condition("ContainersReady"), "True");
    assert_eq!(world.condition("Ready"), "False ReadinessGatesNotReady");
    let conditions = world.status().conditions.clone().unwrap();
    let types: Vec<&str> = conditions.iter().map(|condition| condition.type_.as_str()).collect();
    assert_eq!(types, ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]);
    assert_eq!(serde_json::to_value(conditions.last().unwrap()).unwrap(), scheduled);
    let gate = json!({"type": "example.org/ok", "status": "True"});
    pod.status = Some(serde_json::from_value(json!({"phase": "Pending", "conditions": [scheduled, gate]})).unwrap());
    world.input(crate::pods::Input::Pod(std::sync::Arc::new(pod)));
    assert_eq!(world.condition("Ready"), "True");
    assert_eq!(world.condition("example.org/ok"), "True");
}

#[test]
fn a_host_network_pod_has_the_nodes_addresses() {
    let mut world = World::new(json!({"hostNetwork": true}));
    world.begin();
    assert_eq!(world.status().pod_ip.as_deref(), Some("192.0.2.1"));
    assert_eq!(world.status().host_ip.as_deref(), Some("192.0.2.1"));
}

#[test]
fn a_container_that_the_runtime_forgot_counts_as_killed() {
    let mut before = World::new(json!({"restartPolicy": "Never"}));
    before.begin();
    let mut pod = (*before.machine.pod).clone();
    pod.status = Some(before.status().clone());
    let mut world = World::of(pod, Observed::default());
    world.begin();
    assert_eq!((world.phase(), world.state("app").as_str()), ("Failed", "ContainerStatusUnknown"));
    assert!(!world.asked.iter().any(|asked| asked.starts_with("create")));
}

#[test]
fn two_containers_one_of_them_unready() {
    let mut world = World::new(json!({"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]}));
    world.unanswered = vec!["create b"];
    world.begin();
    assert_eq!(world.phase(), "Pending");
    let conditions = world.status().conditions.clone().unwrap();
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready").unwrap();
    assert_eq!(ready.message.as_deref(), Some("containers with unready status: [b]"));
}
