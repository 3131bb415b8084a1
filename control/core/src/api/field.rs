//! Field paths and the faults found at them.

use std::fmt;

use serde_json::Value;

use super::status::Cause;

/// Path of a field inside an object, printed as `spec.containers[0].name`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Path(String);

impl Path {
    /// A top-level field.
    pub fn new(field: &str) -> Self {
        Self(field.to_owned())
    }

    /// A field of this object. A child of the empty path is a top-level field.
    #[must_use]
    pub fn child(&self, field: &str) -> Self {
        if self.0.is_empty() { Self(field.to_owned()) } else { Self(format!("{}.{field}", self.0)) }
    }

    /// An element of this list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// An entry of this map.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    /// The printed form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Kinds of faults; the wire spelling is [`FaultKind::reason`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// A field that must be given is not.
    Required,
    /// The value is malformed.
    Invalid,
    /// The value occurs twice where it may once.
    Duplicate,
    /// The value is not one of the known ones.
    NotSupported,
    /// The field must not be given here.
    Forbidden,
    /// Too many bytes.
    TooLong,
    /// Too many elements.
    TooMany,
    /// The value refers to something that is not there.
    NotFound,
}

impl FaultKind {
    /// `FieldValueRequired` and so on.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::NotFound => "FieldValueNotFound",
        }
    }
}

/// One fault at one field. Prints as `field: message`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct FieldError {
    /// What sort of fault.
    pub kind: FaultKind,
    /// Where.
    pub path: Path,
    /// Text without the field.
    pub message: String,
}

impl FieldError {
    fn with(kind: FaultKind, path: Path, head: String, detail: &str) -> Self {
        let message = if detail.is_empty() { head } else { format!("{head}: {detail}") };
        Self { kind, path, message }
    }

    /// The field must be given.
    pub fn required(path: Path, detail: &str) -> Self {
        Self::with(FaultKind::Required, path, "Required value".into(), detail)
    }

    /// The value is malformed; `detail` says how.
    pub fn invalid(path: Path, value: impl Into<Value>, detail: &str) -> Self {
        Self::with(FaultKind::Invalid, path, format!("Invalid value: {}", value.into()), detail)
    }

    /// The value occurs twice.
    pub fn duplicate(path: Path, value: impl Into<Value>) -> Self {
        Self::with(FaultKind::Duplicate, path, format!("Duplicate value: {}", value.into()), "")
    }

    /// The value is none of `supported`.
    pub fn not_supported(path: Path, value: impl Into<Value>, supported: &[&str]) -> Self {
        let list: Vec<String> = supported.iter().map(|s| format!("{s:?}")).collect();
        let detail = format!("supported values: {}", list.join(", "));
        Self::with(FaultKind::NotSupported, path, format!("Unsupported value: {}", value.into()), &detail)
    }

    /// The field must not be given, or not be changed.
    pub fn forbidden(path: Path, detail: &str) -> Self {
        Self::with(FaultKind::Forbidden, path, "Forbidden".into(), detail)
    }

    /// More than `max` bytes.
    pub fn too_long(path: Path, max: usize) -> Self {
        Self::with(FaultKind::TooLong, path, "Too long".into(), &format!("may not be more than {max} bytes"))
    }

    /// More than `max` elements.
    pub fn too_many(path: Path, actual: usize, max: usize) -> Self {
        Self::with(FaultKind::TooMany, path, format!("Too many: {actual}"), &format!("must have at most {max} items"))
    }

    /// The value refers to something that does not exist.
    pub fn not_found(path: Path, value: impl Into<Value>) -> Self {
        Self::with(FaultKind::NotFound, path, format!("Not found: {}", value.into()), "")
    }

    /// As a cause of a `Status`.
    pub fn cause(&self) -> Cause {
        Cause { reason: self.kind.reason().into(), message: self.message.clone(), field: self.path.as_str().into() }
    }
}

/// Faults found so far.
pub type Faults = Vec<FieldError>;
