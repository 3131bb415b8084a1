//! Whatever a client sends, the answer is an object or a `Status`: nothing panics.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{deployment, now, pod, policy, resource, service, slice};
use crate::api::service_ip::{NodePorts, ServiceCidrs, ServiceRanges, Taken, allocate};
use crate::api::{
    DeleteOptions, Document, FieldValidation, Fresh, PatchType, Subresource, decode, patch, prepare_create,
    prepare_delete, prepare_update,
};

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..70_000_i64).prop_map(Value::from),
        any::<f64>().prop_map(|n| json!(n)),
        "[a-zA-Z0-9./%=-]{0,12}".prop_map(Value::from),
        Just(json!("None")),
        Just(json!("10.0.0.0/0")),
        Just(json!([])),
        Just(json!({})),
        Just(json!([{}])),
        Just(json!([null])),
        Just(json!({"a": null})),
    ]
}

/// All places inside a value.
fn places(value: &Value, path: String, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                places(value, format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                places(value, format!("{path}/{index}"), found);
            }
        }
        _ => {}
    }
    found.push(path);
}

fn mutate(mut object: Value, changes: &[(prop::sample::Index, Value)]) -> Value {
    for (index, value) in changes {
        let mut found = Vec::new();
        places(&object, String::new(), &mut found);
        if let Some(place) = object.pointer_mut(&found[index.index(found.len())]) {
            *place = value.clone();
        }
    }
    object
}

fn seeds() -> Vec<(&'static str, Value)> {
    let mut rich = pod();
    rich["spec"]["volumes"] = json!([{"name": "v", "configMap": {"name": "c", "items": [{"key": "k", "path": "p"}]}}]);
    rich["spec"]["tolerations"] = json!([{"key": "a", "operator": "Exists"}]);
    rich["spec"]["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"a": "b"}}}]);
    rich["spec"]["containers"][0] = json!({"name": "a", "image": "x", "ports": [{"containerPort": 80}], "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
        "resources": {"limits": {"cpu": "1"}}, "livenessProbe": {"httpGet": {"port": "p"}}, "volumeMounts": [{"name": "v", "mountPath": "/v"}]});
    let endpoints =
        json!({"metadata": {"name": "e"}, "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]});
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "x"}, "series": {"count": 1}});
    let node = json!({"metadata": {"name": "n"}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}, "status": {"conditions": [{"type": "Ready", "status": "True"}], "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}]}});
    vec![
        ("pods", rich),
        ("deployments", deployment()),
        ("services", service()),
        ("services", balancer()),
        (
            "addresspools",
            json!({"metadata": {"name": "n"}, "spec": {"addresses": ["192.0.2.0/24", "2001:db8::1-2001:db8::9"],
            "serviceSelector": {"matchLabels": {"a": "b"}}, "namespaces": ["x"]}}),
        ),
        ("networkpolicies", policy()),
        ("endpointslices", slice()),
        ("endpoints", endpoints),
        ("events", event),
        ("nodes", node),
        ("namespaces", json!({"metadata": {"name": "n", "labels": {"a": "b"}}})),
        ("secrets", json!({"metadata": {"name": "n"}, "stringData": {"a": "b"}})),
        ("configmaps", json!({"metadata": {"name": "n"}, "data": {"a": "b"}})),
    ]
}

fn balancer() -> Value {
    json!({"metadata": {"name": "b"}, "spec": {
        "type": "LoadBalancer", "ports": [{"port": 80}], "externalTrafficPolicy": "Local", "loadBalancerClass": "a/b",
        "sessionAffinity": "ClientIP", "loadBalancerSourceRanges": ["10.0.0.0/8"], "externalIPs": ["192.0.2.1"],
    }})
}

/// One object through every door.
fn exercise(plural: &str, object: Value, stored: &Value) {
    let resource = resource(plural);
    let Ok(document) = Document::new(object.clone()) else { return };
    if let Ok(decoded) = decode(resource, document, FieldValidation::Ignore) {
        (resource.row)(&decoded.object, now());
        for (_, read) in resource.selectable {
            read(&decoded.object);
        }
        let fresh = Fresh { now: now(), uid: "u", suffix: "abcde", namespace: resource.namespaced.then_some("x") };
        if let Ok(mut made) = prepare_create(resource, decoded.object.clone(), &fresh) {
            let cidrs = ServiceCidrs::parse("10.96.0.0/16,fd53::/112").unwrap();
            if plural == "services" {
                let ranges = ServiceRanges { cidrs, node_ports: NodePorts::default() };
                let _ = allocate(&mut made, Some(stored), &ranges, &Taken::default(), 1);
            }
            let _ = prepare_delete(resource, &made, &DeleteOptions::default(), now());
        }
        let _ = prepare_update(resource, None, decoded.object.clone(), stored, now());
        let _ = prepare_update(resource, Some(Subresource::Status), decoded.object, stored, now());
    }
    for patch_type in [PatchType::Merge, PatchType::StrategicMerge] {
        let _ = patch(resource, patch_type, stored, object.to_string().as_bytes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn nothing_panics(
        seed in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), scalar()), 1..5),
    ) {
        let seeds = seeds();
        let (plural, object) = seed.get(&seeds);
        let stored = super::create(plural, object.clone()).unwrap();
        exercise(plural, mutate(object.clone(), &changes), &stored);
        exercise(plural, mutate(stored.clone(), &changes), &stored);
    }
}
