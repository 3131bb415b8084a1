use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use skep_agent_core::ipam::{Ipam, IpamError};
use tokio::sync::Mutex;
use tracing::warn;

/// Name of the file in the state directory.
const FILE: &str = "ipam.json";

/// The journal of addresses cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is damaged.
    #[error("{path}: {source}; remove the file only when no pod runs on this node")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// What was asked of it is not possible.
    #[error(transparent)]
    Ipam(#[from] IpamError),
}

/// The node's [`Ipam`], in its file before it has effects.
///
/// The file outlives the agent, not a loss of power: it is never forced to the disk, which would take longer than all the
/// rest of an ADD. Nothing that it speaks of outlives a loss of power either.
#[derive(Clone, Debug)]
pub struct Journal {
    path: Arc<PathBuf>,
    ipam: Arc<Mutex<Ipam>>,
}

impl Journal {
    /// Reads the journal, or begins one. A damaged one is begun anew when nothing is `in_use`, as after a loss of power.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn open(state_dir: &Path, in_use: bool) -> Result<Self, JournalError> {
        let path = state_dir.join(FILE);
        let ipam = match fs::read(&path) {
            Ok(text) => match serde_json::from_slice(&text) {
                Ok(ipam) => ipam,
                Err(problem) if !in_use => {
                    warn!(path = %path.display(), %problem, "a damaged journal of addresses is begun anew");
                    Ipam::default()
                }
                Err(source) => return Err(JournalError::Damaged { path, source }),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ipam::default(),
            Err(source) => return Err(JournalError::Io { path, source }),
        };
        Ok(Self { path: Arc::new(path), ipam: Arc::new(Mutex::new(ipam)) })
    }

    /// What it says.
    pub async fn read<T>(&self, look: impl FnOnce(&Ipam) -> T) -> T {
        look(&*self.ipam.lock().await)
    }

    /// Changes it. The change is in the file when this returns; after an error nothing has changed.
    ///
    /// # Errors
    /// [`JournalError`].
    pub async fn change<T>(&self, change: impl FnOnce(&mut Ipam) -> Result<T, IpamError>) -> Result<T, JournalError> {
        let mut ipam = self.ipam.lock().await;
        let mut changed = ipam.clone();
        let value = change(&mut changed)?;
        if changed == *ipam {
            return Ok(value);
        }
        let path = Arc::clone(&self.path);
        let failed = |source| JournalError::Io { path: self.path.to_path_buf(), source };
        let text = serde_json::to_vec(&changed).map_err(|error| failed(error.into()))?;
        let written = tokio::task::spawn_blocking(move || replace(&path, &text)).await;
        written.map_err(|error| failed(io::Error::other(error)))?.map_err(failed)?;
        *ipam = changed;
        Ok(value)
    }
}

/// Replaces a file as a whole: whoever reads it finds the old one or the new one.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    fs::write(&temporary, text)?;
    fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_changed_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(dir.path(), true).unwrap();
        assert!(matches!(
            journal.change(|ipam| ipam.set_ranges(&[])).await,
            Err(JournalError::Ipam(IpamError::NoRange))
        ));
        assert!(!dir.path().join(FILE).exists(), "a change that failed was written");
        journal.change(|ipam| ipam.set_ranges(&["10.0.0.0/24".parse().unwrap()])).await.unwrap();
        let again = Journal::open(dir.path(), true).unwrap();
        assert!(again.read(Ipam::has_ranges).await);
    }

    #[test]
    fn a_damaged_journal_is_forgotten_only_when_nothing_is_in_use() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), "{\"pools\":[").unwrap();
        assert!(matches!(Journal::open(dir.path(), true), Err(JournalError::Damaged { .. })));
        Journal::open(dir.path(), false).unwrap();
    }
}
