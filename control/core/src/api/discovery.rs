//! Discovery documents.

use serde_json::{Value, json};

/// `GET /api`; `address` is host:port where this server is reached.
pub fn core_versions(address: &str) -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]})
}

/// `GET /apis`.
pub fn groups() -> Value {
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": []})
}

/// `GET /apis/GROUP`.
pub fn group(name: &str) -> Option<Value> {
    let _ = name;
    None
}

/// `GET /api/v1` (empty group) and `GET /apis/GROUP/VERSION`.
pub fn resources(group: &str, version: &str) -> Option<Value> {
    let _ = (group, version);
    None
}

/// `GET /api` as `application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList`.
pub fn aggregated_core() -> Value {
    json!({})
}

/// `GET /apis` as `application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList`.
pub fn aggregated_groups() -> Value {
    json!({})
}
