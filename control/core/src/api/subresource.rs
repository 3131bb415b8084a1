//! Scale and binding: subresources that have a shape of their own.

use serde_json::{Value, json};

use super::access::{child, is_empty, set, text};
use super::decode::{Decoded, Document, FieldValidation, decode_kind};
use super::field::{FieldError, Path};
use super::meta;
use super::resource::{Resource, Subresource};
use super::select::LabelSelector;
use super::status::Status;

/// Decodes an `autoscaling/v1` `Scale` body.
///
/// Errors: as [`super::decode`].
pub fn decode_scale(document: Document, validation: FieldValidation) -> Result<Decoded, Status> {
    decode_kind("autoscaling", "v1", "Scale", document, validation)
}

/// Decodes a `v1` `Binding` body.
///
/// Errors: as [`super::decode`].
pub fn decode_binding(document: Document, validation: FieldValidation) -> Result<Decoded, Status> {
    decode_kind("", "v1", "Binding", document, validation)
}

/// `autoscaling/v1` `Scale` of a Deployment or ReplicaSet.
///
/// Errors: 405 for a resource that does not scale.
pub fn scale(resource: &Resource, object: &Value) -> Result<Value, Status> {
    if !resource.subresources.contains(&Subresource::Scale) {
        return Err(Status::method_not_allowed());
    }
    let mut metadata = serde_json::Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    let selector = match super::table::selector(&object["spec"]["selector"]) {
        Value::String(text) if text != "<none>" => text,
        _ => String::new(),
    };
    Ok(json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {"replicas": object["spec"]["replicas"].as_i64().unwrap_or_default()},
        "status": {"replicas": object["status"]["replicas"].as_i64().unwrap_or_default(), "selector": selector},
    }))
}

/// The object with the replica count of `scale`, which [`decode_scale`] has checked; goes through [`super::prepare_update`] as an update of the main resource.
///
/// Errors: 400 for another name, 409 for a stale resourceVersion or another uid, 422 for a negative count.
pub fn apply_scale(resource: &Resource, object: &Value, scale: &Value) -> Result<Value, Status> {
    let name = meta::name(object);
    let given = meta::name(scale);
    if !given.is_empty() && given != name {
        let text = format!("the name of the object ({given}) does not match the name on the URL ({name})");
        return Err(Status::bad_request(text));
    }
    let version = meta::resource_version(scale);
    if !version.is_empty() && version != meta::resource_version(object) {
        return Err(Status::modified(resource, name));
    }
    let uid = meta::uid(scale);
    if !uid.is_empty() && uid != meta::uid(object) {
        let text =
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", meta::uid(object));
        return Err(Status::conflict(resource, name, &text));
    }
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or_default();
    if replicas < 0 {
        let path = Path::new("spec").child("replicas");
        let fault = FieldError::invalid(path, replicas, "must be greater than or equal to 0");
        return Err(Status::invalid("autoscaling", "Scale", name, &[fault]));
    }
    let mut next = object.clone();
    set(child(&mut next, "spec"), "replicas", replicas);
    Ok(next)
}

/// The pod with the node of a `v1` `Binding` body. Store it as it is (no further preparation).
///
/// Errors: 409 when it is bound or being deleted or another pod is meant, 422 for a bad target.
pub fn bind(pod: &Value, binding: &Value, now: jiff::Timestamp) -> Result<Value, Status> {
    let resource = &super::resources::POD;
    let name = meta::name(pod);
    let target = &binding["target"];
    let node = text(&target["name"]);
    let path = Path::new("target");
    let mut faults = Vec::new();
    if !matches!(text(&target["kind"]), "" | "Node") {
        faults.push(FieldError::not_supported(path.child("kind"), target["kind"].clone(), &["Node", "<empty>"]));
    }
    if node.is_empty() {
        faults.push(FieldError::required(path.child("name"), ""));
    }
    if !faults.is_empty() {
        return Err(Status::invalid("", "Binding", name, &faults));
    }
    let uid = meta::uid(binding);
    if !uid.is_empty() && uid != meta::uid(pod) {
        let text = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", meta::uid(pod));
        return Err(Status::conflict(resource, name, &text));
    }
    if meta::is_deleting(pod) {
        let text = format!("pod {name} is being deleted, cannot be assigned to a host");
        return Err(Status::conflict(resource, name, &text));
    }
    let current = text(&pod["spec"]["nodeName"]);
    if !current.is_empty() {
        let text = format!("pod {name} is already assigned to node {current:?}");
        return Err(Status::conflict(resource, name, &text));
    }
    if !is_empty(&pod["spec"]["schedulingGates"]) {
        let text = format!("pod {name} has non-empty .spec.schedulingGates");
        return Err(Status::conflict(resource, name, &text));
    }
    let mut bound = pod.clone();
    meta::clear_resource_version(&mut bound);
    set(child(&mut bound, "spec"), "nodeName", node);
    let scheduled = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": meta::time_text(now),
    });
    let status = child(&mut bound, "status");
    let mut conditions: Vec<Value> = super::access::items(&status["conditions"]).to_vec();
    conditions.retain(|c| c["type"] != "PodScheduled");
    conditions.push(scheduled);
    set(status, "conditions", conditions);
    Ok(bound)
}

/// The selector of a workload, for whoever lists its pods.
pub fn workload_selector(object: &Value) -> Option<LabelSelector> {
    LabelSelector::typed(&object["spec"]["selector"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::registry;

    fn deployment() -> Value {
        json!({"metadata": {"name": "web", "namespace": "x", "uid": "u", "resourceVersion": "7"},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}}, "status": {"replicas": 2}})
    }

    #[test]
    fn a_scale_shows_count_and_selector() {
        let resource = registry().find("apps", "v1", "deployments").unwrap();
        assert_eq!(
            scale(resource, &deployment()).unwrap(),
            json!({"kind": "Scale", "apiVersion": "autoscaling/v1",
                "metadata": {"name": "web", "namespace": "x", "uid": "u", "resourceVersion": "7"},
                "spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "app=web"}})
        );
    }

    #[test]
    fn a_scale_is_applied_or_refused() {
        let resource = registry().find("apps", "v1", "deployments").unwrap();
        let with = |scale: Value| apply_scale(resource, &deployment(), &scale);
        assert_eq!(with(json!({"spec": {"replicas": 5}})).unwrap()["spec"]["replicas"], 5);
        assert_eq!(with(json!({"spec": {"replicas": -1}})).unwrap_err().code, 422);
        assert!(
            with(json!({"metadata": {"resourceVersion": "6"}, "spec": {"replicas": 1}})).unwrap_err().is_conflict()
        );
        assert_eq!(with(json!({"metadata": {"name": "other"}})).unwrap_err().code, 400);
    }

    #[test]
    fn a_pod_is_bound_once() {
        let now = jiff::Timestamp::UNIX_EPOCH;
        let pod = json!({"metadata": {"name": "a", "uid": "u"}, "spec": {}, "status": {"phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False"}]}});
        let binding = json!({"target": {"kind": "Node", "name": "n1"}});
        let bound = bind(&pod, &binding, now).unwrap();
        assert_eq!(bound["spec"]["nodeName"], "n1");
        assert_eq!(bound["status"]["conditions"][0]["status"], "True");
        assert!(bind(&bound, &binding, now).unwrap_err().is_conflict());
        assert_eq!(bind(&pod, &json!({"target": {}}), now).unwrap_err().code, 422);
        let other = json!({"metadata": {"uid": "v"}, "target": {"name": "n1"}});
        assert!(bind(&pod, &other, now).unwrap_err().is_conflict());
    }
}
