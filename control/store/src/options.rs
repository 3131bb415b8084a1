//! What an operator may set.

use std::time::Duration;

/// How a store is run. The default suits one member of a small cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// How much history is kept for lists at a revision and watches from one.
    pub retention: Retention,
    /// An idle watcher hears of the store's progress this often.
    pub progress_interval: Duration,
    /// Largest transaction, in bytes of keys and values.
    pub max_txn_bytes: usize,
    /// Memory for pages of the database file, in bytes. The state itself is in memory besides.
    pub page_cache_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            retention: Retention::default(),
            progress_interval: Duration::from_secs(5),
            max_txn_bytes: 8 << 20,
            page_cache_bytes: 16 << 20,
        }
    }
}

/// Automatic compaction. A revision goes when it is not among the last `revisions` and is older than `age`; and in any
/// case when the history takes more than `bytes`.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// Number of last revisions that are kept however old they are.
    pub revisions: u64,
    /// Age up to which more than that are kept.
    pub age: Duration,
    /// Bound of the memory that history takes (keys and values that it holds, roughly).
    pub bytes: usize,
}

impl Default for Retention {
    fn default() -> Self {
        Self { revisions: 10_000, age: Duration::from_secs(300), bytes: 96 << 20 }
    }
}
