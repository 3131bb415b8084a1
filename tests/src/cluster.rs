use std::path::Path;
use std::process::Output;

use anyhow::Result;

/// What to build.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Spec {
    /// Name of the cluster; part of the name of everything that is made for it.
    pub name: String,
    /// Number of nodes, named `node-1`, `node-2`...
    pub nodes: usize,
    /// Further arguments of every agent. With `--xdp=auto` or `--xdp=native` cables are made fit for it.
    #[serde(default)]
    pub agent_args: Vec<String>,
    /// Further arguments of the control service.
    #[serde(default)]
    pub control_args: Vec<String>,
}

impl Spec {
    /// A cluster of `nodes` nodes and nothing special.
    pub fn new(name: &str, nodes: usize) -> Self {
        Self { name: name.to_owned(), nodes, agent_args: Vec::new(), control_args: Vec::new() }
    }

    /// Names of the nodes.
    pub fn node_names(&self) -> impl Iterator<Item = String> + use<> {
        (1..=self.nodes).map(|number| format!("node-{number}"))
    }
}

/// A part of a cluster that can be killed and started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member<'a> {
    /// The control service.
    Control,
    /// The agent of a node.
    Agent(&'a str),
    /// The container runtime of a node (its containers go on).
    Runtime(&'a str),
}

/// A running cluster.
pub trait Cluster {
    /// Names of the nodes.
    fn nodes(&self) -> Vec<String>;

    /// Administrator's kubeconfig.
    fn kubeconfig(&self) -> &Path;

    /// Imports an OCI archive on every node.
    fn load_images(&self, archive: &Path) -> Result<()>;

    /// Runs a program in a node's namespaces.
    fn run_on_node(&self, node: &str, argv: &[&str]) -> Result<Output>;

    /// Ends a member with SIGKILL.
    fn kill(&self, member: Member<'_>) -> Result<()>;

    /// Starts a member that was killed. Does not wait for it to be ready.
    fn start(&self, member: Member<'_>) -> Result<()>;

    /// Process id of a member, `None` when it does not run.
    fn pid(&self, member: Member<'_>) -> Option<i32>;

    /// Takes a node's link down or up.
    fn set_link(&self, node: &str, up: bool) -> Result<()>;

    /// Removes everything that was made for the cluster.
    fn destroy(&self) -> Result<()>;
}
