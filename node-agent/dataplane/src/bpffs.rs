//! The BPF file system that pins live on.

use std::fs;
use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};

use crate::Error;

/// Where systems mount it.
const STANDARD: &str = "/sys/fs/bpf";

/// Makes the directory and sees to it that it is on a BPF file system. One is mounted at the standard place when the
/// directory is below it and none is mounted there; elsewhere that is the administrator's choice.
pub(crate) fn prepare(bpf_dir: &Path) -> Result<(), Error> {
    if bpf_dir.starts_with(STANDARD) && !is_bpffs(Path::new(STANDARD))? {
        mount(Some("bpf"), STANDARD, Some("bpf"), MsFlags::empty(), Some("mode=0700"))
            .map_err(|errno| Error::Io { path: STANDARD.into(), source: errno.into() })?;
        tracing::info!("mounted a BPF file system at {STANDARD}");
    }
    fs::create_dir_all(bpf_dir).map_err(|source| Error::Io { path: bpf_dir.to_owned(), source })?;
    if is_bpffs(bpf_dir)? { Ok(()) } else { Err(Error::NotBpfFs(bpf_dir.to_owned())) }
}

fn is_bpffs(path: &Path) -> Result<bool, Error> {
    let stat = statfs(path).map_err(|errno| Error::Io { path: path.to_owned(), source: errno.into() })?;
    Ok(stat.filesystem_type() == BPF_FS_MAGIC)
}
