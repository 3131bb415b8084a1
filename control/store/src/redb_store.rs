//! A store whose writes are on disk.

use std::path::Path;
use std::sync::Arc;

use crate::error::Error;
use crate::local::{Local, store};
use crate::options::Options;
use crate::redb_disk::RedbDisk;

/// A store in memory whose every acknowledged write is on disk, in one file. Clones are handles of the same store; when
/// the last one is dropped the file is closed.
#[derive(Clone, Debug)]
pub struct RedbStore(Arc<Local>);

impl RedbStore {
    /// Opens the file at `path`, or makes it, and reads it whole: blocks for as long as that takes.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the file is not what was acknowledged, [`Error::Unavailable`] if it cannot be opened or
    /// another process has it.
    pub fn open(path: &Path, options: Options) -> Result<Self, Error> {
        let (disk, loaded) = RedbDisk::open(path, options.page_cache_bytes)?;
        Local::start(loaded.state, loaded.history, Box::new(disk), options).map(Arc::new).map(Self)
    }
}

store!(RedbStore);
