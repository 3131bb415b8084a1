//! What `kubectl apply` sends: the difference of the last applied and the wanted object, seen against the live one. The
//! patch, applied to the live object, must give what was wanted and keep what others added.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{PatchType, applied, pod};

/// The client's half for the fields used here: containers by name, finalizers as a set, nodeSelector as a map.
fn three_way(last: &Value, wanted: &Value, live: &Value) -> Value {
    let mut spec = Map::new();
    let names =
        |v: &Value| -> Vec<Value> { list(&v["spec"]["containers"]).iter().map(|c| c["name"].clone()).collect() };
    let mut containers = Vec::new();
    for container in list(&wanted["spec"]["containers"]) {
        let same = list(&live["spec"]["containers"]).into_iter().find(|c| c["name"] == container["name"]);
        if same.is_none_or(|c| c["image"] != container["image"]) {
            containers.push(container.clone());
        }
    }
    for name in names(last).into_iter().filter(|n| !names(wanted).contains(n)) {
        containers.push(json!({"name": name, "$patch": "delete"}));
    }
    if !containers.is_empty() {
        let order: Vec<Value> = names(wanted).into_iter().map(|n| json!({"name": n})).collect();
        spec.insert("$setElementOrder/containers".into(), order.into());
        spec.insert("containers".into(), containers.into());
    }
    let mut selector = Map::new();
    for (key, value) in map(&wanted["spec"]["nodeSelector"]) {
        if live["spec"]["nodeSelector"].get(&key) != Some(&value) {
            selector.insert(key, value);
        }
    }
    for (key, _) in map(&last["spec"]["nodeSelector"]) {
        if wanted["spec"]["nodeSelector"].get(&key).is_none() {
            selector.insert(key, Value::Null);
        }
    }
    if !selector.is_empty() {
        spec.insert("nodeSelector".into(), selector.into());
    }
    let mut metadata = Map::new();
    let finalizers = |v: &Value| list(&v["metadata"]["finalizers"]);
    let added: Vec<Value> = finalizers(wanted).into_iter().filter(|f| !finalizers(live).contains(f)).collect();
    let gone: Vec<Value> = finalizers(last).into_iter().filter(|f| !finalizers(wanted).contains(f)).collect();
    if !added.is_empty() || !gone.is_empty() {
        metadata.insert("$setElementOrder/finalizers".into(), finalizers(wanted).into());
    }
    if !added.is_empty() {
        metadata.insert("finalizers".into(), added.into());
    }
    if !gone.is_empty() {
        metadata.insert("$deleteFromPrimitiveList/finalizers".into(), gone.into());
    }
    json!({"spec": spec, "metadata": metadata})
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn map(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

type Parts = (Vec<(u8, u8)>, Vec<(u8, u8)>, Vec<u8>);

/// A pod of distinct containers, selector entries and finalizers of one owner.
fn build(owner: &str, parts: &Parts) -> Value {
    let mut containers: Vec<Value> = Vec::new();
    for (name, image) in &parts.0 {
        let name = format!("{owner}{name}");
        if containers.iter().all(|c| c["name"] != *name) {
            containers.push(json!({"name": name, "image": format!("i{image}")}));
        }
    }
    let selector: Map<String, Value> =
        parts.1.iter().map(|(k, v)| (format!("{owner}{k}"), Value::from(format!("v{v}")))).collect();
    let mut finalizers: Vec<Value> = Vec::new();
    for finalizer in &parts.2 {
        let finalizer = Value::from(format!("{owner}/f{finalizer}"));
        if !finalizers.contains(&finalizer) {
            finalizers.push(finalizer);
        }
    }
    let mut pod = pod(json!({"containers": containers, "nodeSelector": selector}));
    pod["metadata"]["finalizers"] = finalizers.into();
    pod
}

fn parts() -> impl Strategy<Value = Parts> {
    let pairs = || prop::collection::vec((0..6_u8, 0..3_u8), 0..5);
    (pairs(), pairs(), prop::collection::vec(0..6_u8, 0..5))
}

/// The live object: what was applied last, and what others added, interleaved.
fn with_others(last: &Value, others: &Value, first: bool) -> Value {
    let mut live = last.clone();
    let join = |a: &Value, b: &Value| -> Value {
        let (a, b) = if first { (b, a) } else { (a, b) };
        list(a).into_iter().chain(list(b)).collect::<Vec<_>>().into()
    };
    live["spec"]["containers"] = join(&last["spec"]["containers"], &others["spec"]["containers"]);
    live["metadata"]["finalizers"] = join(&last["metadata"]["finalizers"], &others["metadata"]["finalizers"]);
    let mut selector = map(&last["spec"]["nodeSelector"]);
    selector.extend(map(&others["spec"]["nodeSelector"]));
    live["spec"]["nodeSelector"] = selector.into();
    live
}

proptest! {
    #[test]
    fn apply_gives_what_was_wanted_and_keeps_what_others_added(
        last in parts(), wanted in parts(), others in parts(), first in any::<bool>(),
    ) {
        let (last, wanted, others) = (build("c", &last), build("c", &wanted), build("s", &others));
        let live = with_others(&last, &others, first);
        let patch = three_way(&last, &wanted, &live);
        let result = applied(PatchType::StrategicMerge, &live, patch).unwrap();
        let of = |value: &Value, owner: &str| -> Vec<Value> {
            list(value).into_iter().filter(|e| {
                let name = e.as_str().or(e["name"].as_str()).unwrap();
                name.starts_with(owner)
            }).collect()
        };
        let changes = three_way(&last, &wanted, &live);
        // Order is only sent with a change of the list.
        if changes["spec"].get("containers").is_some() {
            prop_assert_eq!(of(&result["spec"]["containers"], "c"), list(&wanted["spec"]["containers"]));
        } else {
            prop_assert_eq!(of(&result["spec"]["containers"], "c").len(), list(&wanted["spec"]["containers"]).len());
        }
        prop_assert_eq!(of(&result["spec"]["containers"], "s"), list(&others["spec"]["containers"]));
        prop_assert_eq!(of(&result["metadata"]["finalizers"], "s"), list(&others["metadata"]["finalizers"]));
        let mut finalizers = of(&result["metadata"]["finalizers"], "c");
        let mut expected = list(&wanted["metadata"]["finalizers"]);
        finalizers.sort_by_key(ToString::to_string);
        expected.sort_by_key(ToString::to_string);
        prop_assert_eq!(finalizers, expected);
        let mut selector = map(&wanted["spec"]["nodeSelector"]);
        selector.extend(map(&others["spec"]["nodeSelector"]));
        prop_assert_eq!(map(&result["spec"]["nodeSelector"]), selector);
    }
}
