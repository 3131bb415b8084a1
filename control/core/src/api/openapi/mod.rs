//! OpenAPI documents, derived from the schema tables and the registry.
//!
//! They hold what clients read: field names and types, patch merge keys, group-version-kinds, and the query parameters
//! and media types of each operation, with a line of text about the types and fields that people ask for most.

mod descriptions;
mod paths;
mod protobuf;
mod schemas;

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::registry;
use super::resource::group_version;

/// Version that the documents give themselves: the Kubernetes minor version that the tables follow.
const VERSION: &str = "v1.33.0";

/// Which generation of OpenAPI a part is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    V2,
    V3,
}

/// `GET /openapi/v2` as JSON. Made at every call: whoever serves it keeps the bytes.
pub fn v2() -> Value {
    let mut paths = Map::new();
    for resource in registry().iter() {
        paths::add(Dialect::V2, resource, &mut paths);
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": VERSION},
        "paths": paths,
        "definitions": schemas::all(Dialect::V2),
    })
}

/// `GET /openapi/v2` as `application/com.github.proto-openapi.spec.v2@v1.0+protobuf`. Made at every call.
pub fn v2_protobuf() -> Vec<u8> {
    protobuf::document(&v2())
}

/// `GET /openapi/v3`. Each document's address carries a digest of its content, by which clients cache.
pub fn v3_index() -> Value {
    static INDEX: LazyLock<Value> = LazyLock::new(index);
    INDEX.clone()
}

fn index() -> Value {
    let mut paths = Map::new();
    for (group, version) in registry().group_versions() {
        let Some(document) = v3(group, version) else { continue };
        let path = match group {
            "" => format!("api/{version}"),
            _ => format!("apis/{}", group_version(group, version)),
        };
        let address = format!("/openapi/v3/{path}?hash={:016X}", digest(document.to_string().as_bytes()));
        paths.insert(path, json!({"serverRelativeURL": address}));
    }
    json!({"paths": paths})
}

/// `GET /openapi/v3/api/v1` (empty group) or `/openapi/v3/apis/GROUP/VERSION`; `None` when not served. Made at every call.
pub fn v3(group: &str, version: &str) -> Option<Value> {
    let mut paths = Map::new();
    for resource in registry().iter().filter(|r| r.group == group && r.version == version) {
        paths::add(Dialect::V3, resource, &mut paths);
    }
    if paths.is_empty() {
        return None;
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": VERSION},
        "paths": paths,
        "components": {"schemas": schemas::of_group(group, version)},
    }))
}

/// FNV-1a: tells contents apart, protects nothing.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests;
