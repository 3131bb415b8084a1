//! Volumes on disk: made before a pod starts, kept up to date while it runs, removed after it.

mod files;
mod mounts;
mod removal;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use skep_agent_core::pods::VolumePlan;
use skep_agent_core::pods::volume::{HostPathKind, VolumeSource};

use super::layout::Layout;

pub(super) use mounts::sub_path;
pub(super) use removal::remove;

/// A volume that could not be made.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(super) struct VolumeError {
    /// Its name.
    pub(super) volume: String,
    /// Why.
    pub(super) reason: String,
}

/// Makes all volumes of the pod what the plan says. Blocks on the disk.
pub(super) fn write(layout: &Layout, uid: &str, plan: &VolumePlan) -> Result<(), VolumeError> {
    let failed = |volume: &str, error: &io::Error| VolumeError { volume: volume.to_owned(), reason: error.to_string() };
    // Other users of the node have no business in there.
    let private = |path: &Path| DirBuilder::new().recursive(true).mode(0o750).create(path);
    private(&layout.pod(uid).join("volumes")).map_err(|error| failed("", &error))?;
    for (name, source) in &plan.volumes {
        let dir = layout.volume(uid, name);
        let made = match source {
            VolumeSource::Empty { memory, size_limit } => empty_dir(&dir, *memory, *size_limit, plan.group),
            VolumeSource::Files { memory, files } => {
                memory_dir(&dir, *memory, None, 0o755).and_then(|()| files::write(&dir, files, plan.group))
            }
            VolumeSource::Host { path, kind } => {
                host_path(Path::new(path), *kind).map_err(|error| with_path(&error, Path::new(path)))
            }
        };
        made.map_err(|error| failed(name, &error))?;
    }
    Ok(())
}

/// The path of the node that a mount of the volume shows.
pub(super) fn path(layout: &Layout, uid: &str, name: &str, plan: &VolumePlan) -> PathBuf {
    match plan.volumes.get(name) {
        Some(VolumeSource::Host { path, .. }) => PathBuf::from(path),
        _ => layout.volume(uid, name),
    }
}

fn with_path(error: &io::Error, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("hostPath {}: {error}", path.display()))
}

fn empty_dir(dir: &Path, memory: bool, size_limit: Option<u64>, group: Option<i64>) -> io::Result<()> {
    memory_dir(dir, memory, size_limit, 0o777)?;
    if let Some(group) = group.and_then(|group| u32::try_from(group).ok()) {
        chown(dir, None, Some(group))?;
        // What is made inside belongs to the group too.
        set_mode(dir, 0o2777)?;
    }
    Ok(())
}

/// A directory, in memory if asked for. One that is there stays as it is.
fn memory_dir(dir: &Path, memory: bool, size_limit: Option<u64>, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(dir) {
        // The process's umask does not apply to what containers see.
        Ok(()) => set_mode(dir, mode)?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    if memory && !mounts::is_mount_point(dir)? {
        mounts::mount_memory(dir, size_limit, mode)?;
    }
    Ok(())
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

fn host_path(path: &Path, kind: HostPathKind) -> io::Result<()> {
    let wrong = |expected: &str| Err(io::Error::other(format!("hostPath type check failed: is not a {expected}")));
    match kind {
        HostPathKind::Unchecked => return Ok(()),
        HostPathKind::DirectoryOrCreate if !path.exists() => return fs::create_dir_all(path),
        HostPathKind::FileOrCreate if !path.exists() => {
            return OpenOptions::new().create(true).append(true).open(path).map(|_: File| ());
        }
        _ => {}
    }
    let file_type = fs::metadata(path)?.file_type();
    match kind {
        HostPathKind::DirectoryOrCreate | HostPathKind::Directory if !file_type.is_dir() => wrong("directory"),
        HostPathKind::FileOrCreate | HostPathKind::File if !file_type.is_file() => wrong("file"),
        HostPathKind::Socket if !file_type.is_socket() => wrong("socket file"),
        HostPathKind::CharDevice if !file_type.is_char_device() => wrong("character device"),
        HostPathKind::BlockDevice if !file_type.is_block_device() => wrong("block device"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
