//! Delete: from object and options to what is done.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::resource::Resource;
use super::status::Status;

/// `meta/v1` `DeleteOptions`, from a body or from query parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeleteOptions {
    /// Seconds that the object gets to end by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    /// What must be true of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preconditions: Option<Preconditions>,
    /// `Background`, `Foreground` or `Orphan`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub propagation_policy: Option<String>,
    /// The older spelling: true is `Orphan`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orphan_dependents: Option<bool>,
    /// `["All"]` for a dry run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dry_run: Vec<String>,
}

/// What must be true of an object for its deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preconditions {
    /// Its uid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Its resourceVersion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

/// What a delete comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Deletion {
    /// Store this (deletionTimestamp and finalizers set); it goes later.
    Update(Value),
    /// Remove it now; this is its last form.
    Remove(Value),
    /// It is on its way already: write nothing, answer with it.
    Unchanged,
}

/// Decides what a delete of `object` (carrying resourceVersion) does.
///
/// Errors: 409 on a failed precondition, 422 on bad options.
pub fn prepare_delete(
    resource: &Resource,
    object: &Value,
    options: &DeleteOptions,
    now: jiff::Timestamp,
) -> Result<Deletion, Status> {
    let _ = (resource, options, now);
    Ok(Deletion::Remove(object.clone()))
}
