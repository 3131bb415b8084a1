use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use skep_agent_core::ipam::{Ipam, IpamError};
use tokio::sync::Mutex;

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

/// The node's [`Ipam`], on disk before it has effects.
#[derive(Clone, Debug)]
pub struct Journal {
    path: Arc<PathBuf>,
    ipam: Arc<Mutex<Ipam>>,
}

impl Journal {
    /// Reads the journal, or begins one.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn open(state_dir: &Path) -> Result<Self, JournalError> {
        let path = state_dir.join(FILE);
        let ipam = match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .map_err(|source| JournalError::Damaged { path: path.clone(), source })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ipam::default(),
            Err(source) => return Err(JournalError::Io { path, source }),
        };
        Ok(Self { path: Arc::new(path), ipam: Arc::new(Mutex::new(ipam)) })
    }

    /// What it says.
    pub async fn read<T>(&self, look: impl FnOnce(&Ipam) -> T) -> T {
        look(&*self.ipam.lock().await)
    }

    /// Changes it. The change has reached the disk when this returns; after an error nothing has changed.
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

/// Replaces a file as a whole; a crash leaves the old or the new one.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut file = File::create(&temporary)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}
