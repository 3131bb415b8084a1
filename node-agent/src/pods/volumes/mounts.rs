//! Mounts that volumes need: memory, and parts of volumes.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Component, Path};

use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::mount::{MsFlags, mount};
use nix::sys::stat::{Mode, mkdirat};

/// Mounts memory over the directory.
pub(super) fn mount_memory(dir: &Path, size_limit: Option<u64>, mode: u32) -> io::Result<()> {
    let mut options = format!("mode={mode:o}");
    if let Some(bytes) = size_limit {
        options.push_str(&format!(",size={bytes}"));
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    Ok(mount(Some("tmpfs"), dir, Some("tmpfs"), flags, Some(options.as_str()))?)
}

/// Whether something is mounted on the directory, judged by its device; a bind mount from the same file system is not
/// noticed.
pub(super) fn is_mount_point(dir: &Path) -> io::Result<bool> {
    let parent = dir.parent().unwrap_or(dir);
    Ok(fs::metadata(dir)?.dev() != fs::metadata(parent)?.dev())
}

/// Shows a part of a volume at `target`, and makes a directory of it when nothing is there.
///
/// The path is resolved below the volume, link by link, by the kernel: what a container writes into the volume cannot
/// make it lead elsewhere, now or between the check and the mount.
pub(in crate::pods) fn sub_path(volume: &Path, sub_path: &Path, target: &Path) -> io::Result<()> {
    let root = open(volume, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    let part = match beneath(&root, sub_path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_dirs(&root, sub_path)?;
            beneath(&root, sub_path)?
        }
        result => result?,
    };
    let source = format!("/proc/self/fd/{}", part.as_raw_fd());
    let is_dir = fs::metadata(&source)?.is_dir();
    if let Some(parent) = target.parent() {
        DirBuilder::new().recursive(true).mode(0o750).create(parent)?;
    }
    if fs::symlink_metadata(target).is_ok() {
        // Of an earlier start of the container.
        super::removal::unmount_below(target)?;
    } else if is_dir {
        fs::create_dir(target)?;
    } else {
        fs::write(target, [])?;
    }
    Ok(mount(Some(source.as_str()), target, None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>)?)
}

fn beneath(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    let resolve = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(resolve);
    Ok(openat2(root.as_fd(), path, how)?)
}

fn make_dirs(root: &OwnedFd, path: &Path) -> io::Result<()> {
    let mut made = std::path::PathBuf::new();
    for component in path.components().filter(|component| matches!(component, Component::Normal(_))) {
        let parent = if made.as_os_str().is_empty() { root.try_clone()? } else { beneath(root, &made)? };
        match mkdirat(parent.as_fd(), Path::new(component.as_os_str()), Mode::from_bits_truncate(0o755)) {
            Ok(()) | Err(nix::errno::Errno::EEXIST) => made.push(component),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
