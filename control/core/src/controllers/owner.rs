//! Ownership: controller references, adoption and release.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::action::{Action, Write};
use super::kind::{Key, Kind};

/// The reference that says which controller manages an object.
#[must_use]
pub fn controller_of(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata.owner_references.iter().flatten().find(|reference| reference.controller == Some(true))
}

/// A controller reference to an owner.
#[must_use]
pub(super) fn controller_reference(kind: Kind, owner: &ObjectMeta) -> OwnerReference {
    OwnerReference {
        api_version: kind.api_version(),
        kind: kind.name().to_owned(),
        name: owner.name.clone().unwrap_or_default(),
        uid: owner.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Makes `owner` the controller of an object that has none.
#[must_use]
pub(super) fn adopt(target: Key, metadata: &ObjectMeta, owner: OwnerReference) -> Action {
    let mut references = metadata.owner_references.clone().unwrap_or_default();
    references.retain(|reference| reference.uid != owner.uid);
    references.push(owner);
    set_owners(target, metadata, &references)
}

/// Takes an owner's reference away from an object.
#[must_use]
pub(super) fn release(target: Key, metadata: &ObjectMeta, owner_uid: &str) -> Action {
    let mut references = metadata.owner_references.clone().unwrap_or_default();
    references.retain(|reference| reference.uid != owner_uid);
    set_owners(target, metadata, &references)
}

/// Replaces an object's owner references, on condition that it is still the same version of the same object.
#[must_use]
pub(super) fn set_owners(target: Key, metadata: &ObjectMeta, references: &[OwnerReference]) -> Action {
    let owners = if references.is_empty() { serde_json::Value::Null } else { serde_json::json!(references) };
    Action::from(Write::Patch {
        target,
        subresource: None,
        patch: serde_json::json!({"metadata": {
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
            "ownerReferences": owners,
        }}),
    })
}
