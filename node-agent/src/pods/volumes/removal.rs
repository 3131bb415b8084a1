//! Removing what a pod leaves on the node.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, umount2};

use crate::pods::layout::Layout;

/// Removes volumes, messages and logs of a pod. Blocks on the disk.
///
/// # Errors
/// Something is still mounted, or cannot be removed.
pub(in crate::pods) fn remove(layout: &Layout, uid: &str) -> io::Result<()> {
    let dir = layout.pod(uid);
    unmount_below(&dir)?;
    // Where unmounting did not help, removing would empty what is mounted.
    if let Some(left) = mounts_below(&dir)?.first() {
        return Err(io::Error::other(format!("{} is still mounted", left.display())));
    }
    absent_is_fine(fs::remove_dir_all(&dir))?;
    let suffix = format!("_{uid}");
    let logs = match fs::read_dir(&layout.logs) {
        Ok(logs) => logs,
        Err(error) => return absent_is_fine(Err(error)),
    };
    for entry in logs {
        let entry = entry?;
        if entry.file_name().to_string_lossy().ends_with(&suffix) {
            absent_is_fine(fs::remove_dir_all(entry.path()))?;
        }
    }
    Ok(())
}

/// Unmounts everything at and below a directory, the innermost first.
pub(super) fn unmount_below(dir: &Path) -> io::Result<()> {
    for mount in mounts_below(dir)?.iter().rev() {
        umount2(mount, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW)?;
    }
    Ok(())
}

/// In the order in which they were mounted.
fn mounts_below(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let dir = match fs::canonicalize(dir) {
        Ok(dir) => dir,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let points = table.lines().filter_map(|line| line.split(' ').nth(4)).map(|point| PathBuf::from(unescape(point)));
    Ok(points.filter(|point| point.starts_with(&dir)).collect())
}

/// Blanks and the like are written as `\040`.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(position) = rest.find('\\') {
        out.push_str(&rest[..position]);
        let code = rest.get(position + 1..position + 4).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                out.push(char::from(code));
                rest = &rest[position + 4..];
            }
            None => {
                out.push('\\');
                rest = &rest[position + 1..];
            }
        }
    }
    out.push_str(rest);
    out
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
