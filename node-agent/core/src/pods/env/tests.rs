use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::*;
use crate::pods::node::NodeFacts;

fn environment(container: Value) -> Result<Vec<(String, String)>, ConfigError> {
    let mut container = container;
    container["name"] = json!("app");
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "labels": {"app": "web", "tier": "front"},
                     "annotations": {"note": "a \"b\""}},
        "spec": {"containers": [container], "serviceAccountName": "default"},
    }))
    .unwrap();
    let node = NodeFacts {
        name: "n1".to_owned(),
        addresses: vec!["192.0.2.1".to_owned(), "2001:db8::1".to_owned()],
        cpu_milli: 4000,
        memory_bytes: 8 << 30,
        ..NodeFacts::default()
    };
    let pod_ips = ["10.244.0.5".to_owned(), "fd00::5".to_owned()];
    let fields = Fields { pod: &pod, node: &node, pod_ips: &pod_ips };
    let mut objects = Objects::default();
    let map = json!({"metadata": {}, "data": {"color": "red", "size": "xl", "bad=key": "x"}});
    objects.config_maps.insert("settings".to_owned(), Arc::new(serde_json::from_value(map).unwrap()));
    let secret = json!({"metadata": {}, "data": {"password": "aHVudGVyMg==", "raw": "/w=="}});
    objects.secrets.insert("login".to_owned(), Arc::new(serde_json::from_value(secret).unwrap()));
    let container = &pod.spec.as_ref().unwrap().containers[0];
    Environment::of(container, &fields, &objects).map(Environment::into_variables)
}

fn one(source: Value) -> Result<String, String> {
    let variables =
        environment(json!({"env": [{"name": "V", "valueFrom": source}]})).map_err(|error| error.to_string())?;
    Ok(variables.into_iter().next().map(|(_, value)| value).unwrap_or_else(|| "(unset)".to_owned()))
}

#[test]
fn every_source() {
    let field = |path: &str| one(json!({"fieldRef": {"fieldPath": path}}));
    let resource =
        |resource: &str, divisor: &str| one(json!({"resourceFieldRef": {"resource": resource, "divisor": divisor}}));
    let table = [
        (field("metadata.name"), Ok("web")),
        (field("metadata.namespace"), Ok("shop")),
        (field("metadata.uid"), Ok("u1")),
        (field("metadata.labels['app']"), Ok("web")),
        (field("metadata.labels['none']"), Ok("")),
        (field("metadata.labels"), Ok("app=\"web\"\ntier=\"front\"")),
        (field("metadata.annotations"), Ok("note=\"a \\\"b\\\"\"")),
        (field("spec.nodeName"), Ok("n1")),
        (field("spec.serviceAccountName"), Ok("default")),
        (field("status.hostIP"), Ok("192.0.2.1")),
        (field("status.podIP"), Ok("10.244.0.5")),
        (field("status.podIPs"), Ok("10.244.0.5,fd00::5")),
        (field("spec.containers"), Err("unsupported fieldPath: spec.containers")),
        (resource("limits.cpu", "0"), Ok("4")),
        (resource("limits.cpu", "1m"), Ok("4000")),
        (resource("requests.cpu", "1m"), Ok("0")),
        (resource("limits.memory", "1Mi"), Ok("8192")),
        (resource("limits.pods", "1"), Err("unsupported container resource: limits.pods")),
        (one(json!({"configMapKeyRef": {"name": "settings", "key": "color"}})), Ok("red")),
        (one(json!({"configMapKeyRef": {"name": "none", "key": "color"}})), Err("configmap \"none\" not found")),
        (one(json!({"configMapKeyRef": {"name": "none", "key": "color", "optional": true}})), Ok("(unset)")),
        (
            one(json!({"configMapKeyRef": {"name": "settings", "key": "no"}})),
            Err("couldn't find key no in ConfigMap shop/settings"),
        ),
        (one(json!({"secretKeyRef": {"name": "login", "key": "password"}})), Ok("hunter2")),
        (one(json!({"secretKeyRef": {"name": "none", "key": "k"}})), Err("secret \"none\" not found")),
        (one(json!({"secretKeyRef": {"name": "login", "key": "k"}})), Err("couldn't find key k in Secret shop/login")),
        (
            one(json!({"secretKeyRef": {"name": "login", "key": "raw"}})),
            Err("the value of key raw in login is not UTF-8 text"),
        ),
    ];
    for (found, expected) in table {
        assert_eq!(found.as_deref().map_err(String::as_str), expected);
    }
}

#[test]
fn later_declarations_win_and_may_refer_to_earlier_ones() {
    let variables = environment(json!({
        "envFrom": [{"prefix": "C_", "configMapRef": {"name": "settings"}}, {"secretRef": {"name": "absent", "optional": true}}],
        "env": [
            {"name": "A", "value": "$(C_color)-$(LATER)"},
            {"name": "LATER", "value": "x"},
            {"name": "C_size", "value": "$$(A) $(A) $(", },
        ],
    }))
    .unwrap();
    let expected = [("C_color", "red"), ("C_size", "$(A) red-$(LATER) $("), ("A", "red-$(LATER)"), ("LATER", "x")];
    let found: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(found, expected);
}
