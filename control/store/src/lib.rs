//! A revisioned key-value store with etcd's semantics.
//!
//! One global revision grows by one with every transaction that writes. Each key knows the revision that created it,
//! the one that wrote it last, and how often it was written. Every revision that is not yet compacted can be listed
//! and watched from. An acknowledged write is on disk.
//!
//! ```text
//!   Store (trait) -- MemoryStore, RedbStore: handles of a `local::Local`
//!      | writes                                   | reads, watches
//!      v                                          v
//!   writer (thread): state ---> disk ---> published: map + history   <--- watcher (a position in it)
//!          pure: `state`, `lease`, `history`
//! ```

mod acknowledged;
mod disk;
mod error;
mod history;
mod lease;
mod load;
mod local;
mod memory;
mod model;
mod options;
mod published;
mod redb_disk;
mod redb_store;
mod row;
mod state;
mod store;
mod watcher;
mod writer;

pub use error::Error;
pub use memory::MemoryStore;
pub use model::{Compare, Event, KeyRange, KeyValue, LeaseId, Op, RangeResult, Revision, Txn, TxnOutcome, WatchBatch};
pub use options::{Options, Retention};
pub use redb_store::RedbStore;
pub use store::{Store, Watch};
pub use watcher::Watcher;
