//! Deletion: what is asked in which order, and when it is said to be done.

use std::sync::Arc;

use serde_json::json;

use super::World;
use crate::pods::observed::Observed;
use crate::pods::{Done, HookKind, Input, Reread};

impl World {
    fn delete(&mut self, grace: i64) -> &mut Self {
        let mut pod = (*self.machine.pod).clone();
        pod.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2027-01-15T08:00:00Z")).unwrap());
        pod.metadata.deletion_grace_period_seconds = Some(grace);
        self.input(Input::Pod(Arc::new(pod)));
        self
    }

    fn terminated(&self) -> bool {
        self.reports.last().unwrap().terminated
    }
}

#[test]
fn everything_is_stopped_then_said_then_removed() {
    let mut world = World::new(json!({}));
    world.begin().take_asked();
    world.delete(30);
    assert_eq!(world.asked, ["stop app 30", "stop sandbox s1", "remove sandbox s1", "remove files"]);
    assert!(world.reports.iter().any(|report| report.terminated));
    assert_eq!(world.condition("Ready"), "False PodFailed");
    assert_eq!((world.phase(), world.state("app").as_str()), ("Failed", "Error"), "SIGTERM ended it with 143");
    assert!(world.events.contains(&("Killing".to_owned(), "Stopping container app".to_owned())));
    assert!(!world.finished, "the object is still there");
    world.input(Input::Gone);
    assert!(world.finished);
}

#[test]
fn readiness_stays_while_it_still_serves() {
    let mut world = World::new(json!({}));
    world.unanswered = vec!["stop app"];
    world.begin().delete(30);
    assert_eq!(world.condition("Ready"), "True");
    assert_eq!((world.state("app").as_str(), world.terminated()), ("running", false));
}

#[test]
fn hook_and_stop_share_one_grace() {
    let hook = json!({"preStop": {"exec": {"command": ["x"]}}});
    let mut world = World::new(json!({"containers": [{"name": "app", "image": "app:1", "lifecycle": hook}]}));
    world.unanswered = vec!["preStop"];
    world.begin().take_asked();
    world.delete(30);
    assert_eq!(world.asked, ["preStop app 30"]);
    world.pass(20);
    let id = world.held.containers[0].id.clone();
    world.input(Input::Done(Done::HookDone("app".to_owned(), id, HookKind::PreStop, Ok(())), Reread::Unneeded));
    assert_eq!(world.asked[1], "stop app 10");
}

#[test]
fn a_hook_that_does_not_end_leaves_two_seconds() {
    let hook = json!({"preStop": {"exec": {"command": ["x"]}}});
    let mut world = World::new(json!({"containers": [{"name": "app", "image": "app:1", "lifecycle": hook}]}));
    world.unanswered = vec!["preStop"];
    world.begin().take_asked();
    world.delete(5).pass(4);
    assert_eq!(world.asked, ["preStop app 5"]);
    world.pass(1);
    assert_eq!(world.asked[1], "stop app 2");
    assert!(world.terminated());
}

#[test]
fn a_shorter_grace_counts_from_the_first_deletion() {
    let mut world = World::new(json!({}));
    world.unanswered = vec!["stop app"];
    world.begin().take_asked();
    world.delete(60).pass(10);
    world.delete(15);
    assert_eq!(world.asked, ["stop app 60", "stop app 5"]);
    world.delete(30);
    assert_eq!(world.asked.len(), 2, "a longer one does not count");
}

#[test]
fn a_deletion_without_grace_is_as_short_as_can_be() {
    let mut world = World::new(json!({}));
    world.begin().take_asked();
    world.delete(0);
    assert_eq!(world.asked[0], "stop app 1");
}

#[test]
fn a_pod_that_never_ran_is_terminated_at_once() {
    let mut world = World::new(json!({}));
    let mut pod = (*world.machine.pod).clone();
    pod.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2027-01-15T08:00:00Z")).unwrap());
    world = World::of(pod, Observed::default());
    world.begin();
    assert_eq!(world.asked, ["remove files"]);
    assert!(world.terminated());
}

#[test]
fn what_is_under_way_is_given_up_or_waited_for() {
    let mut world = World::new(json!({"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]}));
    world.has_image = false;
    world.unanswered = vec!["pull a", "create b"];
    world.begin().take_asked();
    world.delete(30);
    assert!(world.asked.is_empty(), "b is being made: {:?}", world.asked);
    world.input(Input::Done(Done::ContainerCreated("b".to_owned(), Ok("c9".to_owned())), Reread::Unneeded));
    assert_eq!(world.asked, ["stop sandbox s1", "remove sandbox s1", "remove files"]);
    assert!(world.terminated());
}

#[test]
fn an_object_that_is_gone_is_stopped_in_silence() {
    let mut world = World::new(json!({"terminationGracePeriodSeconds": 7}));
    world.begin().take_asked();
    let (reports, events) = (world.reports.len(), world.events.len());
    world.input(Input::Gone);
    assert_eq!(world.asked, ["stop app 7", "stop sandbox s1", "remove sandbox s1", "remove files"]);
    assert_eq!((world.reports.len(), world.events.len()), (reports, events));
    assert!(world.finished);
}

#[test]
fn what_cannot_be_stopped_is_tried_again() {
    let mut world = World::new(json!({}));
    world.failing = vec!["stop app"];
    world.begin().take_asked();
    world.delete(30).pass(3);
    assert_eq!(world.asked, ["stop app 30", "stop app 29", "stop app 27"]);
    assert!(world.reasons().contains(&"FailedKillPod") && !world.terminated());
    world.failing = vec!["stop sandbox"];
    world.pass(20);
    assert!(!world.terminated(), "its network is still up");
    world.failing.clear();
    world.pass(10);
    assert!(world.terminated());
}

#[test]
fn a_deleted_pod_that_had_finished_keeps_its_phase() {
    let mut world = World::new(json!({"restartPolicy": "Never"}));
    world.begin().exits("app", 0);
    world.take_asked();
    world.delete(30);
    assert_eq!(world.asked, ["remove sandbox s1", "remove files"]);
    assert!(world.terminated());
    assert_eq!(world.phase(), "Succeeded");
}
