use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

use skep_agent_core::dataplane::{NameSource, Names};
use tokio::sync::watch;
use tracing::error;

/// Name of the file in the run directory that says what the numbers in the maps stand for.
pub const NAMES_FILE: &str = "names.json";

/// The file of [`Names`], replaced as a whole.
#[derive(Debug)]
pub(super) struct NamesFile {
    path: PathBuf,
    temporary: PathBuf,
}

impl NamesFile {
    pub(super) fn new(run_dir: &Path) -> Self {
        Self { path: run_dir.join(NAMES_FILE), temporary: run_dir.join(format!(".{NAMES_FILE}.new")) }
    }

    pub(super) fn write(&self, names: &Names) -> io::Result<()> {
        fs::write(&self.temporary, serde_json::to_vec(names)?)?;
        fs::rename(&self.temporary, &self.path)
    }
}

/// The thread that finds out what the numbers in the maps stand for.
pub(super) struct Namer {
    pub(super) file: NamesFile,
    pub(super) names: watch::Sender<Arc<Names>>,
    pub(super) sources: mpsc::Receiver<NameSource>,
}

impl Namer {
    /// Works until nobody sends any more.
    pub(super) fn run(self) {
        for source in self.sources {
            let names = Arc::new(source.names());
            if let Err(problem) = self.file.write(&names) {
                error!(%problem, "names not written");
            }
            self.names.send_replace(names);
        }
    }
}
