//! Writing answers.

use axum::body::Body;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WARNING};
use http::{Response, StatusCode};
use serde_json::Value;
use skep_control_core::api::Status;

use super::accept::Format;

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");
const YAML: HeaderValue = HeaderValue::from_static("application/yaml");
pub(super) const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// An answer of ready bytes.
pub(super) fn bytes(code: StatusCode, content_type: HeaderValue, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// An answer in JSON or YAML.
pub(super) fn value(code: StatusCode, format: Format, value: &Value) -> Result<Response<Body>, Status> {
    Ok(match format {
        Format::Json => bytes(code, JSON, serde_json::to_vec(value).map_err(Status::internal)?),
        Format::Yaml => bytes(code, YAML, serde_saphyr::to_string(value).map_err(Status::internal)?),
    })
}

/// An answer in JSON or YAML that is JSON already.
pub(super) fn json(code: StatusCode, format: Format, json: Bytes) -> Result<Response<Body>, Status> {
    match format {
        Format::Json => Ok(bytes(code, JSON, json)),
        Format::Yaml => value(code, format, &serde_json::from_slice(&json).map_err(Status::internal)?),
    }
}

/// The answer that a `Status` is.
pub(super) fn status(status: &Status) -> Response<Body> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = bytes(code, JSON, status.to_value().to_string());
    let retry = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    if retry > 0 {
        response.headers_mut().insert(RETRY_AFTER, retry.into());
    }
    response
}

/// Adds what the client should know besides.
pub(super) fn warn(response: &mut Response<Body>, warnings: &[String]) {
    for text in warnings {
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        // What no header can hold is left out: a warning is a courtesy.
        if let Ok(header) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(WARNING, header);
        }
    }
}
