use serde_json::json;

use super::*;
use crate::api::registry;

fn pod(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec})
}

fn applied(patch_type: PatchType, current: &Value, body: Value) -> Result<Value, Status> {
    let pods = registry().find("", "v1", "pods").unwrap();
    patch(pods, patch_type, current, body.to_string().as_bytes())
}

fn strategic(spec: Value, body: Value) -> Value {
    applied(PatchType::StrategicMerge, &pod(spec), json!({"spec": body})).unwrap()["spec"].clone()
}

#[test]
fn media_types() {
    assert_eq!(PatchType::parse("application/merge-patch+json; charset=utf-8").unwrap(), PatchType::Merge);
    for other in ["application/apply-patch+yaml", "application/json", ""] {
        let status = PatchType::parse(other).unwrap_err();
        assert_eq!((status.code, status.reason), (415, crate::api::Reason::UnsupportedMediaType));
    }
}

#[test]
fn lists_with_a_key_merge_by_it() {
    let spec = json!({"containers": [{"name": "a", "image": "x:1", "env": [{"name": "E", "value": "1"}]}, {"name": "b", "image": "y"}]});
    assert_eq!(
        strategic(spec, json!({"containers": [{"name": "a", "image": "x:2", "env": [{"name": "F", "value": "2"}]}]})),
        json!({"containers": [
            {"name": "a", "image": "x:2", "env": [{"name": "E", "value": "1"}, {"name": "F", "value": "2"}]},
            {"name": "b", "image": "y"}]})
    );
}

#[test]
fn elements_are_deleted_and_lists_replaced_by_directive() {
    let spec = json!({"containers": [{"name": "a"}, {"name": "b"}], "tolerations": [{"key": "x"}]});
    assert_eq!(
        strategic(spec.clone(), json!({"containers": [{"name": "a", "$patch": "delete"}]}))["containers"],
        json!([{"name": "b"}])
    );
    assert_eq!(
        strategic(spec.clone(), json!({"containers": [{"$patch": "replace"}, {"name": "c"}]}))["containers"],
        json!([{"name": "c"}])
    );
    // Tolerations have no key: the list is one value.
    assert_eq!(strategic(spec, json!({"tolerations": [{"key": "y"}]}))["tolerations"], json!([{"key": "y"}]));
}

#[test]
fn maps_are_replaced_deleted_and_pruned_by_directive() {
    let spec = json!({"nodeSelector": {"a": "1", "b": "2"}});
    assert_eq!(
        strategic(spec.clone(), json!({"nodeSelector": {"$patch": "replace", "c": "3"}})),
        json!({"nodeSelector": {"c": "3"}})
    );
    assert_eq!(strategic(spec.clone(), json!({"nodeSelector": {"$patch": "delete"}})), json!({"nodeSelector": {}}));
    assert_eq!(
        strategic(spec.clone(), json!({"nodeSelector": {"a": null, "c": "3"}})),
        json!({"nodeSelector": {"b": "2", "c": "3"}})
    );
    assert_eq!(strategic(spec, json!({"nodeSelector": null})), json!({}));
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    let changed = applied(PatchType::StrategicMerge, &deployment, patch).unwrap();
    assert_eq!(changed["spec"]["strategy"], json!({"type": "Recreate"}));
    let stray = json!({"spec": {"strategy": {"$retainKeys": ["type"], "rollingUpdate": {}}}});
    assert_eq!(applied(PatchType::StrategicMerge, &deployment, stray).unwrap_err().code, 400);
}

#[test]
fn scalars_are_sets_and_are_taken_out_by_directive() {
    let mut current = pod(json!({}));
    current["metadata"]["finalizers"] = json!(["a/x", "b/x"]);
    let more =
        applied(PatchType::StrategicMerge, &current, json!({"metadata": {"finalizers": ["b/x", "c/x"]}})).unwrap();
    assert_eq!(more["metadata"]["finalizers"], json!(["a/x", "b/x", "c/x"]));
    let body = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/x"], "$setElementOrder/finalizers": ["d/x", "b/x"], "finalizers": ["d/x"]}});
    let fewer = applied(PatchType::StrategicMerge, &current, body).unwrap();
    assert_eq!(fewer["metadata"]["finalizers"], json!(["d/x", "b/x"]));
}

#[test]
fn the_client_orders_what_it_lists_and_the_server_keeps_its_own_in_place() {
    let spec = json!({"containers": [{"name": "side"}, {"name": "a"}, {"name": "b"}]});
    let body = json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "a", "image": "x"}]});
    assert_eq!(
        strategic(spec, body)["containers"],
        json!([{"name": "side"}, {"name": "b"}, {"name": "a", "image": "x"}])
    );
}

#[test]
fn an_element_without_its_key_and_an_unknown_directive_are_refused() {
    let current = pod(json!({"containers": [{"name": "a"}]}));
    let status =
        applied(PatchType::StrategicMerge, &current, json!({"spec": {"containers": [{"image": "x"}]}})).unwrap_err();
    assert_eq!(status.code, 422);
    let status = applied(PatchType::StrategicMerge, &current, json!({"spec": {"$patch": "explode"}})).unwrap_err();
    assert_eq!(status.code, 400);
    assert_eq!(applied(PatchType::Merge, &current, json!([])).unwrap_err().code, 400);
}

#[test]
fn merge_patches_replace_lists() {
    let current = pod(json!({"containers": [{"name": "a"}, {"name": "b"}], "nodeName": "n"}));
    let body = json!({"spec": {"containers": [{"name": "c"}], "nodeName": null}});
    assert_eq!(applied(PatchType::Merge, &current, body).unwrap()["spec"], json!({"containers": [{"name": "c"}]}));
}

#[test]
fn json_patches_and_their_bounds() {
    let current = pod(json!({"nodeName": "n"}));
    let body = json!([{"op": "test", "path": "/spec/nodeName", "value": "n"}, {"op": "replace", "path": "/spec/nodeName", "value": "m"},
        {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]);
    let changed = applied(PatchType::Json, &current, body).unwrap();
    assert_eq!(changed["spec"]["nodeName"], "m");
    assert_eq!(changed["metadata"]["labels"]["a"], "b");
    let failed = json!([{"op": "test", "path": "/spec/nodeName", "value": "x"}]);
    assert_eq!(applied(PatchType::Json, &current, failed).unwrap_err().code, 422);
    assert_eq!(
        applied(PatchType::Json, &current, json!([{"op": "remove", "path": "/nowhere"}])).unwrap_err().code,
        422
    );
    assert_eq!(applied(PatchType::Json, &current, json!([{"op": "explode", "path": "/"}])).unwrap_err().code, 400);
    let many = vec![json!({"op": "test", "path": "/spec/nodeName", "value": "n"}); 10_001];
    assert_eq!(applied(PatchType::Json, &current, json!(many)).unwrap_err().code, 413);
    let doubling = vec![json!({"op": "copy", "from": "/spec", "path": "/spec/x"}); 64];
    let doubling: Vec<Value> = doubling
        .into_iter()
        .enumerate()
        .map(|(i, mut op)| {
            op["path"] = format!("/spec/x{i}").into();
            op
        })
        .collect();
    assert_eq!(applied(PatchType::Json, &current, json!(doubling)).unwrap_err().code, 413);
}

mod three_way;
