//! ReplicaSets, and the rules that workloads share.

use serde_json::{Value, json};

use crate::api::access::{child, fill, text};
use crate::api::field::{Faults, FieldError, Path};
use crate::api::meta;
use crate::api::pod::{default_template, validate_template, validate_workload_selector};
use crate::api::resource::{Resource, Strategy, Subresource, Verb};
use crate::api::table::{Column, age, containers, selector};

pub(super) static REPLICA_SET: Resource = Resource {
    group: "apps",
    version: "v1",
    kind: "ReplicaSet",
    plural: "replicasets",
    singular: "replicaset",
    short_names: &["rs"],
    categories: &["all"],
    namespaced: true,
    verbs: Verb::ALL,
    subresources: &[Subresource::Scale, Subresource::Status],
    storage: "replicasets.apps",
    strategy: Strategy {
        default: |object| {
            let spec = child(object, "spec");
            fill(spec, "replicas", 1);
            default_template(child(spec, "template"));
        },
        prepare_create: |object| crate::api::access::set(object, "status", json!({"replicas": 0})),
        validate: |object, faults| {
            validate_workload(object, faults);
            validate_counts(&object["spec"], &["replicas", "minReadySeconds"], faults);
        },
        validate_update: validate_selector_kept,
        generation: true,
        ..Strategy::WITH_STATUS
    },
    columns: &[
        Column::NAME,
        Column::new("Desired", "integer"),
        Column::new("Current", "integer"),
        Column::new("Ready", "integer"),
        Column::AGE,
        Column::wide("Containers", "string"),
        Column::wide("Images", "string"),
        Column::wide("Selector", "string"),
    ],
    row: |object, now| {
        let (spec, status) = (&object["spec"], &object["status"]);
        let [names, images] = containers(&spec["template"]);
        vec![
            meta::name(object).into(),
            spec["replicas"].as_i64().unwrap_or_default().into(),
            status["replicas"].as_i64().unwrap_or_default().into(),
            status["readyReplicas"].as_i64().unwrap_or_default().into(),
            age(object, now),
            names,
            images,
            selector(&spec["selector"]),
        ]
    },
    selectable: &[("status.replicas", |o| o["status"]["replicas"].as_i64().unwrap_or_default().to_string())],
};

/// Faults of selector and template.
pub(super) fn validate_workload(object: &Value, faults: &mut Faults) {
    validate_workload_selector(object, faults);
    let template = &object["spec"]["template"];
    let path = Path::new("spec").child("template");
    validate_template(template, &path, faults);
    let policy = text(&template["spec"]["restartPolicy"]);
    if policy != "Always" {
        faults.push(FieldError::not_supported(path.child("spec").child("restartPolicy"), policy, &["Always"]));
    }
    if !template["spec"]["activeDeadlineSeconds"].is_null() {
        let here = path.child("spec").child("activeDeadlineSeconds");
        faults.push(FieldError::forbidden(
            here,
            "activeDeadlineSeconds in a workload that restarts its pods is not supported",
        ));
    }
}

/// Faults of counts below zero.
pub(super) fn validate_counts(spec: &Value, fields: &[&str], faults: &mut Faults) {
    for field in fields {
        if let Some(count) = spec[*field].as_i64().filter(|n| *n < 0) {
            let path = Path::new("spec").child(field);
            faults.push(FieldError::invalid(path, count, "must be greater than or equal to 0"));
        }
    }
}

/// In apps/v1 a selector never changes.
pub(super) fn validate_selector_kept(new: &Value, old: &Value, faults: &mut Faults) {
    if new["spec"]["selector"] != old["spec"]["selector"] {
        let path = Path::new("spec").child("selector");
        faults.push(FieldError::invalid(path, new["spec"]["selector"].clone(), "field is immutable"));
    }
}
