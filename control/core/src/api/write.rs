//! Create and update: what happens to an object between decoding and storing.

use serde_json::Value;

use super::access::{carry, child, is_empty, remove, set, text};
use super::field::{Faults, FieldError, Path};
use super::meta;
use super::resource::{Resource, Subresource};
use super::status::Status;

/// What a new object needs from outside.
#[derive(Clone, Copy, Debug)]
pub struct Fresh<'a> {
    /// The request's time.
    pub now: jiff::Timestamp,
    /// A new UUID, lower case with hyphens.
    pub uid: &'a str,
    /// Five random characters of [`super::meta::SUFFIX_ALPHABET`], for `generateName`.
    pub suffix: &'a str,
    /// Namespace of the request path; `None` for cluster-scoped resources.
    pub namespace: Option<&'a str>,
}

/// Longest part of `generateName` that is kept, so that the suffix fits a DNS label.
const MAX_GENERATE_PREFIX: usize = 58;

/// Metadata that the server alone writes.
const SYSTEM_FIELDS: [&str; 5] =
    ["uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds"];

/// Metadata that is not kept.
const DROPPED_FIELDS: [&str; 2] = ["selfLink", "managedFields"];

/// Makes a decoded object ready to be stored: metadata, strategy, defaults, validation.
///
/// Errors: 400 when the namespace is not the path's or a resourceVersion is given, 422 with every fault.
/// A Service still needs [`super::service_ip::allocate`] afterwards.
pub fn prepare_create(resource: &Resource, mut object: Value, fresh: &Fresh<'_>) -> Result<Value, Status> {
    if !meta::resource_version(&object).is_empty() {
        return Err(Status::bad_request("resourceVersion should not be set on objects to be created"));
    }
    set_namespace(&mut object, fresh.namespace)?;
    let metadata = child(&mut object, "metadata");
    for field in SYSTEM_FIELDS.iter().chain(&DROPPED_FIELDS).chain(&["resourceVersion"]) {
        remove(metadata, field);
    }
    if is_empty(&metadata["name"]) && !is_empty(&metadata["generateName"]) {
        let prefix: String = text(&metadata["generateName"]).chars().take(MAX_GENERATE_PREFIX).collect();
        set(metadata, "name", format!("{prefix}{}", fresh.suffix));
    }
    set(metadata, "uid", fresh.uid);
    set(metadata, "creationTimestamp", meta::time_text(fresh.now));
    if resource.strategy.generation {
        set(metadata, "generation", 1);
    }
    (resource.strategy.default)(&mut object);
    (resource.strategy.prepare_create)(&mut object);
    let mut faults = Faults::new();
    meta::validate(resource, &object, &mut faults);
    (resource.strategy.validate)(&object, &mut faults);
    verdict(resource, &object, &faults)?;
    Ok(object)
}

/// Gives the object the namespace of the path.
fn set_namespace(object: &mut Value, namespace: Option<&str>) -> Result<(), Status> {
    let given = meta::namespace(object);
    match namespace {
        Some(wanted) if !given.is_empty() && given != wanted => Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
        Some(wanted) => {
            set(child(object, "metadata"), "namespace", wanted);
            Ok(())
        }
        None => {
            remove(child(object, "metadata"), "namespace");
            Ok(())
        }
    }
}

fn verdict(resource: &Resource, object: &Value, faults: &Faults) -> Result<(), Status> {
    if faults.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(resource.group, resource.kind, meta::name(object), faults))
}

/// What an update comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// Nothing differs: answer with the old object, write nothing.
    Unchanged,
    /// Store this.
    Changed(Value),
    /// The last finalizer of a deleted object went away: remove it; this is its last form.
    Remove(Value),
}

/// Turns a decoded object (from PUT, or from a patch of `old`) into what is to be stored instead of `old`.
///
/// `old` carries `metadata.resourceVersion`; one in `new` must equal it, or the answer is 409. What comes back carries
/// none. `subresource` is `None`, `Status` or (Namespaces) `Finalize`.
///
/// Errors: 400 when name or namespace are not those of `old`, 409 on another uid or resourceVersion, 422 with every
/// fault.
pub fn prepare_update(
    resource: &Resource,
    subresource: Option<Subresource>,
    mut new: Value,
    old: &Value,
    _now: jiff::Timestamp,
) -> Result<Update, Status> {
    check_identity(resource, &mut new, old)?;
    let metadata = child(&mut new, "metadata");
    for field in SYSTEM_FIELDS.iter().chain(&["resourceVersion"]) {
        carry(metadata, &old["metadata"], field);
    }
    for field in DROPPED_FIELDS {
        remove(metadata, field);
    }
    let mut faults = Faults::new();
    match subresource {
        None => {
            (resource.strategy.default)(&mut new);
            (resource.strategy.prepare_update)(&mut new, old);
            meta::validate(resource, &new, &mut faults);
            meta::validate_update(&new, old, &mut faults);
            (resource.strategy.validate)(&new, &mut faults);
            (resource.strategy.validate_update)(&new, old, &mut faults);
        }
        Some(Subresource::Status) => {
            (resource.strategy.default)(&mut new);
            new = only(&new, old, "status");
            (resource.strategy.validate_status)(&new, old, &mut faults);
        }
        Some(Subresource::Finalize) => new = only(&new, old, "spec"),
        Some(_) => return Err(Status::method_not_allowed()),
    }
    verdict(resource, &new, &faults)?;
    if resource.strategy.generation && subresource.is_none() && new["spec"] != old["spec"] {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or_default() + 1;
        set(child(&mut new, "metadata"), "generation", generation);
    }
    if new == *old && !is_finished(resource, &new) {
        return Ok(Update::Unchanged);
    }
    meta::clear_resource_version(&mut new);
    Ok(if is_finished(resource, &new) { Update::Remove(new) } else { Update::Changed(new) })
}

/// The old object with one field of the new one.
fn only(new: &Value, old: &Value, field: &str) -> Value {
    let mut object = old.clone();
    carry(&mut object, new, field);
    object
}

/// Whether a deleted object has nothing left that keeps it.
pub(crate) fn is_finished(resource: &Resource, object: &Value) -> bool {
    meta::is_deleting(object)
        && meta::finalizers(object).is_empty()
        && object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default() == 0
        && !(resource.strategy.held)(object)
}

fn check_identity(resource: &Resource, new: &mut Value, old: &Value) -> Result<(), Status> {
    let name = meta::name(old);
    let given = meta::name(new);
    if !given.is_empty() && given != name {
        return Err(Status::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        )));
    }
    set(child(new, "metadata"), "name", name);
    set_namespace(new, resource.namespaced.then(|| meta::namespace(old)))?;
    let (uid, wanted) = (meta::uid(old), meta::uid(new));
    if !wanted.is_empty() && wanted != uid {
        let detail = format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}");
        return Err(Status::conflict(resource, name, &detail));
    }
    let version = meta::resource_version(new);
    if version.is_empty() && !resource.strategy.unconditional_update {
        let path = Path::new("metadata").child("resourceVersion");
        let fault = FieldError::invalid(path, 0, "must be specified for an update");
        return Err(Status::invalid(resource.group, resource.kind, name, &[fault]));
    }
    if !version.is_empty() && version != meta::resource_version(old) {
        return Err(Status::modified(resource, name));
    }
    Ok(())
}
