//! Deployments.

use serde_json::{Value, json};

use super::replica_set::{validate_counts, validate_workload};
use crate::api::access::{child, fill, text};
use crate::api::field::{Faults, FieldError, Path};
use crate::api::meta;
use crate::api::pod::default_template;
use crate::api::resource::{Resource, Strategy, Subresource, Verb};
use crate::api::table::{Column, age, containers, selector};

pub(super) static DEPLOYMENT: Resource = Resource {
    group: "apps",
    version: "v1",
    kind: "Deployment",
    plural: "deployments",
    singular: "deployment",
    short_names: &["deploy"],
    categories: &["all"],
    namespaced: true,
    verbs: Verb::ALL,
    subresources: &[Subresource::Scale, Subresource::Status],
    storage: "deployments.apps",
    strategy: Strategy {
        default,
        prepare_create: |object| crate::api::access::set(object, "status", json!({})),
        validate,
        validate_update: super::replica_set::validate_selector_kept,
        generation: true,
        ..Strategy::WITH_STATUS
    },
    columns: &[
        Column::NAME,
        Column::new("Ready", "string"),
        Column::new("Up-to-date", "string"),
        Column::new("Available", "string"),
        Column::AGE,
        Column::wide("Containers", "string"),
        Column::wide("Images", "string"),
        Column::wide("Selector", "string"),
    ],
    row: |object, now| {
        let (spec, status) = (&object["spec"], &object["status"]);
        let count = |field: &str| status[field].as_i64().unwrap_or_default();
        let wanted = spec["replicas"].as_i64().unwrap_or_default();
        let [names, images] = containers(&spec["template"]);
        vec![
            meta::name(object).into(),
            format!("{}/{wanted}", count("readyReplicas")).into(),
            count("updatedReplicas").to_string().into(),
            count("availableReplicas").to_string().into(),
            age(object, now),
            names,
            images,
            selector(&spec["selector"]),
        ]
    },
    selectable: &[],
};

fn default(object: &mut Value) {
    let spec = child(object, "spec");
    fill(spec, "replicas", 1);
    fill(spec, "revisionHistoryLimit", 10);
    fill(spec, "progressDeadlineSeconds", 600);
    let strategy = child(spec, "strategy");
    fill(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        let rolling = child(strategy, "rollingUpdate");
        fill(rolling, "maxUnavailable", "25%");
        fill(rolling, "maxSurge", "25%");
    }
    default_template(child(spec, "template"));
}

fn validate(object: &Value, faults: &mut Faults) {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    validate_workload(object, faults);
    validate_counts(spec, &["replicas", "minReadySeconds", "revisionHistoryLimit"], faults);
    validate_strategy(&spec["strategy"], &path.child("strategy"), faults);
    if let Some(deadline) = spec["progressDeadlineSeconds"].as_i64() {
        let here = path.child("progressDeadlineSeconds");
        if deadline < 0 {
            faults.push(FieldError::invalid(here.clone(), deadline, "must be greater than or equal to 0"));
        }
        if deadline <= spec["minReadySeconds"].as_i64().unwrap_or_default() {
            faults.push(FieldError::invalid(here, deadline, "must be greater than minReadySeconds"));
        }
    }
}

fn validate_strategy(strategy: &Value, path: &Path, faults: &mut Faults) {
    let rolling = &strategy["rollingUpdate"];
    match text(&strategy["type"]) {
        "Recreate" => {
            if !rolling.is_null() {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                faults.push(FieldError::forbidden(path.child("rollingUpdate"), detail));
            }
        }
        "RollingUpdate" => {
            let here = path.child("rollingUpdate");
            let unavailable = amount(&rolling["maxUnavailable"], &here.child("maxUnavailable"), faults);
            let surge = amount(&rolling["maxSurge"], &here.child("maxSurge"), faults);
            if unavailable == Some(0) && surge == Some(0) {
                let value = rolling["maxUnavailable"].clone();
                faults.push(FieldError::invalid(
                    here.child("maxUnavailable"),
                    value,
                    "may not be 0 when `maxSurge` is 0",
                ));
            }
            let percent = text(&rolling["maxUnavailable"]);
            if percent.ends_with('%') && unavailable.is_some_and(|n| n > 100) {
                faults.push(FieldError::invalid(
                    here.child("maxUnavailable"),
                    percent,
                    "must not be greater than 100%",
                ));
            }
        }
        other => {
            faults.push(FieldError::not_supported(path.child("type"), other, &["Recreate", "RollingUpdate"]));
        }
    }
}

/// A count or a percentage: its number, when it is one.
fn amount(value: &Value, path: &Path, faults: &mut Faults) -> Option<i64> {
    let number = match value {
        Value::String(percent) => {
            let digits = percent.strip_suffix('%').filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
            let number = digits.and_then(|d| d.parse().ok());
            if number.is_none() {
                let detail = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
                              '93%', regex used for validation is '[0-9]+%')";
                faults.push(FieldError::invalid(path.clone(), percent.as_str(), detail));
            }
            number
        }
        other => other.as_i64(),
    };
    if let Some(number) = number.filter(|n| *n < 0) {
        faults.push(FieldError::invalid(path.clone(), number, "must be greater than or equal to 0"));
    }
    number
}
