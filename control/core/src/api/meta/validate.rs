//! Rules of object metadata that hold for every resource.

use serde_json::Value;

use super::{finalizers, is_deleting, name, namespace};
use crate::api::access::{items, text};
use crate::api::field::{Faults, FieldError, Path};
use crate::api::names::{check_name, complain, qualified, subdomain, validate_annotations, validate_labels};
use crate::api::resource::Resource;

/// Finalizers that Kubernetes itself defines and that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// Faults of the metadata of a whole object.
pub(crate) fn validate(resource: &Resource, object: &Value, faults: &mut Faults) {
    let path = Path::new("metadata");
    let metadata = &object["metadata"];
    let prefix = text(&metadata["generateName"]);
    if !prefix.is_empty() {
        // What is generated has the prefix and five characters more, so a trailing hyphen is no fault of the prefix.
        let probe = format!("{}x", prefix);
        complain(faults, path.child("generateName"), prefix, check_name(resource.strategy.name, &probe));
    }
    let name = name(object);
    if name.is_empty() {
        faults.push(FieldError::required(path.child("name"), "name or generateName is required"));
    } else {
        complain(faults, path.child("name"), name, check_name(resource.strategy.name, name));
    }
    if resource.namespaced {
        let namespace = namespace(object);
        if namespace.is_empty() {
            faults.push(FieldError::required(path.child("namespace"), ""));
        } else {
            complain(faults, path.child("namespace"), namespace, crate::api::names::label(namespace));
        }
    }
    validate_labels(&metadata["labels"], &path.child("labels"), faults);
    validate_annotations(&metadata["annotations"], &path.child("annotations"), faults);
    validate_owners(&metadata["ownerReferences"], &path.child("ownerReferences"), faults);
    validate_finalizers(object, &path.child("finalizers"), faults);
}

fn validate_owners(owners: &Value, path: &Path, faults: &mut Faults) {
    let mut controller: Option<&str> = None;
    for (index, owner) in items(owners).iter().enumerate() {
        let here = path.index(index);
        let api_version = text(&owner["apiVersion"]);
        if api_version.is_empty() || api_version.split('/').count() > 2 {
            let detail = "version must not be empty";
            faults.push(FieldError::invalid(here.child("apiVersion"), api_version, detail));
        }
        for field in ["kind", "name", "uid"] {
            if text(&owner[field]).is_empty() {
                faults.push(FieldError::invalid(here.child(field), "", &format!("{field} must not be empty")));
            }
        }
        if owner["controller"] == true {
            let name = text(&owner["name"]);
            if let Some(first) = controller {
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
                );
                faults.push(FieldError::invalid(path.clone(), Value::Null, &detail));
            }
            controller = Some(name);
        }
    }
}

fn validate_finalizers(object: &Value, path: &Path, faults: &mut Faults) {
    let all = finalizers(object);
    for (index, finalizer) in all.iter().enumerate() {
        let here = path.index(index);
        if let Some(complaint) = qualified(finalizer) {
            faults.push(FieldError::invalid(here, *finalizer, &complaint));
        } else if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(finalizer) && subdomain(finalizer).is_some()
        {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            faults.push(FieldError::invalid(here, *finalizer, detail));
        }
    }
    if all.contains(&"orphan") && all.contains(&"foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        faults.push(FieldError::invalid(path.clone(), all.join(","), detail));
    }
}

/// Faults of a change of metadata.
pub(crate) fn validate_update(new: &Value, old: &Value, faults: &mut Faults) {
    let path = Path::new("metadata");
    for field in ["name", "namespace", "uid"] {
        if new["metadata"][field] != old["metadata"][field] {
            faults.push(FieldError::invalid(path.child(field), new["metadata"][field].clone(), "field is immutable"));
        }
    }
    if is_deleting(old) {
        let before = finalizers(old);
        let added: Vec<&str> = finalizers(new).into_iter().filter(|f| !before.contains(f)).collect();
        if !added.is_empty() {
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers {added:?}"
            );
            faults.push(FieldError::forbidden(path.child("finalizers"), &detail));
        }
    }
}
