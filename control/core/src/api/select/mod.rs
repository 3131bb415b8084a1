//! Label and field selectors.

use serde_json::Value;

use super::resource::Resource;
use super::status::Status;

/// A parsed label selector: all requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {}

impl LabelSelector {
    /// From the `labelSelector` query parameter; empty selects everything.
    pub fn parse(text: &str) -> Result<Self, Status> {
        let _ = text;
        Ok(Self {})
    }

    /// Whether an object's labels satisfy it.
    pub fn matches(&self, object: &Value) -> bool {
        let _ = object;
        true
    }
}

/// A parsed field selector: all terms must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {}

impl FieldSelector {
    /// From the `fieldSelector` query parameter; empty selects everything.
    ///
    /// Errors: 400 for bad syntax and for fields that the resource does not offer.
    pub fn parse(resource: &Resource, text: &str) -> Result<Self, Status> {
        let _ = (resource, text);
        Ok(Self {})
    }

    /// Whether an object's fields satisfy it.
    pub fn matches(&self, resource: &Resource, object: &Value) -> bool {
        let _ = (resource, object);
        true
    }

    /// The value that the selector demands of `metadata.name`, for a direct read.
    pub fn name(&self) -> Option<&str> {
        None
    }
}

/// Whether a typed selector (`matchLabels`, `matchExpressions`) selects a label map.
pub fn matches_typed(selector: &Value, labels: &Value) -> bool {
    let _ = (selector, labels);
    true
}
