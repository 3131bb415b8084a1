//! Places in the source tree: where the programs are, and where clusters keep their files.

use std::path::PathBuf;

use anyhow::{Result, bail};

/// The top of the source tree.
pub fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Cargo's target directory.
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Directory of everything that clusters keep on disk; each has a directory of its name in it.
pub fn clusters_dir() -> PathBuf {
    root().join(".skep")
}

/// A program built by `cargo xtask build`.
pub fn program(name: &str) -> Result<PathBuf> {
    let path = target_dir().join("cluster").join(name);
    match path.canonicalize() {
        Ok(path) => Ok(path),
        Err(_) => bail!("{} is not built: run `cargo xtask build`", path.display()),
    }
}

/// The demo program: static, for the images.
pub fn demo_program() -> Result<PathBuf> {
    let path = target_dir().join(format!("{}-unknown-linux-gnu/cluster/skep-demo", std::env::consts::ARCH));
    match path.canonicalize() {
        Ok(path) => Ok(path),
        Err(_) => bail!("{} is not built: run `cargo xtask build`", path.display()),
    }
}
