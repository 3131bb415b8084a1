//! Nodes.

use serde_json::Value;

use crate::api::access::{carry, items, text, texts};
use crate::api::field::{FieldError, Path};
use crate::api::meta;
use crate::api::names::{complain, label_value, qualified};
use crate::api::resource::{Resource, Strategy, Subresource, Verb};
use crate::api::table::{Column, age, or_none};

pub(super) static NODE: Resource = Resource {
    group: "",
    version: "v1",
    kind: "Node",
    plural: "nodes",
    singular: "node",
    short_names: &["no"],
    categories: &[],
    namespaced: false,
    verbs: Verb::ALL,
    subresources: &[Subresource::Status],
    storage: "nodes",
    strategy: Strategy {
        // A node registers itself with its status, so a create keeps it.
        prepare_update: |new, old| carry(new, old, "status"),
        validate: |object, faults| {
            let path = Path::new("spec").child("taints");
            let mut seen = Vec::new();
            for (index, taint) in items(&object["spec"]["taints"]).iter().enumerate() {
                let here = path.index(index);
                let (key, value, effect) = (text(&taint["key"]), text(&taint["value"]), text(&taint["effect"]));
                complain(faults, here.child("key"), key, qualified(key));
                complain(faults, here.child("value"), value, label_value(value));
                let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
                if effect.is_empty() {
                    faults.push(FieldError::required(here.child("effect"), ""));
                } else if !effects.contains(&effect) {
                    faults.push(FieldError::not_supported(here.child("effect"), effect, &effects));
                }
                if seen.contains(&(key, effect)) {
                    faults.push(FieldError::duplicate(here, taint.clone()));
                }
                seen.push((key, effect));
            }
        },
        validate_update: |new, old, faults| {
            let before = &old["spec"]["podCIDR"];
            if !text(before).is_empty() && new["spec"]["podCIDR"] != *before {
                let detail = "node updates may not change podCIDR except from \"\" to valid";
                faults.push(FieldError::forbidden(Path::new("spec").child("podCIDRs"), detail));
            }
        },
        ..Strategy::PLAIN
    },
    columns: &[
        Column::NAME,
        Column::new("Status", "string"),
        Column::new("Roles", "string"),
        Column::AGE,
        Column::new("Version", "string"),
        Column::wide("Internal-IP", "string"),
        Column::wide("External-IP", "string"),
        Column::wide("OS-Image", "string"),
        Column::wide("Kernel-Version", "string"),
        Column::wide("Container-Runtime", "string"),
    ],
    row: |object, now| {
        let info = &object["status"]["nodeInfo"];
        let known = |field: &str| match text(&info[field]) {
            "" => Value::from("<unknown>"),
            value => value.into(),
        };
        vec![
            meta::name(object).into(),
            status(object).into(),
            roles(object),
            age(object, now),
            text(&info["kubeletVersion"]).into(),
            address(object, "InternalIP"),
            address(object, "ExternalIP"),
            known("osImage"),
            known("kernelVersion"),
            known("containerRuntimeVersion"),
        ]
    },
    selectable: &[("spec.unschedulable", |o| (o["spec"]["unschedulable"] == true).to_string())],
};

fn status(node: &Value) -> String {
    let ready = items(&node["status"]["conditions"]).iter().find(|c| c["type"] == "Ready");
    let mut status = match ready.map(|c| text(&c["status"])) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if node["spec"]["unschedulable"] == true {
        status.push_str(",SchedulingDisabled");
    }
    status
}

fn roles(node: &Value) -> Value {
    let mut roles: Vec<&str> = texts(&node["metadata"]["labels"])
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) if !role.is_empty() => Some(role),
            _ => (key == "kubernetes.io/role" && !value.is_empty()).then_some(value),
        })
        .collect();
    roles.sort_unstable();
    or_none(&roles.join(","))
}

fn address(node: &Value, kind: &str) -> Value {
    let found = items(&node["status"]["addresses"]).iter().find(|a| a["type"] == kind);
    or_none(found.map_or("", |a| text(&a["address"])))
}
