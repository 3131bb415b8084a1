//! Events, served in two groups and stored once, in the core form.

use serde_json::Value;

use crate::api::access::{remove, set, text};
use crate::api::field::{FieldError, Path};
use crate::api::meta;
use crate::api::resource::{Resource, Strategy, Verb};
use crate::api::table::{Column, since};

/// `(core, events.k8s.io)` names of the same field.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

const COLUMNS: &[Column] = &[
    Column::new("Last Seen", "string"),
    Column::new("Type", "string"),
    Column::new("Reason", "string"),
    Column::new("Object", "string"),
    Column::wide("Subobject", "string"),
    Column::wide("Source", "string"),
    Column::new("Message", "string"),
    Column::wide("First Seen", "string"),
    Column::wide("Count", "string"),
    Column { name: "Name", kind: "string", format: "name", priority: 1 },
];

pub(super) static EVENT: Resource = Resource {
    group: "",
    version: "v1",
    kind: "Event",
    plural: "events",
    singular: "event",
    short_names: &["ev"],
    categories: &[],
    namespaced: true,
    verbs: Verb::ALL,
    subresources: &[],
    storage: "events",
    strategy: Strategy {
        validate: |object, faults| {
            let namespace = text(&object["involvedObject"]["namespace"]);
            let own = meta::namespace(object);
            let matches =
                if namespace.is_empty() { own == "default" || own == "kube-system" } else { namespace == own };
            if !matches {
                let path = Path::new("involvedObject").child("namespace");
                faults.push(FieldError::invalid(path, namespace, "does not match event.namespace"));
            }
        },
        create_on_update: true,
        ..Strategy::PLAIN
    },
    columns: COLUMNS,
    row,
    selectable: &[
        ("involvedObject.kind", |o| text(&o["involvedObject"]["kind"]).into()),
        ("involvedObject.namespace", |o| text(&o["involvedObject"]["namespace"]).into()),
        ("involvedObject.name", |o| text(&o["involvedObject"]["name"]).into()),
        ("involvedObject.uid", |o| text(&o["involvedObject"]["uid"]).into()),
        ("involvedObject.apiVersion", |o| text(&o["involvedObject"]["apiVersion"]).into()),
        ("involvedObject.resourceVersion", |o| text(&o["involvedObject"]["resourceVersion"]).into()),
        ("involvedObject.fieldPath", |o| text(&o["involvedObject"]["fieldPath"]).into()),
        ("reason", |o| text(&o["reason"]).into()),
        ("reportingComponent", |o| text(&o["reportingComponent"]).into()),
        ("source", source),
        ("type", |o| text(&o["type"]).into()),
    ],
};

pub(super) static EVENTS_EVENT: Resource = Resource {
    group: "events.k8s.io",
    version: "v1",
    kind: "Event",
    plural: "events",
    singular: "event",
    short_names: &["ev"],
    categories: &[],
    namespaced: true,
    verbs: Verb::ALL,
    subresources: &[],
    storage: "events",
    strategy: Strategy {
        validate: |object, faults| (EVENT.strategy.validate)(&to_core(object.clone()), faults),
        create_on_update: true,
        to_storage: to_core,
        from_storage: from_core,
        ..Strategy::PLAIN
    },
    columns: COLUMNS,
    row: |object, now| row(&to_core(object.clone()), now),
    selectable: &[
        ("regarding.kind", |o| text(&o["regarding"]["kind"]).into()),
        ("regarding.namespace", |o| text(&o["regarding"]["namespace"]).into()),
        ("regarding.name", |o| text(&o["regarding"]["name"]).into()),
        ("regarding.uid", |o| text(&o["regarding"]["uid"]).into()),
        ("reason", |o| text(&o["reason"]).into()),
        ("reportingController", |o| text(&o["reportingController"]).into()),
        ("type", |o| text(&o["type"]).into()),
    ],
};

fn rename(object: &mut Value, from: &str, to: &str) {
    if let Some(value) = object.get(from).cloned() {
        remove(object, from);
        set(object, to, value);
    }
}

fn to_core(mut object: Value) -> Value {
    for (core, served) in RENAMED {
        rename(&mut object, served, core);
    }
    set(&mut object, "apiVersion", "v1");
    object
}

fn from_core(mut object: Value) -> Value {
    for (core, served) in RENAMED {
        rename(&mut object, core, served);
    }
    set(&mut object, "apiVersion", "events.k8s.io/v1");
    object
}

fn source(event: &Value) -> String {
    match text(&event["source"]["component"]) {
        "" => text(&event["reportingComponent"]).into(),
        component => component.into(),
    }
}

fn row(event: &Value, now: jiff::Timestamp) -> Vec<Value> {
    let (first, last) = (&event["firstTimestamp"], &event["lastTimestamp"]);
    let first_seen = if first.is_null() { since(&event["eventTime"], now) } else { since(first, now) };
    let series = &event["series"];
    let last_seen = if !series.is_null() {
        since(&series["lastObservedTime"], now)
    } else if last.is_null() {
        first_seen.clone()
    } else {
        since(last, now)
    };
    let count = series["count"].as_i64().or(event["count"].as_i64()).unwrap_or(1).max(1);
    let about = &event["involvedObject"];
    let object = match text(&about["name"]) {
        "" => text(&about["kind"]).to_lowercase(),
        name => format!("{}/{name}", text(&about["kind"]).to_lowercase()),
    };
    let component = source(event);
    let host = match text(&event["source"]["host"]) {
        "" => text(&event["reportingInstance"]),
        host => host,
    };
    let source = if host.is_empty() { component } else { format!("{component}, {host}") };
    vec![
        last_seen,
        text(&event["type"]).into(),
        text(&event["reason"]).into(),
        object.into(),
        text(&about["fieldPath"]).into(),
        source.into(),
        text(&event["message"]).trim().into(),
        first_seen,
        count.to_string().into(),
        meta::name(event).into(),
    ]
}
