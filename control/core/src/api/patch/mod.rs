//! Patches: JSON patch, merge patch, strategic merge patch.

use serde_json::Value;

use super::decode::parse_json;
use super::resource::Resource;
use super::status::Status;

mod operations;
mod order;
mod strategic;

/// Media types that patches come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// `application/json-patch+json`, RFC 6902.
    Json,
    /// `application/merge-patch+json`, RFC 7386.
    Merge,
    /// `application/strategic-merge-patch+json`.
    StrategicMerge,
}

impl PatchType {
    /// From a content type, parameters ignored.
    ///
    /// Errors: 415 for anything else, server-side apply included.
    pub fn parse(content_type: &str) -> Result<Self, Status> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" => Ok(Self::StrategicMerge),
            _ => Err(Status::unsupported_media_type(&[
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/strategic-merge-patch+json",
            ])),
        }
    }
}

/// Applies a patch body to an object in its served form; the result goes through [`super::decode`] like any body.
///
/// Errors: 400 for a malformed patch, 422 for a patch that does not apply, 413 for too many or too large operations.
pub fn patch(_resource: &Resource, patch_type: PatchType, current: &Value, body: &[u8]) -> Result<Value, Status> {
    let body = parse_json(body)?.value;
    let mut object = current.clone();
    match patch_type {
        PatchType::Json => operations::apply(&mut object, body)?,
        PatchType::Merge if body.is_object() => json_patch::merge(&mut object, &body),
        PatchType::StrategicMerge if body.is_object() => strategic::apply(&mut object, body)?,
        PatchType::Merge | PatchType::StrategicMerge => {
            return Err(Status::bad_request("error decoding patch: a patch must be a JSON object"));
        }
    }
    Ok(object)
}

/// A patch that is well-formed and cannot be applied.
fn rejected(why: impl Into<String>) -> Status {
    Status::unprocessable(why)
}

#[cfg(test)]
mod tests;
