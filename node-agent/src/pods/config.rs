//! What the pods of a node are started with.

use std::net::IpAddr;
use std::path::PathBuf;

use crate::dns::SettingsWatch;

/// The node's settings that concern pods.
#[derive(Clone, Debug)]
pub struct PodsConfig {
    /// `spec.nodeName` of the pods that run here.
    pub node_name: String,
    /// The node's addresses, the primary one first; `status.hostIPs` of its pods.
    pub node_addresses: Vec<IpAddr>,
    /// Unix socket of a CRI v1 runtime.
    pub cri_socket: PathBuf,
    /// Persistent directory; volumes and termination messages go to `pods/` in it.
    pub state_dir: PathBuf,
    /// Container logs: `{namespace}_{name}_{uid}/{container}/{attempt}.log` in it.
    pub pod_log_dir: PathBuf,
    /// cgroup that the runtime puts pods under, e.g. `/skep/pods`; `None` leaves it to the runtime.
    pub cgroup_parent: Option<String>,
    /// Name server that pods with `dnsPolicy: ClusterFirst` use, as it is when they start; `None`: they use the node's.
    pub cluster_dns: Option<SettingsWatch>,
    /// How many sandboxes may be in creation at the same time; creation costs the runtime most.
    pub sandbox_parallelism: usize,
}
