use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use skep_agent_core::dataplane::Names;

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
