//! OpenAPI documents derived from the schema tables.

use serde_json::{Value, json};

/// `GET /openapi/v2` as JSON.
pub fn v2() -> Value {
    json!({"swagger": "2.0"})
}

/// `GET /openapi/v2` as `application/com.github.proto-openapi.spec.v2@v1.0+protobuf`.
pub fn v2_protobuf() -> Vec<u8> {
    Vec::new()
}

/// `GET /openapi/v3`.
pub fn v3_index() -> Value {
    json!({"paths": {}})
}

/// `GET /openapi/v3/api/v1` (empty group) or `/openapi/v3/apis/GROUP/VERSION`.
pub fn v3(group: &str, version: &str) -> Option<Value> {
    let _ = (group, version);
    None
}
