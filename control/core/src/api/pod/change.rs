//! What may change in a pod that is there.

use serde_json::Value;

use crate::api::access::{carry, items, items_mut, remove};
use crate::api::field::{Faults, FieldError, Path};

const RULE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
    `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Faults of a change of a pod's spec: images, a shorter deadline and further tolerations are all that is allowed.
pub(crate) fn validate_change(new: &Value, old: &Value, faults: &mut Faults) {
    let path = Path::new("spec");
    for field in ["containers", "initContainers"] {
        let (after, before) = (items(&new["spec"][field]), items(&old["spec"][field]));
        if after.len() != before.len() {
            faults.push(FieldError::forbidden(path.child(field), "pod updates may not add or remove containers"));
            return;
        }
    }
    let before = faults.len();
    validate_deadline(new, old, &path.child("activeDeadlineSeconds"), faults);
    validate_tolerations(new, old, &path.child("tolerations"), faults);
    if faults.len() > before {
        return;
    }
    let mut allowed = new["spec"].clone();
    for field in ["activeDeadlineSeconds", "tolerations"] {
        carry(&mut allowed, &old["spec"], field);
    }
    for field in ["containers", "initContainers"] {
        for (container, before) in items_mut(&mut allowed, field).zip(items(&old["spec"][field])) {
            carry(container, before, "image");
        }
    }
    // Gates may be taken away one by one until the pod is scheduled.
    if shrinks(&new["spec"]["schedulingGates"], &old["spec"]["schedulingGates"]) {
        carry(&mut allowed, &old["spec"], "schedulingGates");
    }
    if allowed != old["spec"] {
        let mut changed = Vec::new();
        differences(&allowed, &old["spec"], "spec", &mut changed);
        let detail = format!("{RULE}\nchanged: {}", changed.join(", "));
        faults.push(FieldError::forbidden(path, &detail));
    }
}

fn validate_deadline(new: &Value, old: &Value, path: &Path, faults: &mut Faults) {
    let (after, before) = (&new["spec"]["activeDeadlineSeconds"], &old["spec"]["activeDeadlineSeconds"]);
    match (after.as_i64(), before.as_i64()) {
        (Some(after), Some(before)) if after > before => {
            let detail = format!("must be less than or equal to previous value {before}");
            faults.push(FieldError::invalid(path.clone(), after, &detail));
        }
        (None, Some(_)) => {
            faults.push(FieldError::invalid(
                path.clone(),
                Value::Null,
                "must not update from a positive integer to nil value",
            ));
        }
        _ => {}
    }
}

fn validate_tolerations(new: &Value, old: &Value, path: &Path, faults: &mut Faults) {
    // `tolerationSeconds` of those that are there may change.
    let bare = |toleration: &Value| {
        let mut toleration = toleration.clone();
        remove(&mut toleration, "tolerationSeconds");
        toleration
    };
    let after: Vec<Value> = items(&new["spec"]["tolerations"]).iter().map(bare).collect();
    if items(&old["spec"]["tolerations"]).iter().any(|t| !after.contains(&bare(t))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        faults.push(FieldError::forbidden(path.clone(), detail));
    }
}

fn shrinks(after: &Value, before: &Value) -> bool {
    items(after).iter().all(|gate| items(before).contains(gate))
}

/// Paths at which two values differ, a handful at most.
fn differences(a: &Value, b: &Value, path: &str, found: &mut Vec<String>) {
    if a == b || found.len() >= 5 {
        return;
    }
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|k| !a.contains_key(*k))) {
                let (a, b) = (a.get(key).unwrap_or(&Value::Null), b.get(key).unwrap_or(&Value::Null));
                differences(a, b, &format!("{path}.{key}"), found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                differences(a, b, &format!("{path}[{index}]"), found);
            }
        }
        _ => found.push(path.to_owned()),
    }
}
