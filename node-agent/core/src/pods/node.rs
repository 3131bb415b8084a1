//! What pods are told about the node they run on.

/// Facts that do not change while the agent runs.
#[derive(Clone, Debug, Default)]
pub struct NodeFacts {
    /// The node's name.
    pub name: String,
    /// The node's addresses in text, the primary one first.
    pub addresses: Vec<String>,
    /// CPU that it has, in thousandths.
    pub cpu_milli: i64,
    /// Memory that it has, in bytes.
    pub memory_bytes: i64,
    /// The runtime's name, the scheme of container ids: `containerd`.
    pub runtime: String,
    /// cgroup that the runtime puts pods under; `None` leaves it to the runtime.
    pub cgroup_parent: Option<String>,
    /// Base directory of container logs.
    pub log_dir: String,
    /// Name servers of the cluster, and its domain.
    pub cluster_dns: Option<(Vec<String>, String)>,
    /// What the node's own resolver uses.
    pub resolver: super::Dns,
    /// The node's own `/etc/hosts`, which host-network pods see.
    pub hosts: String,
}
