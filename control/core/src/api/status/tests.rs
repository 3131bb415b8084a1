use serde_json::json;

use super::Status;
use crate::api::field::{FieldError, Path};
use crate::api::registry;

#[test]
fn not_found_names_the_resource_with_its_group() {
    let deployments = registry().find("apps", "v1", "deployments").unwrap();
    assert_eq!(
        Status::not_found(deployments, "web").to_value(),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "deployments.apps \"web\" not found", "reason": "NotFound",
            "details": {"name": "web", "group": "apps", "kind": "deployments"}, "code": 404,
        })
    );
}

#[test]
fn invalid_lists_every_cause() {
    let errors = [
        FieldError::required(Path::new("spec").child("selector"), ""),
        FieldError::not_supported(Path::new("spec").child("type"), "X", &["A", "B"]),
    ];
    let status = Status::invalid("", "Service", "web", &errors).to_value();
    assert_eq!(
        status["message"],
        "Service \"web\" is invalid: [spec.selector: Required value, spec.type: Unsupported value: \"X\": supported values: \"A\", \"B\"]"
    );
    assert_eq!(status["code"], 422);
    assert_eq!(
        status["details"],
        json!({"name": "web", "kind": "Service", "causes": [
            {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.selector"},
            {"reason": "FieldValueNotSupported",
             "message": "Unsupported value: \"X\": supported values: \"A\", \"B\"", "field": "spec.type"},
        ]})
    );
}

#[test]
fn a_stale_writer_is_told_what_to_do() {
    let pods = registry().find("", "v1", "pods").unwrap();
    let status = Status::modified(pods, "a");
    assert_eq!(
        status.message,
        "Operation cannot be fulfilled on pods \"a\": the object has been modified; please apply your changes to the \
         latest version and try again"
    );
    assert!(status.is_conflict());
    assert_eq!(status.code, 409);
}

#[test]
fn a_successful_delete_carries_the_uid() {
    let nodes = registry().find("", "v1", "nodes").unwrap();
    let status = Status::deleted(nodes, "n1", "u-1").to_value();
    assert_eq!(status["status"], "Success");
    assert_eq!(status["details"]["uid"], "u-1");
    assert!(status.get("reason").is_none());
}
