//! Builds the kernel object that this crate embeds, and takes its hash.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

fn main() -> Result<()> {
    let manifest_dir = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").context("not run by cargo")?);
    let workspace_root = manifest_dir.ancestors().nth(2).context("crate is not two levels below the workspace")?;
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").context("not run by cargo")?);
    for input in skep_ebpf_toolchain::inputs(workspace_root) {
        println!("cargo::rerun-if-changed={}", input.display());
    }
    let toolchain = skep_ebpf_toolchain::detect()?;
    let object = skep_ebpf_toolchain::build(&toolchain, workspace_root, &out_dir.join("kernel"))?;
    let content = fs::read(&object).context("read the kernel object")?;
    let hash: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
    println!("cargo::rustc-env=SKEP_EBPF_OBJECT_SHA256={hash}");
    let object = Path::new(&object).to_str().context("path of the kernel object is not UTF-8")?;
    println!("cargo::rustc-env=SKEP_EBPF_OBJECT={object}");
    Ok(())
}
