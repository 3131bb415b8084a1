//! What the store's errors are to a client.

use skep_control_core::api::Status;
use skep_store::Error;

/// The `Status` of a store error.
pub(super) fn status(error: Error) -> Status {
    match error {
        Error::Compacted { requested, oldest } => Status::expired(requested, oldest),
        Error::Future { requested, current } => Status::future_revision(requested, current),
        // The watcher starts again with a list, as if its revision were gone.
        Error::Lagged(revision) => Status::expired(revision, revision),
        Error::TooLarge { .. } => Status::too_large_text(error.to_string()),
        Error::LeaseNotFound(_) | Error::Invalid(_) | Error::Corrupt(_) => Status::internal(error),
        Error::Unavailable(text) => Status::unavailable(text),
    }
}
