//! The `Status` object: the one error that every door of the API server answers with.
//!
//! Clients branch on `reason` and `code`, print `message`, and read `details`; all four follow the Kubernetes API
//! conventions.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::field::FieldError;
use super::resource::Resource;

/// `meta/v1` `Status`. Serialises to the JSON that clients decode; codes below 400 are a `Success`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
#[serde(into = "Wire", from = "Wire")]
pub struct Status {
    /// What a person reads.
    pub message: String,
    /// Which object, and why.
    pub details: Option<Box<Details>>,
    /// What a program branches on.
    pub reason: Reason,
    /// The HTTP status code.
    pub code: u16,
}

/// The fields in the order and with the constants of the wire.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Wire {
    kind: String,
    api_version: String,
    metadata: serde_json::Map<String, Value>,
    status: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(skip_serializing_if = "Reason::is_unknown")]
    reason: Reason,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Box<Details>>,
    code: u16,
}

impl Default for Wire {
    fn default() -> Self {
        Status::failure(500, Reason::Unknown, "").into()
    }
}

impl From<Status> for Wire {
    fn from(status: Status) -> Self {
        Self {
            kind: "Status".into(),
            api_version: "v1".into(),
            metadata: serde_json::Map::new(),
            status: if status.code < 400 { "Success" } else { "Failure" }.into(),
            message: status.message,
            reason: status.reason,
            details: status.details,
            code: status.code,
        }
    }
}

impl From<Wire> for Status {
    fn from(wire: Wire) -> Self {
        Self { message: wire.message, details: wire.details, reason: wire.reason, code: wire.code }
    }
}

/// Machine-readable reasons, spelled as on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Reason {
    /// No reason (also: a success).
    #[default]
    #[serde(rename = "")]
    Unknown,
    /// 401
    Unauthorized,
    /// 403
    Forbidden,
    /// 404
    NotFound,
    /// 409
    AlreadyExists,
    /// 409
    Conflict,
    /// 410
    Gone,
    /// 410
    Expired,
    /// 422
    Invalid,
    /// 500
    ServerTimeout,
    /// 504
    Timeout,
    /// 429
    TooManyRequests,
    /// 400
    BadRequest,
    /// 405
    MethodNotAllowed,
    /// 406
    NotAcceptable,
    /// 413
    RequestEntityTooLarge,
    /// 415
    UnsupportedMediaType,
    /// 500
    InternalError,
    /// 503
    ServiceUnavailable,
}

impl Reason {
    fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }
}

/// The object that a `Status` is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// Object name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// API group; empty for core.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Plural resource for request errors, kind for `Invalid`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Object uid where known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Each single fault.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// Seconds after which a retry makes sense; 0 is absent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

fn is_zero(seconds: &u32) -> bool {
    *seconds == 0
}

/// One fault inside an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// `FieldValueRequired`, `FieldValueInvalid`, ...
    pub reason: String,
    /// Text without the field.
    pub message: String,
    /// Path such as `spec.containers[0].name`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
}

impl Status {
    fn failure(code: u16, reason: Reason, message: impl Into<String>) -> Self {
        Self { message: message.into(), details: None, reason, code }
    }

    fn about(mut self, resource: &Resource, name: &str) -> Self {
        self.details = Some(Box::new(Details {
            name: name.into(),
            group: resource.group.into(),
            kind: resource.plural.into(),
            ..Details::default()
        }));
        self
    }

    /// 404: no such object.
    pub fn not_found(resource: &Resource, name: &str) -> Self {
        Self::failure(404, Reason::NotFound, format!("{} {name:?} not found", resource.qualified()))
            .about(resource, name)
    }

    /// 404: no such resource or path at all.
    pub fn unknown_path() -> Self {
        let mut status = Self::failure(404, Reason::NotFound, "the server could not find the requested resource");
        status.details = Some(Box::default());
        status
    }

    /// 409: the name is taken.
    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", resource.qualified());
        Self::failure(409, Reason::AlreadyExists, message).about(resource, name)
    }

    /// 409 with a text of its own: `Operation cannot be fulfilled on pods "a": TEXT`.
    pub fn conflict(resource: &Resource, name: &str, text: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {text}", resource.qualified());
        Self::failure(409, Reason::Conflict, message).about(resource, name)
    }

    /// 409: the writer's resourceVersion is not the stored one.
    pub fn modified(resource: &Resource, name: &str) -> Self {
        let text = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, text)
    }

    /// 422 with one cause per fault. `errors` should not be empty.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let list = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let mut status = Self::failure(422, Reason::Invalid, format!("{qualified} {name:?} is invalid: {list}"));
        status.details = Some(Box::new(Details {
            name: name.into(),
            group: group.into(),
            kind: kind.into(),
            causes: errors.iter().map(FieldError::cause).collect(),
            ..Details::default()
        }));
        status
    }

    /// 422 for what is no fault of a field: a patch that does not apply.
    pub fn unprocessable(message: impl Into<String>) -> Self {
        Self::failure(422, Reason::Invalid, message)
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, Reason::BadRequest, message)
    }

    /// 401: nobody known.
    pub fn unauthorized() -> Self {
        Self::failure(401, Reason::Unauthorized, "Unauthorized")
    }

    /// 403: `pods "a" is forbidden: TEXT`.
    pub fn forbidden(resource: &Resource, name: &str, text: &str) -> Self {
        let subject = if name.is_empty() { resource.qualified() } else { format!("{} {name:?}", resource.qualified()) };
        Self::failure(403, Reason::Forbidden, format!("{subject} is forbidden: {text}")).about(resource, name)
    }

    /// 403 for a path that is no resource.
    pub fn forbidden_path(user: &str, verb: &str, path: &str) -> Self {
        let message = format!("forbidden: User {user:?} cannot {verb} path {path:?}");
        let mut status = Self::failure(403, Reason::Forbidden, message);
        status.details = Some(Box::default());
        status
    }

    /// 410: a watch or list from a revision that was compacted away.
    pub fn expired(requested: u64, oldest: u64) -> Self {
        Self::failure(410, Reason::Expired, format!("too old resource version: {requested} ({oldest})"))
    }

    /// 410: a continue token whose revision was compacted away.
    pub fn expired_continue() -> Self {
        let text = "The provided continue parameter is too old to display a consistent list result. You must start a new list \
                    without the continue parameter.";
        Self::failure(410, Reason::Expired, text)
    }

    /// 504: a resource version that does not exist yet.
    pub fn future_revision(requested: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {requested}, current: {current}");
        let mut status = Self::failure(504, Reason::Timeout, message);
        status.details = Some(Box::new(Details {
            causes: vec![Cause {
                reason: "ResourceVersionTooLarge".into(),
                message: "Too large resource version".into(),
                field: String::new(),
            }],
            retry_after_seconds: 1,
            ..Details::default()
        }));
        status
    }

    /// 504.
    pub fn timeout(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        let mut status = Self::failure(504, Reason::Timeout, message);
        status.details = Some(Box::new(Details { retry_after_seconds, ..Details::default() }));
        status
    }

    /// 429.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        let mut status = Self::failure(429, Reason::TooManyRequests, message);
        status.details = Some(Box::new(Details { retry_after_seconds, ..Details::default() }));
        status
    }

    /// 405: the verb is not served for this resource.
    pub fn method_not_allowed() -> Self {
        let text = "the server does not allow this method on the requested resource";
        let mut status = Self::failure(405, Reason::MethodNotAllowed, text);
        status.details = Some(Box::default());
        status
    }

    /// 406: none of the wanted media types can be given. `supported` is listed for the reader.
    pub fn not_acceptable(supported: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", supported.join(", "));
        Self::failure(406, Reason::NotAcceptable, message)
    }

    /// 413: the body is larger than `limit` bytes.
    pub fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::failure(413, Reason::RequestEntityTooLarge, message)
    }

    /// 413 with a text of its own.
    pub fn too_large_text(message: impl Into<String>) -> Self {
        Self::failure(413, Reason::RequestEntityTooLarge, message)
    }

    /// 415: the body's media type is not known. `supported` is listed for the reader.
    pub fn unsupported_media_type(supported: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            supported.join(", ")
        );
        Self::failure(415, Reason::UnsupportedMediaType, message)
    }

    /// 500.
    pub fn internal(error: impl std::fmt::Display) -> Self {
        let text = error.to_string();
        let mut status = Self::failure(500, Reason::InternalError, format!("Internal error occurred: {text}"));
        status.details = Some(Box::new(Details {
            causes: vec![Cause { reason: String::new(), message: text, field: String::new() }],
            ..Details::default()
        }));
        status
    }

    /// 503.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::failure(503, Reason::ServiceUnavailable, message)
    }

    /// 200: the answer to a delete that removed the object.
    pub fn deleted(resource: &Resource, name: &str, uid: &str) -> Self {
        let mut status = Self::failure(200, Reason::Unknown, "").about(resource, name);
        if let Some(details) = &mut status.details {
            details.uid = uid.into();
        }
        status
    }

    /// 201: the answer to a pod binding.
    pub fn created() -> Self {
        Self::failure(201, Reason::Unknown, "")
    }

    /// Whether the reason is `NotFound`.
    pub fn is_not_found(&self) -> bool {
        self.reason == Reason::NotFound
    }

    /// Whether the reason is `AlreadyExists`.
    pub fn is_already_exists(&self) -> bool {
        self.reason == Reason::AlreadyExists
    }

    /// Whether the reason is `Conflict` (a stale resourceVersion or a failed precondition).
    pub fn is_conflict(&self) -> bool {
        self.reason == Reason::Conflict
    }

    /// The JSON value.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_else(|_| json!({"kind": "Status", "apiVersion": "v1", "code": self.code}))
    }
}

#[cfg(test)]
mod tests;
