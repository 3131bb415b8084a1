//! Runs programs whose output the person at the terminal should see.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use skep_tests::workspace;

/// cargo at the top of the tree.
pub(crate) fn cargo<const N: usize>(args: [&str; N]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(workspace::root());
    command
}

/// Runs to the end; an exit code other than 0 is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("cannot run {name}"))?;
    if !status.success() {
        let args: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
        bail!("{name} {} failed ({status})", args.join(" "));
    }
    Ok(())
}

/// Finds a program in PATH, or where cargo and Debian's system tools put theirs.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    let mut dirs: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
    dirs.extend(home.map(|home| home.join("bin")));
    dirs.extend(["/usr/sbin", "/sbin"].map(PathBuf::from));
    dirs.into_iter().map(|dir| dir.join(program)).find(|path| path.is_file())
}

/// Whether this process is root.
pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}
