use serde_json::json;

use super::*;
use crate::api::registry;

const NOW: &str = "2026-12-01T12:00:00Z";

fn pod(node: &str, phase: &str) -> Value {
    json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": "5"},
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": 30}, "status": {"phase": phase}})
}

fn delete_at(plural: &str, object: &Value, options: Value, now: &str) -> Result<Deletion, Status> {
    let resource = registry().iter().find(|r| r.plural == plural).unwrap();
    prepare_delete(resource, object, &serde_json::from_value(options).unwrap(), now.parse().unwrap())
}

fn delete(plural: &str, object: &Value, options: Value) -> Result<Deletion, Status> {
    delete_at(plural, object, options, NOW)
}

fn updated(deletion: Deletion) -> Value {
    match deletion {
        Deletion::Update(object) => object,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_running_pod_gets_its_grace() {
    for (options, grace, deadline) in [
        (json!({}), 30, "2026-12-01T12:00:30Z"),
        (json!({"gracePeriodSeconds": 5}), 5, "2026-12-01T12:00:05Z"),
        (json!({"gracePeriodSeconds": -1}), 1, "2026-12-01T12:00:01Z"),
    ] {
        let object = updated(delete("pods", &pod("n1", "Running"), options).unwrap());
        assert_eq!(object["metadata"]["deletionGracePeriodSeconds"], grace);
        assert_eq!(object["metadata"]["deletionTimestamp"], deadline);
        assert!(object["metadata"].get("resourceVersion").is_none());
    }
}

#[test]
fn a_pod_that_nobody_runs_goes_at_once() {
    for (pod, options) in [
        (pod("", "Pending"), json!({})),
        (pod("n1", "Succeeded"), json!({})),
        (pod("n1", "Running"), json!({"gracePeriodSeconds": 0})),
    ] {
        assert!(matches!(delete("pods", &pod, options).unwrap(), Deletion::Remove(_)));
    }
}

#[test]
fn a_second_delete_only_shortens() {
    let mut object = updated(delete("pods", &pod("n1", "Running"), json!({})).unwrap());
    object["metadata"]["resourceVersion"] = json!("6");
    let again = |options: Value| delete_at("pods", &object, options, "2026-12-01T12:00:10Z").unwrap();
    assert_eq!(again(json!({})), Deletion::Unchanged);
    assert_eq!(again(json!({"gracePeriodSeconds": 60})), Deletion::Unchanged);
    let sooner = updated(again(json!({"gracePeriodSeconds": 20})));
    assert_eq!(sooner["metadata"]["deletionTimestamp"], "2026-12-01T12:00:20Z");
    assert!(matches!(again(json!({"gracePeriodSeconds": 0})), Deletion::Remove(_)));
}

#[test]
fn finalizers_hold_and_a_generation_counts() {
    let object = json!({"metadata": {"name": "a", "finalizers": ["x/y"], "generation": 3, "resourceVersion": "5"}});
    let held = updated(delete("deployments", &object, json!({})).unwrap());
    assert_eq!(held["metadata"]["deletionTimestamp"], NOW);
    assert_eq!(held["metadata"]["generation"], 4);
    assert_eq!(delete("deployments", &held, json!({})).unwrap(), Deletion::Unchanged);
}

#[test]
fn propagation_becomes_finalizers() {
    let object = json!({"metadata": {"name": "a"}});
    for (options, expected) in [
        (json!({"propagationPolicy": "Foreground"}), Some("foregroundDeletion")),
        (json!({"propagationPolicy": "Orphan"}), Some("orphan")),
        (json!({"orphanDependents": true}), Some("orphan")),
        (json!({"propagationPolicy": "Background"}), None),
        (json!({"orphanDependents": false}), None),
        (json!({}), None),
    ] {
        match (delete("deployments", &object, options.clone()).unwrap(), expected) {
            (Deletion::Update(held), Some(finalizer)) => assert_eq!(held["metadata"]["finalizers"], json!([finalizer])),
            (Deletion::Remove(_), None) => {}
            (other, _) => panic!("{options}: {other:?}"),
        }
    }
    // An explicit choice takes the place of an earlier one.
    let orphaned = json!({"metadata": {"name": "a", "finalizers": ["orphan"]}});
    let background = delete("deployments", &orphaned, json!({"propagationPolicy": "Background"})).unwrap();
    assert!(matches!(background, Deletion::Remove(_)));
}

#[test]
fn bad_options_and_failed_preconditions() {
    let object = pod("n1", "Running");
    for options in [json!({"preconditions": {"uid": "other"}}), json!({"preconditions": {"resourceVersion": "4"}})] {
        assert!(delete("pods", &object, options).unwrap_err().is_conflict());
    }
    delete("pods", &object, json!({"preconditions": {"uid": "u", "resourceVersion": "5"}})).unwrap();
    for options in
        [json!({"propagationPolicy": "Sideways"}), json!({"propagationPolicy": "Orphan", "orphanDependents": true})]
    {
        let status = delete("pods", &object, options).unwrap_err();
        assert_eq!(status.details.unwrap().causes[0].field, "propagationPolicy");
    }
}

#[test]
fn a_namespace_waits_for_its_own_finalizers() {
    let object =
        json!({"metadata": {"name": "a"}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
    let held = updated(delete("namespaces", &object, json!({})).unwrap());
    assert_eq!(held["status"]["phase"], "Terminating");
    let empty = json!({"metadata": {"name": "a"}, "spec": {"finalizers": []}});
    assert!(matches!(delete("namespaces", &empty, json!({})).unwrap(), Deletion::Remove(_)));
}
