//! Tables and partial objects: the two reduced forms in which objects are answered.

use serde_json::{Value, json};

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
    let _ = (resource, objects, include, columns, now);
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": [], "rows": []})
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
