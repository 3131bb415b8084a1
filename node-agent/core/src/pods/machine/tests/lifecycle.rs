//! From nothing to running, and to the end by itself.

use serde_json::json;

use super::World;
use crate::pods::machine::ContainerState;
use crate::pods::probe::{ProbeKind, ProbeOutcome};
use crate::pods::{Input, Observed};

#[test]
fn one_container_comes_up() {
    let mut world = World::new(json!({}));
    world.begin();
    let expected = ["write volumes", "create sandbox 0", "check app:1", "create app 0", "start app"];
    assert_eq!(world.asked, expected);
    assert_eq!(world.reasons(), ["Pulled", "Created", "Started"]);
    assert_eq!(world.phase(), "Running");
    assert_eq!(world.condition("Ready"), "True");
    assert_eq!(world.status().pod_ip.as_deref(), Some("10.244.0.5"));
    assert_eq!(world.container("app").container_id.as_deref(), Some("containerd://c2"));
    assert_eq!(world.container("app").image, "docker.io/library/app:1");
    assert_eq!(world.reports[0].status.phase.as_deref(), Some("Pending"));
    assert_eq!(world.wake, None, "a quiet pod costs nothing");
    let reports = world.reports.len();
    world.pass(1000);
    assert_eq!(world.reports.len(), reports, "nothing changed, so nothing is reported");
}

#[test]
fn nothing_is_done_before_the_runtime_was_asked() {
    let mut world = World::new(json!({}));
    world.input(Input::Tick);
    assert!(world.asked.is_empty() && world.reports.is_empty());
}

#[test]
fn phases_by_policy_and_exit_code() {
    let table = [
        ("Never", 0, "Succeeded", "Completed", false),
        ("Never", 1, "Failed", "Error", false),
        ("OnFailure", 0, "Succeeded", "Completed", false),
        ("OnFailure", 1, "Running", "running", true),
        ("Always", 0, "Running", "running", true),
        ("Always", 1, "Running", "running", true),
    ];
    for (policy, code, phase, state, restarted) in table {
        let mut world = World::new(json!({"restartPolicy": policy}));
        world.begin().exits("app", code);
        assert_eq!(world.phase(), phase, "{policy} {code}");
        assert_eq!(world.state("app"), state, "{policy} {code}");
        assert_eq!(world.container("app").restart_count, i32::from(restarted), "{policy} {code}");
        if !restarted {
            assert_eq!(world.asked.last().unwrap(), "stop sandbox s1");
            assert_eq!(world.status().pod_ip.as_deref(), Some("10.244.0.5"), "the address stays to be seen");
            world.pass(100);
            assert_eq!(world.phase(), phase, "a terminal phase is final");
        }
    }
}

#[test]
fn restarts_wait_longer_each_time() {
    let mut world = World::new(json!({}));
    world.begin();
    let mut waits = Vec::new();
    for attempt in 0..7 {
        world.pass(1);
        world.exits("app", 1);
        let mut waited = 0;
        while world.container("app").restart_count == attempt {
            world.pass(1);
            waited += 1;
        }
        waits.push(waited);
    }
    assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300]);
    world.pass(601);
    world.exits("app", 1);
    assert_eq!(world.container("app").restart_count, 8, "a run of over ten minutes makes good");
}

#[test]
fn crash_loops_are_named() {
    let mut world = World::new(json!({}));
    world.begin().exits("app", 1).exits("app", 2);
    assert_eq!(world.state("app"), "Error", "how it ended is seen first");
    world.pass(2);
    assert_eq!(world.state("app"), "CrashLoopBackOff");
    let status = world.container("app").clone();
    let message = status.state.unwrap().waiting.unwrap().message.unwrap();
    assert_eq!(message, "back-off 10s restarting failed container=app pod=web_shop(u1)");
    assert_eq!(status.last_state.unwrap().terminated.unwrap().exit_code, 2);
    assert_eq!(world.phase(), "Running");
    assert_eq!(world.condition("Ready"), "False ContainersNotReady");
    let event = ("BackOff".to_owned(), "Back-off restarting failed container app in pod web_shop(u1)".to_owned());
    assert_eq!(world.events.iter().filter(|told| **told == event).count(), 1);
    world.pass(8);
    assert_eq!(world.state("app"), "running");
    assert_eq!(world.container("app").last_state.clone().unwrap().terminated.unwrap().exit_code, 2);
}

#[test]
fn of_old_starts_the_last_two_are_kept() {
    let mut world = World::new(json!({}));
    world.begin();
    for _ in 0..4 {
        world.pass(700);
        world.exits("app", 1);
    }
    let mut attempts: Vec<u32> = world.held.containers.iter().map(|record| record.attempt).collect();
    attempts.sort_unstable();
    assert_eq!(attempts, [3, 4]);
    assert!(world.asked.contains(&"remove app/0.log".to_owned()));
}

#[test]
fn init_containers_run_one_after_the_other() {
    let mut world =
        World::new(json!({"initContainers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]}));
    world.begin();
    assert_eq!(world.phase(), "Pending");
    assert_eq!(world.condition("Initialized"), "False ContainersNotInitialized");
    assert_eq!((world.state("a").as_str(), world.state("b").as_str()), ("running", "PodInitializing"));
    assert_eq!(world.state("app"), "PodInitializing");
    world.exits("a", 0);
    assert_eq!((world.state("a").as_str(), world.state("b").as_str()), ("Completed", "running"));
    world.exits("b", 1);
    assert_eq!(world.container("b").restart_count, 1, "a failed one is tried again");
    world.exits("b", 0);
    assert_eq!((world.state("app").as_str(), world.phase()), ("running", "Running"));
    assert_eq!(world.condition("Initialized"), "True");
    world.exits("app", 1);
    assert_eq!(world.container("a").restart_count, 0, "they do not run again with the container");
}

#[test]
fn a_failed_init_container_ends_a_pod_that_is_never_restarted() {
    let mut world = World::new(json!({"restartPolicy": "Never", "initContainers": [{"name": "a", "image": "a:1"}]}));
    world.begin().exits("a", 1);
    assert_eq!(world.phase(), "Failed");
    assert_eq!(world.state("app"), "PodInitializing");
    assert_eq!(world.asked.last().unwrap(), "stop sandbox s1");
}

#[test]
fn a_sidecar_starts_before_and_stops_after_the_others() {
    let mut world = World::new(json!({
        "restartPolicy": "Never",
        "initContainers": [
            {"name": "proxy", "image": "p:1", "restartPolicy": "Always", "startupProbe": {"exec": {}, "periodSeconds": 1}},
            {"name": "setup", "image": "s:1"},
        ],
    }));
    world.outcome = ProbeOutcome::Failure("not yet".to_owned());
    world.begin();
    assert_eq!((world.state("proxy").as_str(), world.state("setup").as_str()), ("running", "PodInitializing"));
    world.outcome = ProbeOutcome::Success;
    world.pass(1);
    assert_eq!(world.state("setup"), "running");
    world.exits("setup", 0);
    assert_eq!(world.state("app"), "running");
    world.exits("proxy", 1);
    assert_eq!((world.state("proxy").as_str(), world.phase()), ("running", "Running"), "it is always restarted");
    world.take_asked();
    world.exits("app", 0);
    assert_eq!(world.asked, ["stop proxy 30", "stop sandbox s1"]);
    assert_eq!(world.phase(), "Succeeded");
}

#[test]
fn readiness_follows_the_probe() {
    let probe = json!({"exec": {"command": ["x"]}, "periodSeconds": 5, "failureThreshold": 2});
    let mut world = World::new(json!({"containers": [{"name": "app", "image": "app:1", "readinessProbe": probe}]}));
    world.outcome = ProbeOutcome::Failure("no".to_owned());
    world.begin();
    assert_eq!((world.phase(), world.condition("Ready").as_str()), ("Running", "False ContainersNotReady"));
    assert_eq!(world.events.last().unwrap(), &("Unhealthy".to_owned(), "Readiness probe failed: no".to_owned()));
    world.outcome = ProbeOutcome::Success;
    world.pass(5);
    assert_eq!(world.condition("Ready"), "True");
    world.outcome = ProbeOutcome::Error("it broke".to_owned());
    world.pass(5);
    assert_eq!(world.condition("Ready"), "True");
    world.pass(5);
    assert_eq!(world.condition("Ready"), "False ContainersNotReady");
    assert_eq!(world.events.last().unwrap().1, "Readiness probe errored: it broke");
    assert_eq!(world.container("app").restart_count, 0);
}

#[test]
fn a_failed_liveness_probe_restarts_the_container() {
    let probe = json!({"exec": {"command": ["x"]}, "periodSeconds": 5, "failureThreshold": 2, "terminationGracePeriodSeconds": 3});
    let mut world = World::new(json!({"containers": [{"name": "app", "image": "app:1", "livenessProbe": probe}]}));
    world.unanswered = vec!["probe"];
    world.begin();
    assert_eq!(world.condition("Ready"), "True");
    for _ in 0..2 {
        world.probed("app", ProbeKind::Liveness, ProbeOutcome::Failure("dead".to_owned()));
    }
    assert!(world.asked.contains(&"stop app 3".to_owned()), "{:?}", world.asked);
    let killing = ("Killing".to_owned(), "Container app failed liveness probe, will be restarted".to_owned());
    assert!(world.events.contains(&killing));
    assert_eq!((world.state("app").as_str(), world.container("app").restart_count), ("running", 1));
}

#[test]
fn hooks_hold_readiness_back_and_their_failure_kills() {
    let hook = json!({"postStart": {"exec": {"command": ["x"]}}});
    let spec = json!({"containers": [{"name": "app", "image": "app:1", "lifecycle": hook}]});
    let mut world = World::new(spec.clone());
    world.unanswered = vec!["postStart"];
    world.begin();
    assert_eq!(
        (world.state("app").as_str(), world.condition("Ready").as_str()),
        ("running", "False ContainersNotReady")
    );
    let mut world = World::new(spec);
    world.failing = vec!["postStart"];
    world.begin();
    assert!(world.reasons().contains(&"FailedPostStartHook"));
    assert_eq!(world.container("app").restart_count, 1, "one restart at once, then back-off");
}

#[test]
fn a_new_image_replaces_the_container() {
    let mut world = World::new(json!({}));
    world.begin();
    let pod = super::world::pod(json!({"containers": [{"name": "app", "image": "app:2"}]}));
    world.input(Input::Pod(std::sync::Arc::new(pod)));
    assert!(
        world
            .events
            .contains(&("Killing".to_owned(), "Container app definition changed, will be restarted".to_owned()))
    );
    assert_eq!((world.state("app").as_str(), world.container("app").restart_count), ("running", 1));
    assert_eq!(world.asked.iter().filter(|asked| *asked == "check app:2").count(), 1);
}

#[test]
fn a_pod_that_runs_already_is_taken_over() {
    let mut before = World::new(
        json!({"containers": [{"name": "app", "image": "app:1", "readinessProbe": {"exec": {}, "periodSeconds": 5}}]}),
    );
    before.begin().exits("app", 1);
    assert_eq!(before.container("app").restart_count, 1);
    let mut pod = (*before.machine.pod).clone();
    pod.status = Some(before.status().clone());
    let mut world = World::of(pod, before.held.clone());
    world.now = before.now;
    world.unanswered = vec!["probe"];
    world.pass(100);
    world.begin();
    assert_eq!(world.asked, ["write volumes", "probe app Readiness"]);
    assert_eq!(world.status(), before.status(), "nobody sees that the agent was restarted");
    assert!(world.events.is_empty());
}

#[test]
fn a_container_that_was_made_but_not_started_is_started() {
    for policy in ["Always", "Never"] {
        let mut before = World::new(json!({"restartPolicy": policy}));
        before.unanswered = vec!["start"];
        before.begin();
        assert_eq!(before.held.containers[0].state, ContainerState::Created);
        let mut world = World::of((*before.machine.pod).clone(), before.held.clone());
        world.begin();
        assert_eq!(world.asked, ["write volumes", "start app"]);
        assert_eq!(world.container("app").restart_count, 0);
    }
}

#[test]
fn a_finished_pod_is_never_run_again() {
    let mut before = World::new(json!({"restartPolicy": "OnFailure"}));
    before.begin().exits("app", 0);
    let mut pod = (*before.machine.pod).clone();
    pod.status = Some(before.status().clone());
    let mut world = World::of(pod, Observed::default());
    world.begin();
    assert!(world.asked.is_empty());
    assert_eq!((world.phase(), world.state("app").as_str()), ("Succeeded", "Completed"));
}

#[test]
fn a_pod_has_a_time_to_live() {
    let mut world = World::new(json!({"activeDeadlineSeconds": 60, "terminationGracePeriodSeconds": 5}));
    world.begin().pass(59);
    assert_eq!(world.phase(), "Running");
    world.take_asked();
    world.pass(1);
    assert_eq!(world.asked, ["stop app 5", "stop sandbox s1"]);
    assert_eq!((world.phase(), world.status().reason.as_deref()), ("Failed", Some("DeadlineExceeded")));
}
