//! One node: its namespaces, its container runtime, its agent.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::process::{Place, Process, enter_node};
use crate::cluster::Spec;
use crate::command::{command, output, run, wait_until};
use crate::{image, workspace};

const RUNTIME_SOCKET: &str = "/run/containerd/containerd.sock";

/// Everything that is known of a node from its name alone.
pub(super) struct Node<'a> {
    pub(super) name: &'a str,
    pub(super) addresses: [String; 2],
    /// Prefix of everything that belongs to the cluster.
    pub(super) prefix: &'a str,
    /// The cluster's directory.
    pub(super) cluster_dir: &'a Path,
    pub(super) control_address: String,
    pub(super) spec: &'a Spec,
    pub(super) cgroup_root: &'a Path,
}

impl Node<'_> {
    pub(super) fn dir(&self) -> PathBuf {
        self.cluster_dir.join("nodes").join(self.name)
    }

    /// The node's cgroup, relative to the root. Its programs are in leaves of it: cgroup2 wants no process beside a child.
    fn cgroup(&self) -> String {
        format!("{}/{}", self.prefix, self.name)
    }

    /// Where the runtime puts containers.
    pub(super) fn pods_cgroup(&self) -> PathBuf {
        self.cgroup_root.join(self.cgroup()).join("pods")
    }

    /// Where tests run programs of the node that are no pods.
    pub(super) fn tools_cgroup(&self) -> PathBuf {
        self.cgroup_root.join(self.cgroup()).join("tools")
    }

    fn process(&self, name: &'static str, leaf: &str) -> Process {
        Process {
            name,
            cgroup: self.cgroup_root.join(self.cgroup()).join(leaf),
            log: self.dir().join(format!("{leaf}.log")),
        }
    }

    fn holder(&self) -> Process {
        self.process("sleep", "holder")
    }

    pub(super) fn runtime(&self) -> Process {
        self.process("containerd", "runtime")
    }

    pub(super) fn agent(&self) -> Process {
        self.process("skep-agent", "agent")
    }

    fn holder_pid(&self) -> Result<i32> {
        self.holder().pid().with_context(|| format!("node {} does not run", self.name))
    }

    /// Makes the namespaces: /run, bpffs and the host name are the node's own.
    pub(super) fn start_holder(&self) -> Result<()> {
        fs::create_dir_all(self.dir())?;
        let script = format!(
            "hostname {} && mount -t tmpfs -o mode=755 skep-run /run && mount -t bpf skep-bpf /sys/fs/bpf && exec sleep infinity",
            self.name
        );
        let netns = format!("{}-{}", self.prefix, self.name);
        let argv = ["unshare", "--mount", "--uts", "--propagation", "private", "sh", "-c", &script];
        self.holder().start(Place::Netns(&netns), &argv)
    }

    /// Starts containerd. Its sockets and state are in the private /run, its images in the node's directory.
    pub(super) fn start_runtime(&self) -> Result<()> {
        let dir = self.dir();
        let config = dir.join("containerd.toml");
        fs::write(&config, runtime_config(&dir)?)?;
        let argv = ["containerd".as_ref(), "--config".as_ref(), config.as_os_str()];
        self.runtime().start(Place::Node(self.holder_pid()?), &argv)
    }

    /// Waits until the runtime answers.
    pub(super) fn wait_for_runtime(&self) -> Result<()> {
        wait_until(&format!("containerd on {} answers", self.name), Duration::from_secs(20), || {
            Ok(self.run(&["ctr", "--address", RUNTIME_SOCKET, "version"])?.status.success())
        })
        .with_context(|| self.runtime().log_tail())
    }

    /// Imports an archive into the namespace that CRI uses.
    pub(super) fn import(&self, archive: &Path) -> Result<()> {
        let mut argv = vec!["nsenter".to_owned()];
        argv.extend(enter_node(self.holder_pid()?));
        argv.extend(
            ["ctr", "--address", RUNTIME_SOCKET, "--namespace", "k8s.io", "images", "import"].map(str::to_owned),
        );
        run(command(&argv[0], &argv[1..]).arg(archive)).map(drop)
    }

    /// Starts the agent.
    pub(super) fn start_agent(&self) -> Result<()> {
        let dir = self.dir();
        let path = |name: &str| dir.join(name).to_string_lossy().into_owned();
        let cgroup = self.cgroup_root.join(self.cgroup());
        let mut argv = vec![
            workspace::program("skep-agent")?.to_string_lossy().into_owned(),
            format!("--node-name={}", self.name),
            format!("--control={}:6443", self.control_address),
            format!("--pki-dir={}", path("pki")),
            format!("--state-dir={}", path("state")),
            format!("--cri-socket={RUNTIME_SOCKET}"),
            format!("--cgroup={}", cgroup.display()),
            format!("--cgroup-parent=/{}/pods", self.cgroup()),
            format!("--cni-conf-dir={}", path("cni-conf")),
            format!("--cni-bin-dir={}", path("cni-bin")),
            format!("--pod-log-dir={}", path("pod-logs")),
        ];
        argv.extend(self.addresses.iter().map(|address| format!("--node-address={address}")));
        argv.extend(self.spec.agent_args.iter().cloned());
        self.agent().start(Place::Node(self.holder_pid()?), &argv)
    }

    /// Whether the agent may put XDP on the node's side of its cable.
    fn wants_xdp(&self) -> bool {
        self.spec.agent_args.iter().any(|arg| arg.starts_with("--xdp=") && arg != "--xdp=off")
    }

    /// Issues the node's certificate, once.
    pub(super) fn issue_certificate(&self, data_dir: &Path) -> Result<()> {
        let out = self.dir().join("pki");
        if out.join("node.crt").exists() {
            return Ok(());
        }
        let mut issue = command(workspace::program("skep-control")?, ["node-cert", self.name]);
        issue.arg("--data-dir").arg(data_dir).arg("--out").arg(out);
        for address in &self.addresses {
            issue.args(["--address", address]);
        }
        run(&mut issue).map(drop)
    }

    /// Runs a program in the node's namespaces to its end.
    pub(super) fn run(&self, argv: &[&str]) -> Result<Output> {
        let mut nsenter = command("nsenter", enter_node(self.holder_pid()?));
        nsenter.args(argv);
        output(&mut nsenter)
    }

    /// The arguments of nsenter that lead into the node.
    pub(super) fn enter(&self) -> Result<Vec<String>> {
        Ok(enter_node(self.holder_pid()?))
    }

    /// Makes the node as far as its runtime, with the images.
    pub(super) fn prepare(&self, data_dir: &Path, images: &Path) -> Result<()> {
        if self.holder().pid().is_none() {
            super::network::add_node(self.prefix, self.name, &self.addresses)?;
            if self.wants_xdp() {
                super::offload::fit_for_xdp(&format!("{}-net", self.prefix), self.name)?;
            }
            self.start_holder()?;
        }
        if self.runtime().pid().is_none() {
            self.start_runtime()?;
        }
        self.issue_certificate(data_dir)?;
        self.wait_for_runtime()?;
        self.import(images)
    }
}

/// containerd's configuration, version 2 (containerd 1.x reads it, 2.x migrates it).
fn runtime_config(dir: &Path) -> Result<String> {
    // An overlay cannot be stacked on an overlay; there, layers are copied.
    let snapshotter = match nix::sys::statfs::statfs(dir)?.filesystem_type() {
        nix::sys::statfs::OVERLAYFS_SUPER_MAGIC => "native",
        _ => "overlayfs",
    };
    let dir = dir.display();
    let pause = image::PAUSE;
    Ok(format!(
        r#"version = 2
root = "{dir}/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt"]

[grpc]
address = "{RUNTIME_SOCKET}"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
# Without CAP_SYS_RESOURCE a score below the runtime's own cannot be set.
restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{dir}/cni-bin"
conf_dir = "{dir}/cni-conf"

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "{snapshotter}"
default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"#
    ))
}
