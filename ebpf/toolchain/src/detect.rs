use std::error::Error;
use std::ffi::OsStr;
use std::fmt::{Display, Formatter};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::TARGET;

/// A toolchain that can build the kernel object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    /// The `cargo` to run.
    pub cargo: PathBuf,
    /// The `rustc` that it is to use.
    pub rustc: PathBuf,
    /// The `bpf-linker` program.
    pub linker: PathBuf,
    /// Whether `core` has to be built from source.
    pub build_std: bool,
}

/// What is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The program or toolchain.
    pub what: &'static str,
    /// Commands that bring it.
    pub install: &'static str,
}

impl Display for Missing {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is missing; `cargo xtask setup` installs it, or by hand: {}", self.what, self.install)
    }
}

impl Error for Missing {}

/// Looks for a toolchain; starts `rustc` and `rustup` to ask them, and changes nothing.
///
/// # Errors
///
/// Names the first thing that is missing.
pub fn detect() -> Result<Toolchain, Missing> {
    let (cargo, rustc, build_std) = rustc_for_bpf().ok_or(Missing {
        what: "a Rust toolchain for BPF",
        install: "rustup toolchain install nightly --component rust-src \
                  (Debian: apt-get install rustc-web cargo-web libstd-rust-web-dev-bpf)",
    })?;
    let linker = find("bpf-linker").ok_or(Missing { what: "bpf-linker", install: "cargo install bpf-linker" })?;
    Ok(Toolchain { cargo, rustc, linker, build_std })
}

/// The `cargo` and `rustc` that compile for BPF, without the linker, and whether they need `-Z build-std`.
pub fn rustc_for_bpf() -> Option<(PathBuf, PathBuf, bool)> {
    rustup_nightly().or_else(with_bpf_core)
}

fn rustup_nightly() -> Option<(PathBuf, PathBuf, bool)> {
    let which = |program: &str| {
        output(Command::new("rustup").args(["which", "--toolchain", "nightly", program])).map(PathBuf::from)
    };
    let (cargo, rustc) = (which("cargo")?, which("rustc")?);
    let source = sysroot(&rustc)?.join("lib/rustlib/src/rust/library/core/Cargo.toml");
    source.is_file().then_some((cargo, rustc, true))
}

/// Any `rustc` whose own libraries include `core` for BPF, with the `cargo` beside it.
fn with_bpf_core() -> Option<(PathBuf, PathBuf, bool)> {
    let path = std::env::var_os("PATH")?;
    // Debian's programs are hidden behind rustup's proxies when both are installed: look at every one.
    std::env::split_paths(&path).find_map(|dir| {
        let (cargo, rustc) = (dir.join("cargo"), dir.join("rustc"));
        if !cargo.is_file() || !rustc.is_file() || is_rustup_proxy(&rustc) {
            return None;
        }
        let core = sysroot(&rustc)?.join("lib/rustlib").join(TARGET).join("lib");
        core.is_dir().then_some((cargo, rustc, false))
    })
}

/// rustup's programs are links to rustup itself, or have its name on them when asked for their version by path.
fn is_rustup_proxy(rustc: &Path) -> bool {
    let linked = rustc.canonicalize().is_ok_and(|path| path.file_stem() == Some(OsStr::new("rustup")));
    linked || rustc.with_file_name("rustup").is_file()
}

fn sysroot(rustc: &Path) -> Option<PathBuf> {
    output(Command::new(rustc).args(["--print", "sysroot"])).map(PathBuf::from)
}

/// What a program prints on one line, when it is there and succeeds.
fn output(command: &mut Command) -> Option<String> {
    let output = command.env_remove("RUSTUP_TOOLCHAIN").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.trim();
    (output.status.success() && !line.is_empty()).then(|| line.to_owned())
}

/// A program in PATH, or where `cargo install` puts it.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    std::env::split_paths(&path)
        .chain(cargo_home.into_iter().chain(home).map(|dir| dir.join("bin")))
        .map(|dir| dir.join(program))
        .find(|path| path.is_file())
}
