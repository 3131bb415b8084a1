//! What the resources promise, through the same door as requests: decode, then prepare.

use serde_json::{Value, json};

use crate::api::{
    Document, FieldValidation, Fresh, Resource, Status, Subresource, Update, decode, prepare_create, prepare_update,
    registry,
};

mod change;
mod default;
mod mutant;
mod row;
mod services;
mod valid;

pub(super) fn resource(name: &str) -> &'static Resource {
    registry().iter().find(|r| r.plural == name && r.group != "events.k8s.io").unwrap()
}

pub(super) fn now() -> jiff::Timestamp {
    "2026-12-01T12:00:00Z".parse().unwrap()
}

/// A create as the server does it.
pub(super) fn create(plural: &str, object: Value) -> Result<Value, Status> {
    let resource = resource(plural);
    let decoded = decode(resource, Document::new(object).unwrap(), FieldValidation::Strict)?;
    let fresh = Fresh { now: now(), uid: "u-1", suffix: "abcde", namespace: resource.namespaced.then_some("x") };
    prepare_create(resource, decoded.object, &fresh)
}

/// An update of a stored object as the server does it.
pub(super) fn update(plural: &str, sub: Option<Subresource>, new: Value, old: &Value) -> Result<Update, Status> {
    let resource = resource(plural);
    let decoded = decode(resource, Document::new(new).unwrap(), FieldValidation::Strict)?;
    prepare_update(resource, sub, decoded.object, old, now())
}

/// `field reason` of every cause.
pub(super) fn causes(status: &Status) -> Vec<String> {
    let details = status.details.as_ref().unwrap();
    details.causes.iter().map(|c| format!("{} {}", c.field, c.reason.trim_start_matches("FieldValue"))).collect()
}

/// An object changed at a JSON pointer; null removes.
pub(super) fn with(object: &Value, pointer: &str, value: Value) -> Value {
    let mut object = object.clone();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match object.pointer_mut(parent).expect(pointer) {
        Value::Array(list) if key == "-" => list.push(value),
        Value::Array(list) => list[key.parse::<usize>().unwrap()] = value,
        Value::Object(map) if value.is_null() => {
            map.remove(key);
        }
        Value::Object(map) => {
            map.insert(key.to_owned(), value);
        }
        other => panic!("{other} has no parts"),
    }
    object
}

pub(super) fn pod() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {
        "containers": [{"name": "a", "image": "nginx:1"}]}})
}

pub(super) fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "image": "nginx:1"}]}}}})
}

pub(super) fn service() -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {
        "selector": {"app": "web"}, "ports": [{"port": 80}]}})
}

pub(super) fn policy() -> Value {
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "web"}, "spec": {
        "podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 80}]}]}})
}

pub(super) fn slice() -> Value {
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "web"}, "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]})
}
