//! kubectl, as a person would run it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// One kubectl binary against one cluster.
#[derive(Clone, Debug)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    namespace: Option<String>,
}

impl Kubectl {
    /// kubectl from PATH.
    pub fn new(kubeconfig: &Path) -> Self {
        Self { program: PathBuf::from("kubectl"), kubeconfig: kubeconfig.to_owned(), namespace: None }
    }

    /// Another binary.
    #[must_use]
    pub fn with_program(mut self, program: &Path) -> Self {
        program.clone_into(&mut self.program);
        self
    }

    /// Another default namespace.
    #[must_use]
    pub fn with_namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// A command line split at spaces, not yet started.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.env("KUBECONFIG", &self.kubeconfig).stdin(Stdio::null());
        if let Some(namespace) = &self.namespace {
            command.args(["--namespace", namespace]);
        }
        command.args(line.split_whitespace());
        command
    }

    /// Runs and returns everything, whatever the exit code.
    pub fn output(&self, line: &str) -> Result<Output> {
        crate::command::output(&mut self.command(line))
    }

    /// Runs and returns standard output; fails with standard error.
    pub fn run(&self, line: &str) -> Result<String> {
        crate::command::run(&mut self.command(line))
    }

    /// Runs with further arguments that may hold spaces.
    pub fn run_with(&self, line: &str, args: &[&str]) -> Result<String> {
        crate::command::run(self.command(line).args(args))
    }

    /// Runs with a manifest on standard input.
    pub fn feed(&self, line: &str, manifest: &str) -> Result<String> {
        let output = self.feed_output(line, manifest)?;
        if !output.status.success() {
            bail!("kubectl {line} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs with a manifest on standard input and returns everything, whatever the exit code.
    pub fn feed_output(&self, line: &str, manifest: &str) -> Result<Output> {
        use std::io::Write as _;
        let mut command = self.command(line);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot run kubectl")?;
        child.stdin.take().context("kubectl has no standard input")?.write_all(manifest.as_bytes())?;
        Ok(child.wait_with_output()?)
    }

    /// Runs with `-o json` and parses.
    pub fn json(&self, line: &str) -> Result<Value> {
        Ok(serde_json::from_str(&self.run(&format!("{line} -o json"))?)?)
    }
}

/// The oldest and the newest kubectl at hand: those in PATH and beside them, and what `cargo xtask test` unpacked.
pub fn programs() -> Result<Vec<PathBuf>> {
    let mut found: Vec<(Vec<u32>, PathBuf)> = Vec::new();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    dirs.push(crate::workspace::target_dir().join("kubernetes-client/usr/bin"));
    // A dispatcher's versioned programs are beside the program that its link in PATH leads to.
    let real = |dir: &PathBuf| dir.join("kubectl").canonicalize().ok()?.parent().map(Path::to_owned);
    dirs.extend(dirs.iter().filter_map(real).collect::<Vec<_>>());
    for dir in dirs {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == "kubectl" || name.starts_with("kubectl.1.") {
                found.extend(version(&entry.path()).map(|version| (version, entry.path())));
            }
        }
    }
    found.sort();
    let (Some(oldest), Some(newest)) = (found.first(), found.last()) else { bail!("there is no kubectl") };
    Ok(if oldest.0 == newest.0 { vec![newest.1.clone()] } else { vec![oldest.1.clone(), newest.1.clone()] })
}

/// Major and minor version of a kubectl; `None` for what is none.
fn version(program: &Path) -> Option<Vec<u32>> {
    let output = Command::new(program).args(["version", "--client", "-o", "json"]).output().ok()?;
    let version: Value = serde_json::from_slice(&output.stdout).ok()?;
    let number = |field: &str| {
        let text = version["clientVersion"][field].as_str()?;
        text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok()
    };
    Some(vec![number("major")?, number("minor")?])
}
