//! From bytes to an object of known fields and right types.

use serde_json::Value;

use super::meta::map_mut;
use super::resource::Resource;
use super::schema::{Check, schema};
use super::status::Status;

mod json;
mod protobuf;

pub use protobuf::parse_protobuf;

/// Largest body in bytes.
pub const MAX_BODY: usize = 3 * 1024 * 1024;

/// Deepest nesting of lists and objects in a body. The deepest built-in object has about 25 levels.
pub const MAX_DEPTH: usize = 100;

/// A parsed body, its depth within bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The content.
    pub value: Value,
    /// Paths of keys that the text gave twice (the last one holds).
    pub duplicates: Vec<String>,
}

impl Document {
    /// From an already parsed value (YAML, a patch's result).
    ///
    /// Errors: 400 when it is nested too deeply.
    pub fn new(value: Value) -> Result<Self, Status> {
        if depth_exceeds(&value, MAX_DEPTH) {
            return Err(too_deep());
        }
        Ok(Self { value, duplicates: Vec::new() })
    }
}

fn too_deep() -> Status {
    Status::bad_request(format!("error decoding: exceeded max depth of {MAX_DEPTH}"))
}

fn depth_exceeds(value: &Value, left: usize) -> bool {
    match value {
        Value::Array(items) => left == 0 || items.iter().any(|v| depth_exceeds(v, left - 1)),
        Value::Object(map) => left == 0 || map.values().any(|v| depth_exceeds(v, left - 1)),
        _ => false,
    }
}

/// Parses JSON, after its size and its depth have been found within bounds.
///
/// Errors: 413 for more than [`MAX_BODY`] bytes, 400 for more than [`MAX_DEPTH`] levels and for anything but JSON.
pub fn parse_json(body: &[u8]) -> Result<Document, Status> {
    if body.len() > MAX_BODY {
        return Err(Status::too_large(MAX_BODY));
    }
    if json::depth_exceeds(body, MAX_DEPTH) {
        return Err(too_deep());
    }
    let (value, duplicates) = json::parse(body)
        .map_err(|error| Status::bad_request(format!("couldn't get version/kind; json parse error: {error}")))?;
    Ok(Document { value, duplicates })
}

/// What is done about unknown and duplicate fields (`fieldValidation` of the query).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Dropped silently.
    Ignore,
    /// Dropped, with a `Warning` header each.
    #[default]
    Warn,
    /// 400.
    Strict,
}

impl FieldValidation {
    /// From the query parameter; absent or empty is `Warn`.
    pub fn parse(text: Option<&str>) -> Result<Self, Status> {
        match text {
            None | Some("" | "Warn") => Ok(Self::Warn),
            Some("Ignore") => Ok(Self::Ignore),
            Some("Strict") => Ok(Self::Strict),
            Some(other) => Err(Status::bad_request(format!(
                "fieldValidation: Unsupported value: {other:?}: supported values: \"Ignore\", \"Strict\", \"Warn\""
            ))),
        }
    }
}

/// An object and what the client should be told.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The object: apiVersion and kind set, unknown fields and nulls gone.
    pub object: Value,
    /// Texts for `Warning: 299 - "..."` headers.
    pub warnings: Vec<String>,
}

/// Checks a document against the schema of `resource`.
///
/// Errors: 400 for another kind, wrong types, and (strict) unknown or duplicate fields.
pub fn decode(resource: &Resource, document: Document, validation: FieldValidation) -> Result<Decoded, Status> {
    decode_kind(resource.group, resource.version, resource.kind, document, validation)
}

/// [`decode`] for a kind that is no resource: `Scale`, `Binding`, `Eviction`, `DeleteOptions`.
pub fn decode_kind(
    group: &str,
    version: &str,
    kind: &str,
    document: Document,
    validation: FieldValidation,
) -> Result<Decoded, Status> {
    let Document { mut value, duplicates } = document;
    let api_version = super::resource::group_version(group, version);
    let cannot = |error: &dyn std::fmt::Display| {
        Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {error}"))
    };
    let Some(id) = schema().of_kind(group, kind) else {
        return Err(Status::internal(format!("no schema for {api_version} {kind}")));
    };
    if let Value::Object(map) = &value {
        let given = |field: &str| map.get(field).and_then(Value::as_str).unwrap_or_default();
        let (given_version, given_kind) = (given("apiVersion"), given("kind"));
        if !given_version.is_empty() && given_version != api_version {
            return Err(Status::bad_request(format!(
                "the API version in the data ({given_version}) does not match the expected API version ({api_version})"
            )));
        }
        if !given_kind.is_empty() && given_kind != kind {
            let text = format!("{given_kind} in version {version:?} cannot be handled as a {kind}: the kinds differ");
            return Err(Status::bad_request(text));
        }
    }
    let check = Check::run(schema(), id, &mut value).map_err(|fault| cannot(&fault))?;
    let map = map_mut(&mut value);
    map.insert("apiVersion".into(), api_version.into());
    map.insert("kind".into(), kind.into());
    let duplicates = duplicates.iter().map(|path| format!("duplicate field {path:?}"));
    let faults: Vec<String> =
        duplicates.chain(check.unknown.iter().map(|path| format!("unknown field {path:?}"))).collect();
    match validation {
        FieldValidation::Strict if !faults.is_empty() => {
            Err(cannot(&format_args!("strict decoding error: {}", faults.join(", "))))
        }
        FieldValidation::Warn => Ok(Decoded { object: value, warnings: faults }),
        _ => Ok(Decoded { object: value, warnings: Vec::new() }),
    }
}

#[cfg(test)]
mod tests;
