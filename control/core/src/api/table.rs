//! Tables and partial objects: the two reduced forms in which objects are answered.

use serde_json::{Value, json};

use super::access::{items, text, texts};
use super::meta;
use super::resource::Resource;
use super::status::Status;

/// One `kubectl get` column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Heading, as Kubernetes writes it: `Nominated Node`.
    pub name: &'static str,
    /// `string`, `integer`, ...
    pub kind: &'static str,
    /// `name` for the name column, else empty.
    pub format: &'static str,
    /// 0 is always shown, 1 only in wide output.
    pub priority: u8,
}

impl Column {
    /// A column that is always shown.
    pub(crate) const fn new(name: &'static str, kind: &'static str) -> Self {
        Self { name, kind, format: "", priority: 0 }
    }

    /// A column of wide output.
    pub(crate) const fn wide(name: &'static str, kind: &'static str) -> Self {
        Self { name, kind, format: "", priority: 1 }
    }

    /// The first column of all tables but that of events.
    pub(crate) const NAME: Self = Self { name: "Name", kind: "string", format: "name", priority: 0 };

    /// Time since creation.
    pub(crate) const AGE: Self = Self::new("Age", "string");

    fn definition(&self) -> Value {
        json!({
            "name": self.name, "type": self.kind, "format": self.format, "description": "", "priority": self.priority,
        })
    }
}

/// Which form of the object each row carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// `PartialObjectMetadata`.
    #[default]
    Metadata,
    /// Everything.
    Object,
}

impl IncludeObject {
    /// From the `includeObject` query parameter.
    pub fn parse(text: Option<&str>) -> Result<Self, Status> {
        match text {
            None | Some("" | "Metadata") => Ok(Self::Metadata),
            Some("None") => Ok(Self::None),
            Some("Object") => Ok(Self::Object),
            Some(other) => Err(Status::bad_request(format!("unrecognized includeObject value {other:?}"))),
        }
    }
}

/// A `meta.k8s.io/v1` `Table` of objects in their served form.
///
/// `metadata` is the list's (resourceVersion, continue, remainingItemCount), or the single object's resourceVersion.
/// `columns` can be left out for the second and later events of a watch.
pub fn table(
    resource: &Resource,
    objects: &[Value],
    metadata: Value,
    include: IncludeObject,
    columns: bool,
    now: jiff::Timestamp,
) -> Value {
    let definitions: Vec<Value> =
        if columns { resource.columns.iter().map(Column::definition).collect() } else { Vec::new() };
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let mut row = json!({"cells": (resource.row)(object, now)});
            match include {
                IncludeObject::None => {}
                IncludeObject::Metadata => row["object"] = partial(object),
                IncludeObject::Object => row["object"] = object.clone(),
            }
            row
        })
        .collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": definitions, "rows": rows,
    })
}

/// `meta.k8s.io/v1` `PartialObjectMetadata` of one object.
pub fn partial(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

/// `meta.k8s.io/v1` `PartialObjectMetadataList`.
pub fn partial_list(objects: &[Value], metadata: Value) -> Value {
    let items: Vec<Value> = objects.iter().map(partial).collect();
    json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items})
}

/// Time since creation, as a cell.
pub(crate) fn age(object: &Value, now: jiff::Timestamp) -> Value {
    since(&object["metadata"]["creationTimestamp"], now)
}

/// Time since a timestamp, as a cell.
pub(crate) fn since(time: &Value, now: jiff::Timestamp) -> Value {
    match meta::time(time) {
        Some(time) => human(now.duration_since(time)).into(),
        None => "<unknown>".into(),
    }
}

/// Text, or `<none>`.
pub(crate) fn or_none(text: &str) -> Value {
    if text.is_empty() { "<none>".into() } else { text.into() }
}

/// Names and images of the containers of a pod template.
pub(crate) fn containers(template: &Value) -> [Value; 2] {
    let list = |field: &str| {
        let all: Vec<&str> = items(&template["spec"]["containers"]).iter().map(|c| text(&c[field])).collect();
        Value::from(all.join(","))
    };
    [list("name"), list("image")]
}

/// `a=1,b=2` of a label map, or `<none>`.
pub(crate) fn labels(map: &Value) -> Value {
    let all: Vec<String> = texts(map).map(|(k, v)| format!("{k}={v}")).collect();
    or_none(&all.join(","))
}

/// A typed label selector as text, or `<none>`.
pub(crate) fn selector(selector: &Value) -> Value {
    let mut all: Vec<String> = texts(&selector["matchLabels"]).map(|(k, v)| format!("{k}={v}")).collect();
    for requirement in items(&selector["matchExpressions"]) {
        let key = text(&requirement["key"]);
        let values: Vec<&str> = items(&requirement["values"]).iter().map(text).collect();
        let values = values.join(",");
        all.push(match text(&requirement["operator"]) {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    or_none(&all.join(","))
}

/// At most `max` of the texts, and how many more there are.
pub(crate) fn some_of(all: &[String], max: usize) -> String {
    let shown = all.iter().take(max).map(String::as_str).collect::<Vec<_>>().join(",");
    if all.len() > max { format!("{shown} + {} more...", all.len() - max) } else { shown }
}

/// A span of time in at most two units: `5s`, `2m30s`, `3h`, `4d12h`, `2y`.
pub fn human(span: jiff::SignedDuration) -> String {
    let seconds = span.as_secs();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let two = |big: i64, unit: char, small: i64, sub: char| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{sub}") }
    };
    match () {
        () if seconds < -1 => "<invalid>".into(),
        () if seconds < 0 => "0s".into(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 24 * 8 => two(hours / 24, 'd', hours % 24, 'h'),
        () if hours < 24 * 365 * 2 => format!("{}d", hours / 24),
        () if hours < 24 * 365 * 8 => two(hours / 24 / 365, 'y', hours / 24 % 365, 'd'),
        () => format!("{}y", hours / 24 / 365),
    }
}

#[cfg(test)]
mod tests;
