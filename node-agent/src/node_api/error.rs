//! Errors of the node API: a status code, and a text that users read.

use axum::response::{IntoResponse, Response};
use http::StatusCode;

/// Why a request is not answered.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("pod \"{0}\" not found")]
    NoPod(String),
    #[error("container {container} is not valid for pod {pod}")]
    NoContainer { pod: String, container: String },
    #[error("container \"{container}\" in pod \"{pod}\" is waiting to start: {reason}")]
    Waiting { pod: String, container: String, reason: String },
    #[error("previous terminated container \"{container}\" in pod \"{pod}\" not found")]
    NoPrevious { pod: String, container: String },
    #[error("invalid value {value:?} of {field}: {expected}")]
    InvalidOption { field: &'static str, value: String, expected: &'static str },
    #[error("failed to read the log: {0}")]
    Read(#[from] std::io::Error),
}

impl Error {
    fn status(&self) -> StatusCode {
        match self {
            Self::NoPod(_) => StatusCode::NOT_FOUND,
            Self::NoContainer { .. } | Self::Waiting { .. } | Self::NoPrevious { .. } | Self::InvalidOption { .. } => {
                StatusCode::BAD_REQUEST
            }
            Self::Read(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        (self.status(), self.to_string()).into_response()
    }
}
