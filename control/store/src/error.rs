//! Why a request failed.

use crate::model::{LeaseId, Revision};

/// Why the store could not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The revision's history is gone.
    #[error("required revision {requested} has been compacted, the oldest one retained is {oldest}")]
    Compacted {
        /// Revision that was asked for.
        requested: Revision,
        /// Oldest revision still there.
        oldest: Revision,
    },
    /// The revision has not happened yet.
    #[error("required revision {requested} is a future revision, the current one is {current}")]
    Future {
        /// Revision that was asked for.
        requested: Revision,
        /// Current revision.
        current: Revision,
    },
    /// No such lease.
    #[error("requested lease {0} not found")]
    LeaseNotFound(LeaseId),
    /// The watcher did not keep up and must start again from a new list.
    #[error("watcher fell behind at revision {0}")]
    Lagged(Revision),
    /// The transaction breaks a rule: an empty key, a key written twice, a lease of 0 seconds. Nothing was written.
    #[error("invalid request: {0}")]
    Invalid(String),
    /// The transaction is larger than the store accepts. Nothing was written.
    #[error("transaction of {size} bytes exceeds the limit of {limit} bytes")]
    TooLarge {
        /// Bytes of its keys and values.
        size: usize,
        /// Bytes accepted.
        limit: usize,
    },
    /// What is on disk is not what was acknowledged; the store does not open.
    #[error("store is damaged: {0}")]
    Corrupt(String),
    /// The store is shutting down, or its disk failed. A write may or may not have become durable.
    #[error("store is not available: {0}")]
    Unavailable(String),
}
