//! Files that are whole or not there, whatever kills the process.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody: 0644.
    Public,
    /// The owner: 0600.
    Private,
}

fn write_beside(path: &Path, content: &[u8], access: Access) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| io::Error::other("the path names no file"))?;
    let mut beside = name.to_owned();
    beside.push(format!(".{}.{}", std::process::id(), uuid::Uuid::new_v4().simple()));
    let beside = path.with_file_name(beside);
    let mode = match access {
        Access::Public => 0o644,
        Access::Private => 0o600,
    };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
    file.write_all(content)?;
    file.sync_all()?;
    Ok(beside)
}

fn sync_directory(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

/// Writes or replaces a file: readers see the old content or the new one.
pub fn replace(path: &Path, content: &[u8], access: Access) -> io::Result<()> {
    let beside = write_beside(path, content, access)?;
    fs::rename(&beside, path)?;
    sync_directory(path)
}

/// Writes a file unless it is there, and gives what is there afterwards: of several writers one wins, and all agree.
pub fn create_or_read(path: &Path, access: Access, content: impl FnOnce() -> io::Result<String>) -> io::Result<String> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other,
    }
    let beside = write_beside(path, content()?.as_bytes(), access)?;
    let linked = fs::hard_link(&beside, path);
    fs::remove_file(&beside)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => sync_directory(path)?,
    }
    fs::read_to_string(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_writer_wins() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        assert_eq!(create_or_read(&path, Access::Private, || Ok("a".into())).unwrap(), "a");
        assert_eq!(create_or_read(&path, Access::Private, || Ok("b".into())).unwrap(), "a");
        replace(&path, b"c", Access::Private).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "c");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
