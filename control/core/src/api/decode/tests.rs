use serde_json::json;

use super::*;
use crate::api::registry;

fn deployments() -> &'static Resource {
    registry().find("apps", "v1", "deployments").unwrap()
}

fn decode_text(text: &str, validation: FieldValidation) -> Result<Decoded, Status> {
    decode(deployments(), parse_json(text.as_bytes())?, validation)
}

#[test]
fn strict_names_unknown_and_duplicate_fields() {
    let text = r#"{"apiVersion":"apps/v1","kind":"Deployment","spec":{"foo":1,"replicas":1,"replicas":2}}"#;
    let status = decode_text(text, FieldValidation::Strict).unwrap_err();
    assert_eq!(status.code, 400);
    assert_eq!(
        status.message,
        "Deployment in version \"v1\" cannot be handled as a Deployment: strict decoding error: duplicate field \
         \"spec.replicas\", unknown field \"spec.foo\""
    );
    let warned = decode_text(text, FieldValidation::Warn).unwrap();
    assert_eq!(warned.warnings, ["duplicate field \"spec.replicas\"", "unknown field \"spec.foo\""]);
    assert_eq!(warned.object["spec"], json!({"replicas": 2}));
    assert!(decode_text(text, FieldValidation::Ignore).unwrap().warnings.is_empty());
}

#[test]
fn paths_of_unknown_and_duplicate_fields_are_whole() {
    let text = r#"{"metadata":{"labels":{"a":"1","a":"2"}},"spec":{"template":{"spec":{"containers":[{"name":"x"},
        {"name":"y","ports":[{"port":1,"containerPort":1,"containerPort":2}]}]}}}}"#;
    let decoded = decode_text(text, FieldValidation::Warn).unwrap();
    assert_eq!(
        decoded.warnings,
        [
            "duplicate field \"metadata.labels.a\"",
            "duplicate field \"spec.template.spec.containers[1].ports[0].containerPort\"",
            "unknown field \"spec.template.spec.containers[1].ports[0].port\"",
        ]
    );
}

#[test]
fn wrong_types_are_a_bad_request() {
    let status = decode_text(r#"{"spec":{"replicas":"three"}}"#, FieldValidation::Strict).unwrap_err();
    assert_eq!(
        status.message,
        "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal string into Go struct field \
         DeploymentSpec.spec.replicas of type int32"
    );
    assert_eq!(status.reason, crate::api::Reason::BadRequest);
}

#[test]
fn other_kinds_and_versions_are_refused() {
    let version = decode_text(r#"{"apiVersion":"v1","kind":"Deployment"}"#, FieldValidation::Warn).unwrap_err();
    assert_eq!(version.message, "the API version in the data (v1) does not match the expected API version (apps/v1)");
    assert_eq!(decode_text(r#"{"kind":"ReplicaSet"}"#, FieldValidation::Warn).unwrap_err().code, 400);
    assert_eq!(decode_text("[]", FieldValidation::Warn).unwrap_err().code, 400);
    assert_eq!(decode_text("{", FieldValidation::Warn).unwrap_err().code, 400);
}

#[test]
fn kind_and_version_are_filled_in() {
    let object = decode_text("{}", FieldValidation::Strict).unwrap().object;
    assert_eq!(object, json!({"apiVersion": "apps/v1", "kind": "Deployment"}));
}

#[test]
fn depth_and_size_are_bounded_before_anything_recurses() {
    let deep = "[".repeat(10_000);
    assert_eq!(parse_json(deep.as_bytes()).unwrap_err().code, 400);
    let deep = format!("{}1{}", "{\"a\":".repeat(10_000), "}".repeat(10_000));
    assert_eq!(parse_json(deep.as_bytes()).unwrap_err().code, 400);
    let edge = format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
    assert!(parse_json(edge.as_bytes()).is_ok());
    let brackets_in_text = format!("\"{}\\\"[\"", "[".repeat(1000));
    assert!(parse_json(brackets_in_text.as_bytes()).is_ok());
    let large = vec![b' '; 10 << 20];
    assert_eq!(parse_json(&large).unwrap_err().code, 413);
    let mut value = json!(1);
    for _ in 0..=MAX_DEPTH {
        value = json!([value]);
    }
    assert_eq!(Document::new(value).unwrap_err().code, 400);
}
