//! Discovery, OpenAPI, version and health: documents that no request changes.

use std::sync::LazyLock;

use axum::body::Body;
use bytes::Bytes;
use http::header::{HeaderValue, VARY};
use http::{Response, StatusCode};
use serde_json::{Value, json};
use skep_control_core::api::{Status, discovery, openapi, registry};

use super::accept::{Format, wants_aggregated};
use super::path::Target;
use super::{Call, Rest, answer};

const AGGREGATED: HeaderValue =
    HeaderValue::from_static("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
/// As clients ask for it, but with a dot where they write an `@`, which no media type may hold.
const OPENAPI_V2: HeaderValue = HeaderValue::from_static("application/com.github.proto-openapi.spec.v2.v1.0+protobuf");

pub(super) fn respond(rest: &Rest, call: &Call, target: &Target) -> Result<Response<Body>, Status> {
    match target {
        Target::CoreVersions if wants_aggregated(&call.parts.headers) => Ok(aggregated(discovery::aggregated_core())),
        Target::CoreVersions => json_of(&discovery::core_versions(&rest.inner.endpoint)),
        Target::Groups if wants_aggregated(&call.parts.headers) => Ok(aggregated(discovery::aggregated_groups())),
        Target::Groups => json_of(&discovery::groups()),
        Target::Group(name) => json_of(&discovery::group(name).ok_or_else(Status::unknown_path)?),
        Target::GroupVersion(group, version) => {
            json_of(&discovery::resources(group, version).ok_or_else(Status::unknown_path)?)
        }
        Target::OpenApiV2 => Ok(openapi_v2(call)),
        Target::OpenApiV3 => json_of(&openapi::v3_index()),
        Target::OpenApiV3Group(group, version) => {
            let document = openapi_v3(group, version).ok_or_else(Status::unknown_path)?;
            Ok(answer::bytes(StatusCode::OK, answer::JSON, document))
        }
        Target::Version => json_of(&version()),
        Target::Health(check) => Ok(health(call, check)),
        Target::Root => json_of(&json!({"paths": paths()})),
        Target::Unknown | Target::Objects(_) => Err(Status::unknown_path()),
    }
}

fn json_of(value: &Value) -> Result<Response<Body>, Status> {
    answer::value(StatusCode::OK, Format::Json, value)
}

fn aggregated(document: Value) -> Response<Body> {
    let mut response = answer::bytes(StatusCode::OK, AGGREGATED, document.to_string());
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response
}

/// Older clients read the protobuf form only. Both are made once, when first asked for.
fn openapi_v2(call: &Call) -> Response<Body> {
    static JSON: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(openapi::v2().to_string()));
    static PROTOBUF: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(openapi::v2_protobuf()));
    let accepted = call.parts.headers.get_all(http::header::ACCEPT).iter().filter_map(|h| h.to_str().ok());
    let first = accepted.flat_map(|h| h.split(',')).map(str::trim).next().unwrap_or_default();
    if first.starts_with("application/com.github.proto-openapi.spec.v2") {
        return answer::bytes(StatusCode::OK, OPENAPI_V2, PROTOBUF.clone());
    }
    answer::bytes(StatusCode::OK, answer::JSON, JSON.clone())
}

fn openapi_v3(group: &str, version: &str) -> Option<Bytes> {
    static ALL: LazyLock<Vec<((&'static str, &'static str), Bytes)>> = LazyLock::new(|| {
        let documents = registry().group_versions().into_iter();
        documents.filter_map(|(g, v)| Some(((g, v), Bytes::from(openapi::v3(g, v)?.to_string())))).collect()
    });
    ALL.iter().find(|((g, v), _)| (*g, *v) == (group, version)).map(|(_, document)| document.clone())
}

/// The version of Kubernetes whose behaviour clients may expect.
fn version() -> Value {
    json!({
        "major": "1", "minor": "33", "gitVersion": "v1.33.0", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "rustc",
        "platform": format!("linux/{}", match std::env::consts::ARCH { "x86_64" => "amd64", "aarch64" => "arm64", other => other }),
    })
}

/// A service that answers has opened its store and reads it from memory: there is nothing more to ask.
fn health(call: &Call, check: &str) -> Response<Body> {
    let body = if call.query.get("verbose").is_some() {
        format!("[+]ping ok\n[+]store ok\n{check} check passed\n")
    } else {
        "ok".to_owned()
    };
    answer::bytes(StatusCode::OK, answer::TEXT, body)
}

fn paths() -> Vec<String> {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (group, version) in registry().group_versions().into_iter().filter(|(group, _)| !group.is_empty()) {
        let group_path = format!("/apis/{group}");
        if !paths.contains(&group_path) {
            paths.push(group_path);
        }
        paths.push(format!("/apis/{group}/{version}"));
    }
    paths.extend(["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"].map(str::to_owned));
    paths
}
