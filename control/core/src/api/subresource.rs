//! Scale and binding: subresources that have a shape of their own.

use serde_json::{Value, json};

use super::resource::Resource;
use super::status::Status;

/// `autoscaling/v1` `Scale` of a Deployment or ReplicaSet.
pub fn scale(resource: &Resource, object: &Value) -> Result<Value, Status> {
    let _ = (resource, object);
    Ok(json!({}))
}

/// The object with the replica count of `scale` (a document decoded by [`decode_scale`]); goes through
/// `prepare_update` as the main resource.
///
/// Errors: 422 for a negative count, 409 for a stale resourceVersion.
pub fn apply_scale(resource: &Resource, object: &Value, scale: &Value) -> Result<Value, Status> {
    let _ = (resource, scale);
    Ok(object.clone())
}

/// The pod with the node of a `v1` `Binding` body. Store it as it is (no further preparation).
///
/// Errors: 409 when it is bound or being deleted, 422 for a bad target.
pub fn bind(pod: &Value, binding: &Value) -> Result<Value, Status> {
    let _ = binding;
    Ok(pod.clone())
}
