//! API errors as gRPC ones.

use skep_control_core::api::Status as ApiStatus;
use tonic::{Code, Status};

/// The gRPC status of an API error.
pub(super) fn status(error: &ApiStatus) -> Status {
    let code = match error.code {
        400 | 422 => Code::InvalidArgument,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::NotFound,
        409 if error.is_already_exists() => Code::AlreadyExists,
        409 => Code::Aborted,
        410 => Code::OutOfRange,
        413 | 429 => Code::ResourceExhausted,
        503 => Code::Unavailable,
        504 => Code::DeadlineExceeded,
        _ => Code::Internal,
    };
    Status::new(code, error.message.clone())
}
