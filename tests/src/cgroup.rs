//! Control groups of a test cluster. On a hybrid machine there are several hierarchies; runc makes directories in each.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::command::wait_until;

/// Where cgroup2 is mounted: `/sys/fs/cgroup`, or a directory in it on a hybrid machine.
pub fn v2_root() -> Result<PathBuf> {
    hierarchies()?
        .into_iter()
        .find_map(|(kind, path)| (kind == "cgroup2").then_some(path))
        .context("no cgroup2 hierarchy is mounted")
}

/// Every mounted hierarchy with its type, `cgroup` or `cgroup2`.
fn hierarchies() -> Result<Vec<(String, PathBuf)>> {
    let mounts = fs::read_to_string("/proc/self/mounts").context("cannot read /proc/self/mounts")?;
    Ok(mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ');
            let (path, kind) = (fields.nth(1)?, fields.next()?);
            kind.starts_with("cgroup").then(|| (kind.to_owned(), PathBuf::from(path)))
        })
        .collect())
}

/// Processes directly in a cgroup; none if it does not exist.
pub fn processes(dir: &Path) -> Vec<i32> {
    let list = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    list.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Kills every process in a cgroup2 directory and below it, and waits until none is left.
pub fn kill_all(dir: &Path) -> Result<()> {
    if !dir.exists() {
        return Ok(());
    }
    // Kernels before 5.14 have no cgroup.kill: there, one by one until nothing new appears.
    let switch = dir.join("cgroup.kill");
    wait_until(&format!("processes in {} end", dir.display()), Duration::from_secs(20), || {
        let pids: Vec<i32> = walk(dir).iter().flat_map(|dir| processes(dir)).collect();
        if !pids.is_empty() && fs::write(&switch, "1").is_err() {
            for pid in &pids {
                // A process that ended meanwhile is what we want.
                let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(*pid), nix::sys::signal::SIGKILL);
            }
        }
        Ok(pids.is_empty())
    })
}

/// Removes a cgroup (given relative to the root) with all below it, in every hierarchy.
pub fn remove_everywhere(name: &str) -> Result<()> {
    for (_, root) in hierarchies()? {
        for dir in walk(&root.join(name)).into_iter().rev() {
            wait_until(
                &format!("{} can be removed", dir.display()),
                Duration::from_secs(10),
                || match fs::remove_dir(&dir) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => Ok(false),
                    _ => Ok(true),
                },
            )?;
        }
    }
    Ok(())
}

/// Whether any hierarchy has a cgroup of this name.
pub fn exists_anywhere(name: &str) -> Result<bool> {
    Ok(hierarchies()?.iter().any(|(_, root)| root.join(name).exists()))
}

/// A directory and all below it, parents first; empty if it is not there.
fn walk(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![dir.to_owned()];
    while let Some(dir) = waiting.pop() {
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        waiting.extend(entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()));
        found.push(dir);
    }
    found
}
