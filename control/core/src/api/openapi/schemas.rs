//! Type definitions.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{Dialect, descriptions};
use crate::api::registry;
use crate::api::schema::{Field, Shape, Type, TypeId, schema};

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";
const MICRO_TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";

/// Every type of the tables.
pub(super) fn all(dialect: Dialect) -> Map<String, Value> {
    let mut definitions: Map<String, Value> =
        schema().types().map(|kind| (kind.full_name(), describe(dialect, kind))).collect();
    add_scalars(dialect, &mut definitions);
    definitions
}

/// The types that the kinds of one group lead to.
pub(super) fn of_group(group: &str, version: &str) -> Map<String, Value> {
    let roots = registry().iter().filter(|r| r.group == group && r.version == version);
    let mut reached = BTreeSet::new();
    let mut open: Vec<TypeId> = roots.filter_map(|r| schema().of_kind(r.group, r.kind)).collect();
    let mut definitions = Map::new();
    while let Some(id) = open.pop() {
        let kind = schema().get(id);
        if reached.insert(kind.full_name()) {
            definitions.insert(kind.full_name(), describe(Dialect::V3, kind));
            open.extend(kind.fields.iter().filter_map(|f| leads_to(&f.shape)));
        }
    }
    add_scalars(Dialect::V3, &mut definitions);
    definitions
}

fn leads_to(shape: &Shape) -> Option<TypeId> {
    match shape {
        Shape::Object(id) => Some(*id),
        Shape::List(inner) | Shape::Map(inner) => leads_to(inner),
        _ => None,
    }
}

fn describe(dialect: Dialect, kind: &Type) -> Value {
    let properties: Map<String, Value> =
        kind.fields.iter().map(|field| (field.name.to_owned(), property(dialect, kind, field))).collect();
    let required: Vec<&str> = kind.fields.iter().filter(|f| f.required).map(|f| f.name).collect();
    let mut definition = json!({"type": "object", "properties": properties});
    if let Some(text) = descriptions::of_type(kind) {
        definition["description"] = text.into();
    }
    if !required.is_empty() {
        definition["required"] = json!(required);
    }
    let kinds = group_version_kinds(kind);
    if !kinds.is_empty() {
        definition["x-kubernetes-group-version-kind"] = kinds.into();
    }
    definition
}

/// What a type is when it is a whole object: one that is served, or the body of a subresource.
fn group_version_kinds(kind: &Type) -> Vec<Value> {
    let served = registry().iter().find(|r| {
        r.kind == kind.name
            && schema().of_kind(r.group, r.kind).is_some_and(|id| schema().get(id).package == kind.package)
    });
    let known = match (kind.package, kind.name) {
        ("io.k8s.api.core.v1", "Binding") => Some(("", "v1", "Binding")),
        ("io.k8s.api.autoscaling.v1", "Scale") => Some(("autoscaling", "v1", "Scale")),
        ("io.k8s.api.policy.v1", "Eviction") => Some(("policy", "v1", "Eviction")),
        _ => served.map(|r| (r.group, r.version, r.kind)),
    };
    known.into_iter().map(|(group, version, kind)| json!({"group": group, "kind": kind, "version": version})).collect()
}

fn property(dialect: Dialect, kind: &Type, field: &Field) -> Value {
    let mut property = value(dialect, &field.shape);
    if let Some(text) = descriptions::of_field(kind, field.name) {
        property["description"] = text.into();
    }
    let merge = &field.merge;
    let strategy = match (merge.merge, merge.retain_keys) {
        (true, true) => "merge,retainKeys",
        (true, false) => "merge",
        (false, true) => "retainKeys",
        (false, false) => "",
    };
    if !strategy.is_empty() {
        property["x-kubernetes-patch-strategy"] = strategy.into();
    }
    if let Some(key) = merge.key {
        property["x-kubernetes-patch-merge-key"] = key.into();
        let keys = if merge.list_keys.is_empty() { vec![key] } else { merge.list_keys.clone() };
        property["x-kubernetes-list-map-keys"] = json!(keys);
        property["x-kubernetes-list-type"] = "map".into();
    } else if merge.merge {
        property["x-kubernetes-list-type"] = "set".into();
    } else if matches!(field.shape, Shape::List(_)) {
        property["x-kubernetes-list-type"] = "atomic".into();
    }
    property
}

fn value(dialect: Dialect, shape: &Shape) -> Value {
    match shape {
        Shape::String => json!({"type": "string"}),
        Shape::Int32 => json!({"type": "integer", "format": "int32"}),
        Shape::Int64 => json!({"type": "integer", "format": "int64"}),
        Shape::Bool => json!({"type": "boolean"}),
        Shape::Double => json!({"type": "number", "format": "double"}),
        Shape::Bytes => json!({"type": "string", "format": "byte"}),
        Shape::Any => json!({"type": "object"}),
        Shape::Quantity => reference(dialect, QUANTITY),
        Shape::IntOrString => reference(dialect, INT_OR_STRING),
        Shape::Time => reference(dialect, TIME),
        Shape::MicroTime => reference(dialect, MICRO_TIME),
        Shape::Object(id) => reference(dialect, &schema().get(*id).full_name()),
        Shape::List(inner) => json!({"type": "array", "items": value(dialect, inner)}),
        Shape::Map(inner) => json!({"type": "object", "additionalProperties": value(dialect, inner)}),
    }
}

/// A reference to a definition.
fn reference(dialect: Dialect, name: &str) -> Value {
    match dialect {
        Dialect::V2 => json!({"$ref": format!("#/definitions/{name}")}),
        // Next to a plain `$ref` nothing else would count.
        Dialect::V3 => json!({"allOf": [{"$ref": format!("#/components/schemas/{name}")}]}),
    }
}

fn add_scalars(dialect: Dialect, definitions: &mut Map<String, Value>) {
    let either = |number: &str| json!({"oneOf": [{"type": number}, {"type": "string"}]});
    let (quantity, mixed) = match dialect {
        Dialect::V2 => (json!({"type": "string"}), json!({"type": "string", "format": "int-or-string"})),
        Dialect::V3 => {
            let mut mixed = either("integer");
            mixed["format"] = "int-or-string".into();
            (either("number"), mixed)
        }
    };
    let time = json!({"type": "string", "format": "date-time"});
    for (name, definition) in [(QUANTITY, quantity), (INT_OR_STRING, mixed), (TIME, time.clone()), (MICRO_TIME, time)] {
        definitions.insert(name.to_owned(), definition);
    }
}
