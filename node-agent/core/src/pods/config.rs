//! What the runtime is asked for, in CRI's terms but free of its generated types.

use std::collections::BTreeMap;

/// Name servers and how names are completed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Dns {
    /// Addresses.
    pub servers: Vec<String>,
    /// Search domains.
    pub searches: Vec<String>,
    /// E.g. `ndots:5`.
    pub options: Vec<String>,
}

/// A pod's sandbox.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SandboxConfig {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.uid`.
    pub uid: String,
    /// How many sandboxes the pod had before; the runtime keeps names unique by it.
    pub attempt: u32,
    /// Host name inside; empty for the node's.
    pub hostname: String,
    /// Directory of the pod's container logs.
    pub log_directory: String,
    /// Content of `/etc/resolv.conf`.
    pub dns: Dns,
    /// Ports, for CNI plugins that map them.
    pub ports: Vec<PortMapping>,
    /// Labels, the `io.kubernetes.*` ones that tools filter by included.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// cgroup above the pod's; empty for the runtime's default.
    pub cgroup_parent: String,
    /// Kernel settings of its namespaces.
    pub sysctls: BTreeMap<String, String>,
    /// Which namespaces it has of its own.
    pub namespaces: Namespaces,
    /// Some container is privileged.
    pub privileged: bool,
    /// User, groups and seccomp of the sandbox's own process.
    pub security: Security,
    /// `runtimeClassName`; empty for the default.
    pub runtime_handler: String,
}

/// A container port.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PortMapping {
    /// Layer 4 protocol.
    pub protocol: Protocol,
    /// Port inside.
    pub container_port: i32,
    /// Port of the node, 0 for none.
    pub host_port: i32,
    /// Address of the node, empty for all.
    pub host_ip: String,
}

/// Layer 4 protocols that pods can declare.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// Whose namespaces a pod's processes are in.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Namespaces {
    /// The node's network.
    pub host_network: bool,
    /// Who sees whose processes.
    pub pid: PidNamespace,
    /// The node's IPC objects.
    pub host_ipc: bool,
}

/// Who sees whose processes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum PidNamespace {
    /// Each container sees its own.
    #[default]
    Container,
    /// The containers of the pod see each other's.
    Pod,
    /// All of the node's.
    Host,
}

/// System call filter.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Seccomp {
    /// No filter; Kubernetes' default.
    #[default]
    Unconfined,
    /// The runtime's.
    RuntimeDefault,
    /// A profile below the node's profile directory.
    Localhost(String),
}

/// Rights of a process.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Security {
    /// User id; `None` is the image's.
    pub user: Option<i64>,
    /// Group id; `None` is the image's.
    pub group: Option<i64>,
    /// Further groups.
    pub supplemental_groups: Vec<i64>,
    /// Capabilities to add.
    pub add_capabilities: Vec<String>,
    /// Capabilities to drop.
    pub drop_capabilities: Vec<String>,
    /// All rights of the node's root.
    pub privileged: bool,
    /// The image cannot be written to.
    pub readonly_rootfs: bool,
    /// Programs that it starts get no more rights (`allowPrivilegeEscalation: false`).
    pub no_new_privileges: bool,
    /// Files of /proc and /sys that are hidden.
    pub masked_paths: Vec<String>,
    /// Files of /proc that cannot be written to.
    pub readonly_paths: Vec<String>,
    /// System call filter.
    pub seccomp: Seccomp,
}

/// Limits of a container's cgroup.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Resources {
    /// Microseconds of a scheduling period; 0 leaves CPU unlimited.
    pub cpu_period: i64,
    /// Microseconds of CPU in a period.
    pub cpu_quota: i64,
    /// Relative weight, 1024 a core.
    pub cpu_shares: i64,
    /// Bytes; 0 is unlimited.
    pub memory_limit: i64,
    /// -1000 (never killed) to 1000.
    pub oom_score_adj: i64,
}

/// A container.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ContainerConfig {
    /// Its name in the pod.
    pub name: String,
    /// How often it was started before.
    pub attempt: u32,
    /// The image as the runtime knows it.
    pub image: String,
    /// The image as the pod names it.
    pub user_image: String,
    /// Replaces the image's entry point unless empty.
    pub command: Vec<String>,
    /// Replaces the image's arguments unless empty.
    pub args: Vec<String>,
    /// Directory; empty for the image's.
    pub working_dir: String,
    /// Environment.
    pub environment: Vec<(String, String)>,
    /// Mounts.
    pub mounts: Vec<Mount>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Log file below the sandbox's log directory.
    pub log_path: String,
    /// Keeps standard input open.
    pub stdin: bool,
    /// Closes it after the first client.
    pub stdin_once: bool,
    /// Gives it a terminal.
    pub tty: bool,
    /// Limits.
    pub resources: Resources,
    /// Whose namespaces.
    pub namespaces: Namespaces,
    /// Rights.
    pub security: Security,
    /// Content of `/etc/hosts`, to be written before the container is made.
    pub hosts: String,
}

/// Something of the node that a container sees.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mount {
    /// Absolute path inside.
    pub container_path: String,
    /// What is there.
    pub source: MountSource,
    /// It cannot be written to.
    pub readonly: bool,
    /// Which later mounts are seen on the other side.
    pub propagation: Propagation,
}

/// What a mount shows.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum MountSource {
    /// A volume of the pod, or a part of it.
    Volume {
        /// `volumes[].name`.
        name: String,
        /// Relative path in it; empty for all of it.
        sub_path: String,
    },
    /// A path of the node.
    Host(String),
    /// The pod's own hosts file.
    Hosts,
    /// The file that the container may leave a last message in.
    TerminationMessage,
}

/// Which later mounts are seen on the other side.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Propagation {
    /// None.
    #[default]
    Private,
    /// The container sees those of the node.
    HostToContainer,
    /// And the node those of the container.
    Bidirectional,
}
