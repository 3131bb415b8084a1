//! Create and update: what happens to an object between decoding and storing.

use serde_json::Value;

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

/// Makes a decoded object ready to be stored: metadata, strategy, defaults, validation.
///
/// Errors: 400 when the namespace is not the path's, 422 with every fault.
/// A Service still needs [`super::service_ip::allocate`] afterwards.
pub fn prepare_create(resource: &Resource, object: Value, fresh: &Fresh<'_>) -> Result<Value, Status> {
    let _ = (resource, fresh);
    Ok(object)
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
/// `old` carries `metadata.resourceVersion`; one in `new` must equal it, or the answer is 409.
/// `subresource` is `None`, or `Status`.
pub fn prepare_update(
    resource: &Resource,
    subresource: Option<Subresource>,
    new: Value,
    old: &Value,
    now: jiff::Timestamp,
) -> Result<Update, Status> {
    let _ = (resource, subresource, now);
    Ok(if new == *old { Update::Unchanged } else { Update::Changed(new) })
}
