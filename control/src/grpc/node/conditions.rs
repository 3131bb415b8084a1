//! Merging what a node reports into what is stored. Pure.

use serde_json::{Map, Value};
use skep_control_core::api::{Document, FieldValidation, Resource, Status, decode, parse_json};

/// A reported status, checked against the resource's schema. Errors: 400 and 413 for bytes that are no status.
pub(super) fn checked(resource: &Resource, status: &[u8]) -> Result<Map<String, Value>, Status> {
    let status = parse_json(status)?.value;
    if !status.is_object() {
        return Err(Status::bad_request("status: it is not a JSON object"));
    }
    let object = serde_json::json!({"apiVersion": resource.api_version(), "kind": resource.kind, "status": status});
    let mut decoded = decode(resource, Document::new(object)?, FieldValidation::Ignore)?.object;
    Ok(match decoded["status"].take() {
        Value::Object(status) => status,
        _ => Map::new(),
    })
}

/// The stored status replaced by the reported one, except that conditions of types that the report does not speak of
/// stay, that `keep` names fields that stay when the report lacks them, and that a condition whose status is the stored
/// one keeps the time of its last transition.
pub(super) fn merge(stored: &Value, mut reported: Map<String, Value>, keep: &[&str]) -> Value {
    let before = stored["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut conditions = match reported.remove("conditions") {
        Some(Value::Array(conditions)) => conditions,
        _ => Vec::new(),
    };
    for condition in &mut conditions {
        let same = before.iter().find(|old| old["type"] == condition["type"] && old["status"] == condition["status"]);
        if let Some(since) = same.and_then(|old| old.get("lastTransitionTime")) {
            condition["lastTransitionTime"] = since.clone();
        }
    }
    let others = before.iter().filter(|old| !conditions.iter().any(|new| new["type"] == old["type"]));
    let mut merged: Vec<Value> = others.cloned().collect();
    merged.append(&mut conditions);
    if !merged.is_empty() {
        reported.insert("conditions".to_owned(), Value::Array(merged));
    }
    for field in keep {
        if !reported.contains_key(*field)
            && let Some(value) = stored.get(*field)
        {
            reported.insert((*field).to_owned(), value.clone());
        }
    }
    Value::Object(reported)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn conditions_of_others_stay_and_those_of_the_node_are_replaced() {
        let stored = json!({
            "phase": "Pending", "qosClass": "Burstable",
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "t0"},
                {"type": "Ready", "status": "False", "lastTransitionTime": "t1", "reason": "old"},
            ],
        });
        let reported = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "t2"}]});
        let expected = json!({
            "phase": "Running", "qosClass": "Burstable",
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "t0"},
                {"type": "Ready", "status": "True", "lastTransitionTime": "t2"},
            ],
        });
        assert_eq!(merge(&stored, object(reported), &["qosClass"]), expected);
    }

    #[test]
    fn a_condition_that_did_not_change_keeps_its_time() {
        let stored = json!({"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "t1"}]});
        let reported = json!({"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "t9"}]});
        assert_eq!(merge(&stored, object(reported), &[]), stored);
    }

    #[test]
    fn fields_that_the_report_lacks_are_gone() {
        let stored = json!({"phase": "Running", "podIP": "10.0.0.1"});
        assert_eq!(merge(&stored, object(json!({"phase": "Failed"})), &["qosClass"]), json!({"phase": "Failed"}));
    }

    #[test]
    fn a_status_of_wrong_types_is_refused() {
        let pods = skep_control_core::api::registry().find("", "v1", "pods").unwrap();
        let wrong = checked(pods, br#"{"phase": 7}"#).unwrap_err();
        assert!(wrong.code == 400 && wrong.message.contains("phase"), "{wrong:?}");
        assert_eq!(checked(pods, b"[]").unwrap_err().code, 400);
        assert_eq!(checked(pods, b"{").unwrap_err().code, 400);
        assert_eq!(checked(pods, br#"{"phase":"Running"}"#).unwrap(), object(json!({"phase": "Running"})));
    }
}
