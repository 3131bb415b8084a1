use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{TARGET, Toolchain};

/// Variables by which an outer cargo, rustup or the user steer *their* compilation; none may reach this one.
const OUTER_VARIABLES: &[&str] = &[
    "CARGO",
    "CARGO_BUILD_",
    "CARGO_CFG_",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_FEATURE_",
    "CARGO_INCREMENTAL",
    "CARGO_MANIFEST_",
    "CARGO_PKG_",
    "CARGO_PRIMARY_PACKAGE",
    "CARGO_PROFILE_",
    "CARGO_TARGET_",
    "CARGO_UNSTABLE_",
    "RUSTC",
    "RUSTC_",
    "RUSTDOC",
    "RUSTDOCFLAGS",
    "RUSTFLAGS",
    "RUSTUP_TOOLCHAIN",
    "RUST_RECURSION_COUNT",
    "CLIPPY_ARGS",
    "__CARGO_",
];

/// Builds the kernel object and gives its path below `target_dir`.
///
/// `target_dir` must not be the target directory of a cargo that waits for this call, or both wait for ever.
///
/// # Errors
///
/// When cargo cannot be started or does not succeed; what it printed is part of the error.
pub fn build(toolchain: &Toolchain, workspace_root: &Path, target_dir: &Path) -> Result<PathBuf> {
    let mut command = Command::new(&toolchain.cargo);
    command.current_dir(workspace_root);
    for (name, _) in env::vars_os().filter(|(name, _)| is_outer(name)) {
        command.env_remove(name);
    }
    command.args(["build", "--quiet", "--locked", "--package", "skep-ebpf", "--release", "--target", TARGET]);
    command.arg("--target-dir").arg(target_dir);
    if toolchain.build_std {
        command.args(["-Z", "build-std=core"]);
    }
    command
        .env("PATH", search_path(toolchain)?)
        .env("RUSTC", &toolchain.rustc)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", flags().join("\u{1f}"))
        // One unit and full optimisation: the verifier sees what is left. Debug information becomes the object's BTF.
        .envs([
            ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1"),
            ("CARGO_PROFILE_RELEASE_DEBUG", "2"),
            ("CARGO_PROFILE_RELEASE_LTO", "off"),
            ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "3"),
            ("CARGO_PROFILE_RELEASE_PANIC", "abort"),
            ("CARGO_PROFILE_RELEASE_STRIP", "none"),
        ]);
    let output = command.output().with_context(|| format!("cannot start {}", toolchain.cargo.display()))?;
    if !output.status.success() {
        bail!(
            "{} could not build the kernel object ({}):\n{}",
            toolchain.cargo.display(),
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let object = target_dir.join(TARGET).join("release/skep-ebpf");
    if !object.is_file() {
        bail!("cargo succeeded but {} is not there", object.display());
    }
    Ok(object)
}

/// Files and directories that the object is made of, for `cargo::rerun-if-changed`.
pub fn inputs(workspace_root: &Path) -> Vec<PathBuf> {
    ["ebpf/Cargo.toml", "ebpf/src", "ebpf/abi", "ebpf/verdict/Cargo.toml", "ebpf/verdict/src"]
        .into_iter()
        .map(|path| workspace_root.join(path))
        .collect()
}

fn flags() -> [String; 3] {
    // aya names kernel architectures as rustc does, but for this one family.
    let arch = match env::consts::ARCH {
        "riscv64" => "riscv64gc",
        other => other,
    };
    [format!("--cfg=bpf_target_arch=\"{arch}\""), "-Cdebuginfo=2".to_owned(), "-Clink-arg=--btf".to_owned()]
}

fn is_outer(name: &OsString) -> bool {
    let Some(name) = name.to_str() else { return false };
    OUTER_VARIABLES.iter().any(|outer| if outer.ends_with('_') { name.starts_with(outer) } else { name == *outer })
}

/// PATH with the linker first, because rustc calls it by name.
fn search_path(toolchain: &Toolchain) -> Result<OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    let linker_dir = toolchain.linker.parent().map(Path::to_path_buf);
    env::join_paths(linker_dir.into_iter().chain(env::split_paths(&path))).context("PATH holds a separator")
}
