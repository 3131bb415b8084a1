//! What breaks, what users see of it, and how it goes on.

use std::sync::Arc;

use serde_json::json;

use super::World;
use crate::pods::{Done, Input, Reread};

#[test]
fn images_by_pull_policy() {
    let table = [
        ("IfNotPresent", true, vec!["check app:1"], vec!["Pulled", "Created", "Started"]),
        ("IfNotPresent", false, vec!["check app:1", "pull app:1"], vec!["Pulling", "Pulled", "Created", "Started"]),
        ("Always", true, vec!["check app:1", "pull app:1"], vec!["Pulling", "Pulled", "Created", "Started"]),
        ("Never", true, vec!["check app:1"], vec!["Pulled", "Created", "Started"]),
        ("Never", false, vec!["check app:1"], vec!["ErrImageNeverPull", "Failed"]),
    ];
    for (policy, has_image, asked, reasons) in table {
        let mut world =
            World::new(json!({"containers": [{"name": "app", "image": "app:1", "imagePullPolicy": policy}]}));
        world.has_image = has_image;
        world.begin();
        let of_images = |asked: &&String| asked.contains("app:1");
        assert_eq!(world.asked.iter().filter(of_images).collect::<Vec<_>>(), asked, "{policy} {has_image}");
        assert_eq!(world.reasons(), reasons, "{policy} {has_image}");
    }
    let mut world = World::new(json!({}));
    world.has_image = false;
    world.begin();
    let message = "Successfully pulled image \"app:1\" in 1.500s (1.500s including waiting). Image size: 7 bytes.";
    assert_eq!(world.events[1].1, message);
}

#[test]
fn a_pull_that_fails_backs_off() {
    let mut world = World::new(json!({}));
    world.has_image = false;
    world.failing = vec!["pull"];
    world.begin();
    assert_eq!((world.state("app").as_str(), world.phase()), ("ErrImagePull", "Pending"));
    assert_eq!(world.events[1].1, "Failed to pull image \"app:1\": it broke");
    assert_eq!(world.events[2].1, "Error: ErrImagePull");
    world.pass(3);
    assert_eq!(world.state("app"), "ImagePullBackOff");
    assert_eq!(world.events[3], ("BackOff".to_owned(), "Back-off pulling image \"app:1\"".to_owned()));
    world.pass(6);
    assert_eq!(world.asked.iter().filter(|asked| *asked == "pull app:1").count(), 1);
    world.failing.clear();
    world.pass(1);
    assert_eq!(world.state("app"), "running");
    assert_eq!(world.container("app").restart_count, 0);
}

#[test]
fn an_image_without_a_valid_name() {
    let mut world = World::new(json!({"containers": [{"name": "app", "image": "App:1"}]}));
    world.begin();
    assert_eq!(world.state("app"), "InvalidImageName");
    assert_eq!(world.reasons(), ["InspectFailed", "Failed"]);
    let pod = super::world::pod(json!({}));
    world.input(Input::Pod(Arc::new(pod)));
    assert_eq!(world.state("app"), "running", "a corrected name is taken at once");
}

#[test]
fn a_missing_reference_is_waited_for() {
    let env = json!([{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}}]);
    let mut world = World::new(json!({"containers": [{"name": "app", "image": "app:1", "env": env}]}));
    world.begin();
    assert_eq!(world.state("app"), "CreateContainerConfigError");
    assert_eq!(world.events.last().unwrap().1, "Error: configmap \"settings\" not found");
    let map = serde_json::from_value(json!({"metadata": {}, "data": {"a": "1"}})).unwrap();
    world.input(Input::ConfigMap("settings".to_owned(), Some(Arc::new(map))));
    assert_eq!(world.state("app"), "running");
}

#[test]
fn a_volume_waits_for_what_it_shows() {
    let volumes = json!([{"name": "v", "secret": {"secretName": "login"}}]);
    let mut world = World::new(json!({"volumes": volumes}));
    world.begin();
    assert!(world.asked.is_empty() && world.events.is_empty(), "it may still be on its way");
    assert_eq!(world.state("app"), "ContainerCreating");
    world.pass(1);
    let message = "MountVolume.SetUp failed for volume \"v\" : secret \"login\" not found";
    assert_eq!(world.events, [("FailedMount".to_owned(), message.to_owned())]);
    let secret = |value: &str| Arc::new(serde_json::from_value(json!({"metadata": {}, "data": {"a": value}})).unwrap());
    world.input(Input::Secret("login".to_owned(), Some(secret("MQ=="))));
    assert_eq!(world.state("app"), "running");
    world.take_asked();
    world.input(Input::Secret("login".to_owned(), Some(secret("Mg=="))));
    assert_eq!(world.asked, ["write volumes"], "a running pod sees changes");
    world.input(Input::Secret("login".to_owned(), Some(secret("Mg=="))));
    assert_eq!(world.asked, ["write volumes"], "and nothing is written when nothing changed");
    world.input(Input::Secret("login".to_owned(), None));
    world.pass(60);
    assert_eq!(world.state("app"), "running", "and keeps what it has");
}

#[test]
fn a_sandbox_that_cannot_be_made_is_tried_again() {
    let mut world = World::new(json!({}));
    world.failing = vec!["create sandbox"];
    world.begin();
    world.pass(15);
    let tries = world.asked.iter().filter(|asked| *asked == "create sandbox 0").count();
    assert_eq!(tries, 5, "after 1, 2, 4 and 8 seconds");
    assert_eq!(
        world.events[0],
        ("FailedCreatePodSandBox".to_owned(), "Failed to create pod sandbox: it broke".to_owned())
    );
    assert_eq!(world.condition("PodReadyToStartContainers"), "False");
    world.failing.clear();
    world.pass(10);
    assert_eq!(world.state("app"), "running");
}

#[test]
fn a_lost_sandbox_is_replaced() {
    let mut world = World::new(json!({"initContainers": [{"name": "a", "image": "a:1"}]}));
    world.begin().exits("a", 0);
    world.pass(5);
    world.take_asked();
    world.sandbox_dies();
    assert_eq!(world.asked[..4], ["stop sandbox s1", "create sandbox 1", "remove sandbox s1", "check a:1"]);
    assert!(world.reasons().contains(&"SandboxChanged"));
    assert_eq!(world.phase(), "Running");
    world.exits("a", 0);
    assert_eq!((world.state("app").as_str(), world.container("app").restart_count), ("running", 1));
    assert_eq!(world.held.sandboxes.len(), 1, "the old one is removed");
    assert_eq!(world.condition("PodReadyToStartContainers"), "True");
}

#[test]
fn a_lost_sandbox_ends_a_pod_that_is_never_restarted() {
    let mut world = World::new(json!({"restartPolicy": "Never"}));
    world.begin().sandbox_dies();
    assert_eq!(world.phase(), "Failed");
    assert!(!world.asked.contains(&"create sandbox 1".to_owned()));
}

#[test]
fn a_container_that_cannot_be_made_or_started() {
    let mut world = World::new(json!({}));
    world.failing = vec!["create app"];
    world.begin();
    assert_eq!(world.state("app"), "CreateContainerError");
    world.failing = vec!["start"];
    world.pass(10);
    assert!(world.events.contains(&("Failed".to_owned(), "Error: it broke".to_owned())));
    world.pass(5);
    assert_eq!(world.state("app"), "CrashLoopBackOff");
    let last = world.container("app").last_state.clone().unwrap().terminated.unwrap();
    assert_eq!((last.exit_code, last.reason.as_deref()), (128, Some("StartError")));
}

#[test]
fn nothing_is_made_on_knowledge_that_is_too_old() {
    let mut world = World::new(json!({}));
    world.unanswered = vec!["create sandbox"];
    world.begin();
    world.take_asked();
    world.input(Input::Done(Done::SandboxCreated(Err("deadline exceeded".to_owned())), Reread::Failed));
    world.pass(30);
    assert!(world.asked.is_empty(), "whether it was made is not known: {:?}", world.asked);
    let held = world.held.clone();
    world.input(Input::Observed(held));
    assert_eq!(world.asked, ["create sandbox 0"]);
}
