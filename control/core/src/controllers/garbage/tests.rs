use serde_json::{Value, json};

use super::GarbageCollector;
use crate::controllers::testing::World;
use crate::controllers::{Action, Controller, Index, Key, Kind, Outcome, Propagation, Turn, Write};

fn config_map(namespace: &str, name: &str, owners: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": name, "ownerReferences": owners}})
}

fn reference(world: &World, key: &Key, blocking: bool) -> Value {
    json!({
        "apiVersion": key.kind.api_version(), "kind": key.kind.name(), "name": key.name,
        "uid": world.value(key).expect("is there")["metadata"]["uid"], "blockOwnerDeletion": blocking,
    })
}

fn gone(kind: &str) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "name": "gone", "uid": "00000000-0000-4000-8000-999999999999"})
}

fn reconcile(world: &World, key: &Key) -> Outcome {
    let mut index = Index::default();
    index.apply(world.listing(), world.now);
    GarbageCollector.reconcile(key, &index, Turn { now: world.now, seed: 1 })
}

fn deletion(outcome: &Outcome) -> Option<Propagation> {
    match outcome.actions.as_slice() {
        [Action { write: Write::Delete { propagation, .. }, .. }] => Some(*propagation),
        _ => None,
    }
}

#[test]
fn an_object_goes_when_all_its_owners_are_gone() {
    let mut world = World::new();
    let key = world.must(config_map("default", "orphan", json!([gone("Secret"), gone("ConfigMap")])));
    assert_eq!(deletion(&reconcile(&world, &key)), Some(Propagation::Background));
}

#[test]
fn an_owner_that_is_there_holds_it_and_references_to_others_go() {
    let mut world = World::new();
    let owner = world.must(config_map("default", "owner", json!([])));
    let here = reference(&world, &owner, false);
    let key = world.must(config_map("default", "held", json!([gone("Secret"), here])));
    let outcome = reconcile(&world, &key);
    let [Action { write: Write::Patch { patch, .. }, .. }] = outcome.actions.as_slice() else { panic!("{outcome:?}") };
    assert_eq!(patch["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(1));
    assert_eq!(patch["metadata"]["ownerReferences"][0]["name"], "owner");
}

#[test]
fn an_owner_of_an_unknown_kind_holds_it() {
    let mut world = World::new();
    let owner = json!({"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "1"});
    let key = world.must(config_map("default", "held", json!([owner])));
    assert_eq!(reconcile(&world, &key), Outcome::idle());
}

#[test]
fn an_owner_in_another_namespace_is_none_and_one_without_a_namespace_is() {
    let mut world = World::new();
    let team = world.must(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}));
    let owner = world.must(config_map("team", "owner", json!([])));
    let across = reference(&world, &owner, false);
    let key = world.must(config_map("default", "across", json!([across])));
    assert_eq!(deletion(&reconcile(&world, &key)), Some(Propagation::Background));
    let above = reference(&world, &team, false);
    let key = world.must(config_map("default", "above", json!([above])));
    assert_eq!(reconcile(&world, &key), Outcome::idle());
}

#[test]
fn a_foreground_deletion_waits_for_dependents_that_block_only() {
    let mut world = World::new();
    let owner = world.must(config_map("default", "owner", json!([])));
    let (blocking, other) = (reference(&world, &owner, true), reference(&world, &owner, false));
    let blocking = world.must(config_map("default", "blocking", json!([blocking])));
    let other = world.must(config_map("default", "other", json!([other])));
    let options = crate::api::DeleteOptions { propagation_policy: Some("Foreground".to_owned()), ..Default::default() };
    world.delete(&owner, &options).expect("deletes");
    assert_eq!(reconcile(&world, &owner), Outcome::idle());
    assert!(deletion(&reconcile(&world, &blocking)).is_some());
    assert!(deletion(&reconcile(&world, &other)).is_some());
    world.remove(&blocking);
    for action in reconcile(&world, &owner).actions {
        world.write(&action.write).expect("takes the finalizer off");
    }
    assert!(world.value(&owner).is_none());
    assert_eq!(world.keys(Kind::ConfigMap), [other]);
}
