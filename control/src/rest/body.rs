//! Request bodies: bounded in size, time, depth and aliases.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use http::request::Parts;
use http_body_util::BodyExt;
use serde_json::Value;
use skep_control_core::api::{Document, MAX_BODY, Status, parse_json, parse_protobuf};

/// How long a body may take to come.
const BODY_TIME: Duration = Duration::from_secs(30);
/// Of a body that is too large, so much is read and thrown away: a client that is still writing reads the answer only
/// when it has done.
const DISCARD: usize = 16 << 20;

/// Media types that objects come in.
const OBJECT_TYPES: &[&str] = &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// Reads a body whole.
///
/// Errors: 413 when it is too large, 400 when it breaks off, 504 when it does not come.
pub(super) async fn read(parts: &Parts, body: Body) -> Result<Bytes, Status> {
    let announced = parts.headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<u64>().ok());
    let too_large = announced.is_some_and(|length| length > MAX_BODY as u64);
    if too_large && parts.headers.contains_key(EXPECT) {
        return Err(Status::too_large(MAX_BODY));
    }
    match tokio::time::timeout(BODY_TIME, collect(body, too_large)).await {
        Ok(result) => result,
        Err(_) => Err(Status::timeout("the request's body did not come in time", 0)),
    }
}

async fn collect(mut body: Body, mut too_large: bool) -> Result<Bytes, Status> {
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Status::bad_request(format!("reading the request's body: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        length += data.len();
        if too_large || length > MAX_BODY {
            too_large = true;
            first = None;
            rest = BytesMut::new();
            if length > DISCARD {
                break;
            }
            continue;
        }
        match &first {
            // Most bodies are one frame, which needs no copy.
            None if rest.is_empty() => first = Some(data),
            None => rest.extend_from_slice(&data),
            Some(one) => {
                rest.extend_from_slice(one);
                rest.extend_from_slice(&data);
                first = None;
            }
        }
    }
    if too_large {
        return Err(Status::too_large(MAX_BODY));
    }
    Ok(first.unwrap_or_else(|| rest.freeze()))
}

/// The media type of a request's body, without parameters; empty when there is none.
pub(super) fn media_type(parts: &Parts) -> &str {
    let header = parts.headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    header.split(';').next().unwrap_or_default().trim()
}

/// Parses a body by its media type.
///
/// Errors: 415 for another media type, 400 for what does not parse, is nested too deeply, or abuses aliases.
pub(super) fn parse(media_type: &str, body: &Bytes) -> Result<Document, Status> {
    match media_type {
        "" | "application/json" => parse_json(body),
        "application/yaml" => Document::new(parse_yaml(body)?),
        // What today's `kubectl create` sends; the answer is JSON all the same.
        "application/vnd.kubernetes.protobuf" => parse_protobuf(body),
        _ => Err(Status::unsupported_media_type(OBJECT_TYPES)),
    }
}

fn parse_yaml(body: &[u8]) -> Result<Value, Status> {
    let mut budget = serde_saphyr::Budget::default();
    budget.max_documents = 1;
    budget.max_aliases = 1000;
    budget.max_nodes = 300_000;
    budget.max_total_scalar_bytes = MAX_BODY;
    let mut options = serde_saphyr::Options::default();
    options.budget = Some(budget);
    options.with_snippet = false;
    serde_saphyr::from_slice_with_options(body, options)
        .map_err(|error| Status::bad_request(format!("error parsing YAML: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yaml(text: &str) -> Result<Value, String> {
        parse_yaml(text.as_bytes()).map_err(|status| status.message)
    }

    #[test]
    fn yaml_is_read() {
        let value = yaml("metadata:\n  name: a\n  labels: {n: \"1\", t: \"true\"}\nspec:\n  replicas: 3\n  paused: true\n  args: [x, '2']\n  none:\n").unwrap();
        let expected = serde_json::json!({
            "metadata": {"name": "a", "labels": {"n": "1", "t": "true"}},
            "spec": {"replicas": 3, "paused": true, "args": ["x", "2"], "none": null}
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn yaml_is_bounded() {
        assert!(yaml("a: [1").unwrap_err().starts_with("error parsing YAML"));
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..9 {
            let below = level - 1;
            let list = vec![format!("*a{below}"); 10].join(", ");
            bomb.push_str(&format!("a{level}: &a{level} [{list}]\n"));
        }
        assert!(yaml(&bomb).is_err());
        let deep = format!("a: {}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(yaml(&deep).is_err());
    }
}
