//! The mark: a small file beside the database that names the newest revision that was ever acknowledged.
//!
//! A database whose last transaction is damaged, or that was replaced by an older copy, opens as a sound store that
//! lacks acknowledged writes. The mark makes that visible. It is written after each commit and never synced: whatever
//! of it reaches the disk names a revision that is durable, and a crash of the process alone loses nothing of it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::model::Revision;

/// The revision and, as a check, its complement; both little endian.
const LENGTH: usize = 16;

/// The open file.
#[derive(Debug)]
pub(crate) struct Acknowledged {
    file: File,
    path: PathBuf,
    /// What it named when it was opened.
    found: Revision,
}

impl Acknowledged {
    /// Opens or makes the mark of the database at `database`.
    pub(crate) fn open(database: &Path) -> Result<Self, Error> {
        let mut name = database.as_os_str().to_owned();
        name.push(".acknowledged");
        let path = PathBuf::from(name);
        let unavailable = |error: io::Error| Error::Unavailable(format!("{}: {error}", path.display()));
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(unavailable)?;
        let length = file.metadata().map_err(unavailable)?.len();
        // A new file, or one whose first write did not reach the disk.
        if length == 0 {
            return Ok(Self { file, path, found: 0 });
        }
        let mut bytes = [0; LENGTH];
        file.read_exact_at(&mut bytes, 0).map_err(unavailable)?;
        let found = decode(bytes).ok_or_else(|| Error::Corrupt(format!("{} is not a mark", path.display())))?;
        Ok(Self { file, path, found })
    }

    /// Refuses a store that ends before the acknowledged revision.
    pub(crate) fn check(&self, newest: Revision) -> Result<(), Error> {
        if newest < self.found {
            let (found, path) = (self.found, self.path.display());
            return Err(Error::Corrupt(format!(
                "revision {found} was acknowledged, but the store ends at {newest} (if an older copy was put back on \
                 purpose, remove {path})"
            )));
        }
        Ok(())
    }

    /// Names the newest acknowledged revision.
    pub(crate) fn set(&self, revision: Revision) -> io::Result<()> {
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(&revision.to_le_bytes());
        bytes[8..].copy_from_slice(&(!revision).to_le_bytes());
        self.file.write_all_at(&bytes, 0)
    }
}

fn decode(bytes: [u8; LENGTH]) -> Option<Revision> {
    let (revision, check) = bytes.split_at(8);
    let revision = Revision::from_le_bytes(revision.try_into().ok()?);
    let check = Revision::from_le_bytes(check.try_into().ok()?);
    // A mark of zeroes is a file that has its length, but not yet its content.
    ((revision, check) == (0, 0) || revision == !check).then_some(revision)
}
