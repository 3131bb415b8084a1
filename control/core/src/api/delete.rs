//! Delete: from object and options to what is done.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::access::{child, remove, set};
use super::field::{Faults, FieldError, Path};
use super::meta;
use super::resource::Resource;
use super::status::Status;
use super::write::is_finished;

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

/// Decides what a delete of `object` (carrying resourceVersion) does. What comes back carries none.
///
/// Errors: 409 on a failed precondition, 422 on bad options.
pub fn prepare_delete(
    resource: &Resource,
    object: &Value,
    options: &DeleteOptions,
    now: jiff::Timestamp,
) -> Result<Deletion, Status> {
    options.validate()?;
    options.check_preconditions(resource, object)?;
    let mut next = object.clone();
    meta::clear_resource_version(&mut next);
    set_dependents_finalizers(&mut next, options);
    let grace = (resource.strategy.grace)(object, options.grace_period_seconds);
    if meta::is_deleting(object) {
        shorten(&mut next, options.grace_period_seconds.map(|_| grace));
    } else {
        let metadata = child(&mut next, "metadata");
        let deadline = now.checked_add(jiff::SignedDuration::from_secs(grace)).unwrap_or(jiff::Timestamp::MAX);
        set(metadata, "deletionTimestamp", meta::time_text(deadline));
        set(metadata, "deletionGracePeriodSeconds", grace);
        if let Some(generation) = metadata["generation"].as_i64().filter(|g| *g > 0) {
            set(metadata, "generation", generation + 1);
        }
        (resource.strategy.terminate)(&mut next);
    }
    if is_finished(resource, &next) {
        return Ok(Deletion::Remove(next));
    }
    let mut before = object.clone();
    meta::clear_resource_version(&mut before);
    Ok(if next == before { Deletion::Unchanged } else { Deletion::Update(next) })
}

/// A second delete can only bring the deadline forward.
fn shorten(object: &mut Value, grace: Option<i64>) {
    let metadata = child(object, "metadata");
    let current = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or_default();
    let Some(grace) = grace.filter(|grace| *grace < current) else { return };
    if let Some(deadline) = meta::time(&metadata["deletionTimestamp"]) {
        let deadline = deadline.checked_sub(jiff::SignedDuration::from_secs(current - grace)).unwrap_or(deadline);
        set(metadata, "deletionTimestamp", meta::time_text(deadline));
    }
    set(metadata, "deletionGracePeriodSeconds", grace);
}

/// Finalizers by which the garbage collector learns what is to become of dependents. Without an explicit choice those
/// that are there stay; the default is `Background`, which needs none.
fn set_dependents_finalizers(object: &mut Value, options: &DeleteOptions) {
    let wanted = match (options.propagation_policy.as_deref(), options.orphan_dependents) {
        (Some("Orphan"), _) | (None, Some(true)) => Some("orphan"),
        (Some("Foreground"), _) => Some("foregroundDeletion"),
        (Some(_), _) | (None, Some(false)) => None,
        (None, None) => return,
    };
    let kept = meta::finalizers(object).into_iter().filter(|f| !matches!(*f, "orphan" | "foregroundDeletion"));
    let finalizers: Vec<Value> = kept.chain(wanted).map(Value::from).collect();
    let metadata = child(object, "metadata");
    if finalizers.is_empty() {
        remove(metadata, "finalizers");
    } else {
        set(metadata, "finalizers", finalizers);
    }
}

impl DeleteOptions {
    fn validate(&self) -> Result<(), Status> {
        let mut faults = Faults::new();
        if let Some(policy) = &self.propagation_policy {
            let path = Path::new("propagationPolicy");
            if self.orphan_dependents.is_some() {
                let detail = "orphanDependents and deletionPropagation cannot be both set";
                faults.push(FieldError::invalid(path, policy.as_str(), detail));
            } else if !["Foreground", "Background", "Orphan"].contains(&policy.as_str()) {
                let supported = ["Foreground", "Background", "Orphan"];
                faults.push(FieldError::not_supported(path, policy.as_str(), &supported));
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", &faults)) }
    }

    fn check_preconditions(&self, resource: &Resource, object: &Value) -> Result<(), Status> {
        let Some(preconditions) = &self.preconditions else { return Ok(()) };
        let checks = [
            ("UID", &preconditions.uid, meta::uid(object)),
            ("ResourceVersion", &preconditions.resource_version, meta::resource_version(object)),
        ];
        for (what, wanted, actual) in checks {
            if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != actual) {
                let detail =
                    format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {actual}");
                return Err(Status::conflict(resource, meta::name(object), &detail));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
