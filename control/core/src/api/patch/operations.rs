//! JSON patch (RFC 6902), operation by operation so that its growth can be bounded.

use json_patch::{Patch, PatchOperation};
use serde_json::Value;

use super::rejected;
use crate::api::decode::{MAX_BODY, MAX_DEPTH};
use crate::api::status::Status;

/// Operations in one patch.
const MAX_OPERATIONS: usize = 10_000;

/// Applies the operations in order.
pub(super) fn apply(object: &mut Value, patch: Value) -> Result<(), Status> {
    if let Some(count) = patch.as_array().map(Vec::len).filter(|count| *count > MAX_OPERATIONS) {
        let text = format!("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}");
        return Err(Status::too_large_text(text));
    }
    let Patch(operations) =
        serde_json::from_value(patch).map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
    // Copying can double an object with every operation; what is moved counts as well, so that depth stays bounded.
    let mut copied = 0;
    for operation in operations {
        let source = match &operation {
            PatchOperation::Copy(copy) => Some(&copy.from),
            PatchOperation::Move(shift) => Some(&shift.from),
            _ => None,
        };
        if let Some(value) = source.and_then(|from| object.pointer(from.as_str())) {
            copied += serde_json::to_vec(value).map_or(usize::MAX, |text| text.len());
            if copied > MAX_BODY {
                let text = format!("the accumulated size of copied values exceeds the limit {MAX_BODY}");
                return Err(Status::too_large_text(text));
            }
        }
        let path = operation.path().as_str();
        if path.matches('/').count() > MAX_DEPTH {
            return Err(Status::bad_request(format!("error decoding patch: a path exceeds max depth of {MAX_DEPTH}")));
        }
        json_patch::patch(object, std::slice::from_ref(&operation)).map_err(|error| {
            rejected(format!("the server rejected our request due to an error in our request: {error}"))
        })?;
    }
    Ok(())
}
