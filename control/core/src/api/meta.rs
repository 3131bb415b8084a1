//! Object metadata: reading and writing the fields that every object has.

use serde_json::{Map, Value};

/// Characters of generated name suffixes: no vowels, none that look alike.
pub const SUFFIX_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// `metadata.name`, or empty.
pub fn name(object: &Value) -> &str {
    text(object, "name")
}

/// `metadata.namespace`, or empty.
pub fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

/// `metadata.uid`, or empty.
pub fn uid(object: &Value) -> &str {
    text(object, "uid")
}

/// `metadata.resourceVersion`, or empty.
pub fn resource_version(object: &Value) -> &str {
    text(object, "resourceVersion")
}

/// Whether a deletion was asked for.
pub fn is_deleting(object: &Value) -> bool {
    !text(object, "deletionTimestamp").is_empty()
}

/// `metadata.finalizers`.
pub fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Puts the store's revision on an object that is read.
pub fn set_resource_version(object: &mut Value, revision: u64) {
    metadata_mut(object).insert("resourceVersion".into(), Value::String(revision.to_string()));
}

/// Takes the revision off an object that is stored.
pub fn clear_resource_version(object: &mut Value) {
    metadata_mut(object).remove("resourceVersion");
}

/// A time as objects carry it: RFC 3339 in UTC, whole seconds.
pub fn time_text(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A time read from an object.
pub fn time(value: &Value) -> Option<jiff::Timestamp> {
    value.as_str()?.parse().ok()
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// The metadata map, made when it is not there.
pub fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    map_mut(map_mut(object).entry("metadata").or_insert_with(|| Value::Object(Map::new())))
}

/// The value as a map; anything else becomes an empty one.
pub(crate) fn map_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("it was made an object above"),
    }
}

mod validate;

pub(crate) use validate::{validate, validate_update};
