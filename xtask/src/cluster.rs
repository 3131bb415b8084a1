//! `up`, `down` and `exec`.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use skep_tests::namespaces::NamespaceCluster;
use skep_tests::{Cluster as _, Spec, workspace};

use crate::shell::{find, is_root};
use crate::{build, setup};

#[derive(Args)]
pub(crate) struct Up {
    /// Number of nodes
    #[arg(long, default_value_t = 2)]
    nodes: usize,
    /// Name of the cluster
    #[arg(long, default_value = "dev")]
    name: String,
    /// The programs are built already
    #[arg(long, hide = true)]
    no_build: bool,
    /// Further argument of every agent; may be repeated
    #[arg(long = "agent-arg", allow_hyphen_values = true)]
    agent_args: Vec<String>,
    /// Further argument of the control service; may be repeated
    #[arg(long = "control-arg", allow_hyphen_values = true)]
    control_args: Vec<String>,
}

#[derive(Args)]
pub(crate) struct Down {
    /// Name of the cluster
    #[arg(long, default_value = "dev")]
    name: String,
}

#[derive(Args)]
pub(crate) struct Exec {
    /// Name of the cluster
    #[arg(long, default_value = "dev")]
    name: String,
    /// The node, `node-1` for example
    node: String,
    /// Program and arguments
    #[arg(required = true, last = true)]
    argv: Vec<OsString>,
}

impl Up {
    pub(crate) fn run(&self) -> Result<()> {
        if !self.no_build {
            let begin = Instant::now();
            setup::install(setup::For::Running)?;
            println!("setup     {:>7.1} s", begin.elapsed().as_secs_f64());
            let begin = Instant::now();
            build::all()?;
            println!("build     {:>7.1} s", begin.elapsed().as_secs_f64());
        }
        // Building is done as the user, so that the target directory stays theirs; namespaces need root.
        as_root(&["--no-build"])?;
        let begin = Instant::now();
        let spec = Spec {
            agent_args: self.agent_args.clone(),
            control_args: self.control_args.clone(),
            ..Spec::new(&self.name, self.nodes)
        };
        let running = NamespaceCluster::open(&self.name)?
            .filter(|cluster| *cluster.spec() == spec && cluster.is_running())
            .filter(|cluster| cluster.wait_ready(Duration::from_secs(2)).is_ok());
        let cluster = match running {
            Some(cluster) => {
                println!("cluster {} is up already: nothing changed", self.name);
                cluster
            }
            None => {
                let mut progress = |what: &str, took: Duration| println!("{what:<10}{:>7.1} s", took.as_secs_f64());
                let cluster = NamespaceCluster::up(spec, &mut progress)?;
                println!("cluster {} is up: {} nodes, {:.1} s", self.name, self.nodes, begin.elapsed().as_secs_f64());
                cluster
            }
        };
        let programs = workspace::target_dir().join("cluster").canonicalize()?;
        println!("export KUBECONFIG={}", cluster.kubeconfig().display());
        println!("export PATH={}:$PATH", programs.display());
        Ok(())
    }
}

impl Down {
    pub(crate) fn run(&self) -> Result<()> {
        as_root(&[])?;
        NamespaceCluster::clear(&self.name)?;
        let remains = NamespaceCluster::remains(&self.name)?;
        if !remains.is_empty() {
            bail!("could not remove: {}", remains.join(", "));
        }
        println!("cluster {} is gone", self.name);
        Ok(())
    }
}

impl Exec {
    pub(crate) fn run(&self) -> Result<()> {
        as_root(&[])?;
        let cluster = NamespaceCluster::open(&self.name)?
            .with_context(|| format!("there is no cluster {}: `cargo xtask up` makes one", self.name))?;
        let programs = workspace::target_dir().join("cluster").canonicalize()?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let dirs = std::iter::once(programs).chain(std::env::split_paths(&path));
        let mut command = Command::new("nsenter");
        command.args(cluster.enter(&self.node)?).args(&self.argv).env("PATH", std::env::join_paths(dirs)?);
        Err(command.exec()).context("cannot run nsenter")
    }
}

/// Goes on as root: the same command line again, through sudo. Returns only if this is root already.
pub(crate) fn as_root(further: &[&str]) -> Result<()> {
    if is_root() {
        return Ok(());
    }
    if find("sudo").is_none() {
        bail!("namespaces, cgroups and BPF need root, and there is no sudo: run this as root");
    }
    let mut command = Command::new("sudo");
    // sudo drops the environment; these few decide where things are.
    for name in ["PATH", "CARGO", "CARGO_HOME", "CARGO_TARGET_DIR", "HOME"] {
        if let Some(value) = std::env::var_os(name) {
            let mut assignment = OsString::from(format!("{name}="));
            assignment.push(value);
            command.arg(assignment);
        }
    }
    command.arg(std::env::current_exe()?).args(std::env::args_os().skip(1));
    command.args(further.iter().filter(|argument| !std::env::args_os().any(|given| given == **argument)));
    Err(command.exec()).context("cannot run sudo")
}
