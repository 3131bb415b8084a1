//! A cluster in which a node is a set of Linux namespaces and a cgroup.
//!
//! Whatever belongs to a cluster carries its prefix, `skep-<tree>-<name>`: network namespaces, the cgroup, the alias of the link
//! to the machine. `<tree>` stands for this source tree, so that two of them never take each other's clusters for
//! leftovers. The rest is in the directory `.skep/<name>`, and goes with it.

mod network;
mod node;
mod offload;
mod process;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use self::node::Node;
use self::process::{Place, Process};
use crate::cluster::{Cluster, Member, Spec};
use crate::command::command;
use crate::kubectl::Kubectl;
use crate::{cgroup, image, workspace};

/// What is written down of a cluster.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    spec: Spec,
    /// Number of the network, 1 to 200.
    index: u8,
}

/// A cluster on this machine. See the module's description.
#[derive(Debug)]
pub struct NamespaceCluster {
    record: Record,
    dir: PathBuf,
    prefix: String,
    cgroup_root: PathBuf,
    kubeconfig: PathBuf,
}

/// A machine that is no part of the cluster.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Name of its network namespace.
    pub netns: String,
    /// IPv4 and IPv6.
    pub addresses: [String; 2],
}

impl Machine {
    /// A program on it.
    pub fn command(&self, argv: &[&str]) -> Command {
        in_namespace(&self.netns, argv)
    }
}

fn in_namespace(netns: &str, argv: &[&str]) -> Command {
    let mut nsenter = command("nsenter", [format!("--net=/run/netns/{netns}")]);
    nsenter.args(argv);
    nsenter
}

/// Last part of the name of the machine outside the cluster.
const OUTSIDE: &str = "outside";

/// Told about each step that ended, and how long it took.
pub type Progress<'a> = &'a mut dyn FnMut(&str, Duration);

impl NamespaceCluster {
    /// Makes the cluster, or completes what is there of it; a cluster that is complete is left as it is.
    pub fn up(spec: Spec, progress: Progress<'_>) -> Result<Self> {
        check_name(&spec.name)?;
        if spec.nodes == 0 || spec.nodes > 100 {
            bail!("--nodes must be between 1 and 100, not {}", spec.nodes);
        }
        let mut clock = Instant::now();
        let mut step = |what: &str| {
            progress(what, clock.elapsed());
            clock = Instant::now();
        };
        let cluster = match Self::open(&spec.name)? {
            Some(cluster) if cluster.record.spec == spec => cluster,
            Some(_) => bail!("cluster {0} exists with other settings: `cargo xtask down --name {0}` first", spec.name),
            None => {
                // What an earlier run left of this name, it left without a record.
                Self::clear(&spec.name)?;
                Self::create(spec)?
            }
        };
        step("network");
        let images = workspace::target_dir().join("cluster/images.tar");
        image::build(&workspace::demo_program()?, &images)?;
        step("images");
        cluster.start_control()?;
        step("control");
        cluster.start_nodes(&images)?;
        step("nodes");
        cluster.wait_ready(Duration::from_secs(60))?;
        step("Ready");
        Ok(cluster)
    }

    /// A cluster that was made earlier, `None` if there is none of this name.
    pub fn open(name: &str) -> Result<Option<Self>> {
        check_name(name)?;
        let dir = workspace::clusters_dir().join(name);
        let text = match fs::read(dir.join("cluster.json")) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).context("cannot read the cluster's record"),
        };
        let record = serde_json::from_slice(&text).context("the cluster's record is damaged: cargo xtask down")?;
        Ok(Some(Self::with_record(name, record)?))
    }

    fn create(spec: Spec) -> Result<Self> {
        let name = spec.name.clone();
        let dir = workspace::clusters_dir().join(&name);
        fs::create_dir_all(&dir)?;
        let index = network::create(&prefix(&name)?)?;
        let record = Record { spec, index };
        fs::write(dir.join("cluster.json"), serde_json::to_vec_pretty(&record)?)?;
        Self::with_record(&name, record)
    }

    fn with_record(name: &str, record: Record) -> Result<Self> {
        let dir = workspace::clusters_dir().join(name).canonicalize()?;
        let kubeconfig = dir.join("kubeconfig");
        Ok(Self { record, dir, prefix: prefix(name)?, cgroup_root: cgroup::v2_root()?, kubeconfig })
    }

    /// Removes what there is of a cluster by its name alone. Nothing there is no error.
    pub fn clear(name: &str) -> Result<()> {
        check_name(name)?;
        let prefix = prefix(name)?;
        cgroup::kill_all(&cgroup::v2_root()?.join(&prefix))?;
        network::remove(&prefix)?;
        cgroup::remove_everywhere(&prefix)?;
        let dir = workspace::clusters_dir().join(name);
        match fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", dir.display()));
            }
            _ => {}
        }
        // The last cluster takes the directory with it; another one's is not empty.
        match fs::remove_dir(workspace::clusters_dir()) {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// What is left on the machine of a cluster: nothing, after [`Cluster::destroy`].
    pub fn remains(name: &str) -> Result<Vec<String>> {
        let prefix = prefix(name)?;
        let mut found = network::namespaces(&prefix)?;
        found.extend(network::host_links(&prefix)?);
        if cgroup::exists_anywhere(&prefix)? {
            found.push(format!("cgroup {prefix}"));
        }
        let dir = workspace::clusters_dir().join(name);
        if dir.exists() {
            found.push(dir.display().to_string());
        }
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let needle = format!("/.skep/{name}/");
        found.extend(mounts.lines().filter(|line| line.contains(&needle) || line.contains(&prefix)).map(str::to_owned));
        for entry in fs::read_dir("/proc")?.flatten() {
            // A process may end while it is looked at.
            let cgroups = fs::read_to_string(entry.path().join("cgroup")).unwrap_or_default();
            let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
            // One that has ended and waits for init to notice holds nothing any more.
            if cgroups.contains(&prefix) && !status.contains("State:\tZ") {
                found.push(format!("process {}", entry.file_name().to_string_lossy()));
            }
        }
        Ok(found)
    }

    /// Whether every program of the cluster runs.
    pub fn is_running(&self) -> bool {
        self.control().pid().is_some()
            && self.spec().node_names().all(|name| {
                self.node(&name).is_ok_and(|node| node.agent().pid().is_some() && node.runtime().pid().is_some())
            })
    }

    /// What the cluster was made from.
    pub fn spec(&self) -> &Spec {
        &self.record.spec
    }

    /// kubectl for this cluster.
    pub fn kubectl(&self) -> Kubectl {
        Kubectl::new(&self.kubeconfig)
    }

    /// Arguments of nsenter that lead into a node.
    pub fn enter(&self, node: &str) -> Result<Vec<String>> {
        self.node(node)?.enter()
    }

    /// Directory of the cluster's files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The cgroup2 directory in which a node's containers have theirs, each named by its id.
    pub fn pods_cgroup(&self, node: &str) -> Result<PathBuf> {
        Ok(self.node(node)?.pods_cgroup())
    }

    /// Addresses of a node, IPv4 and IPv6.
    pub fn node_addresses(&self, node: &str) -> Result<[String; 2]> {
        Ok(self.node(node)?.addresses)
    }

    /// Makes a machine on the nodes' network that is no part of the cluster; it goes with the cluster. `number` makes its
    /// addresses, 1 to 20.
    pub fn add_machine(&self, name: &str, number: u8) -> Result<Machine> {
        let addresses = network::Plan::new(self.record.index).machine(number);
        network::add_node(&self.prefix, name, &addresses)?;
        Ok(Machine { netns: format!("{}-{name}", self.prefix), addresses })
    }

    /// Makes the machine that [`NamespaceCluster::outside_command`] runs programs on. Returns its addresses, IPv4 and IPv6.
    pub fn add_outside(&self) -> Result<[String; 2]> {
        self.add_machine(OUTSIDE, 1).map(|machine| machine.addresses)
    }

    /// A program on the machine that [`NamespaceCluster::add_outside`] made.
    pub fn outside_command(&self, argv: &[&str]) -> Command {
        in_namespace(&format!("{}-{OUTSIDE}", self.prefix), argv)
    }

    /// Ranges of the nodes' network that nobody uses, for load balancer addresses: IPv4 and IPv6.
    pub fn load_balancer_ranges(&self) -> [String; 2] {
        network::Plan::new(self.record.index).load_balancers()
    }

    /// A program on a node beside the pods, in a cgroup of the node's, where the socket hooks see it.
    pub fn host_command(&self, node: &str, argv: &[&str]) -> Result<Command> {
        let node = self.node(node)?;
        let cgroup = node.tools_cgroup();
        fs::create_dir_all(&cgroup)?;
        let script = r#"echo $$ > "$0/cgroup.procs" && exec nsenter "$@""#;
        let mut shell = command("bash", ["-c", script]);
        shell.arg(cgroup).args(node.enter()?).args(argv);
        Ok(shell)
    }

    /// Address of the API server.
    pub fn control_address(&self) -> String {
        network::Plan::new(self.record.index).control()
    }

    fn data_dir(&self) -> PathBuf {
        self.dir.join("control")
    }

    fn control(&self) -> Process {
        Process {
            name: "skep-control",
            cgroup: self.cgroup_root.join(&self.prefix).join("control"),
            log: self.dir.join("control.log"),
        }
    }

    fn node<'a>(&'a self, name: &'a str) -> Result<Node<'a>> {
        let position = self.spec().node_names().position(|known| known == name);
        let number = position.with_context(|| format!("there is no node {name}"))? + 1;
        let plan = network::Plan::new(self.record.index);
        Ok(Node {
            name,
            addresses: plan.node(number),
            prefix: &self.prefix,
            cluster_dir: &self.dir,
            control_address: plan.control(),
            spec: self.spec(),
            cgroup_root: &self.cgroup_root,
        })
    }

    /// Starts the control service unless it runs, and waits until it serves.
    fn start_control(&self) -> Result<()> {
        if self.control().pid().is_none() {
            self.launch_control()?;
        }
        let address = format!("{}:6443", self.control_address());
        // The port is bound before the certificates are made.
        let kubeconfig = self.data_dir().join("admin.kubeconfig");
        crate::command::wait_until("the control service listens", Duration::from_secs(20), || {
            Ok(kubeconfig.exists() && std::net::TcpStream::connect(&address).is_ok())
        })
        .with_context(|| self.control().log_tail())?;
        self.publish_kubeconfig()
    }

    fn launch_control(&self) -> Result<()> {
        let mut argv = vec![
            workspace::program("skep-control")?.to_string_lossy().into_owned(),
            "serve".to_owned(),
            format!("--data-dir={}", self.data_dir().display()),
            format!("--listen={}:6443", self.control_address()),
            "--service-cidr=10.96.0.0/16,fd53:6b65:7073::/112".to_owned(),
            "--cluster-cidr=10.244.0.0/16,fd53:6b65:7070::/56".to_owned(),
        ];
        argv.extend(self.spec().control_args.iter().cloned());
        self.control().start(Place::Netns(&format!("{}-net", self.prefix)), &argv)
    }

    /// Copies the administrator's kubeconfig to where the owner of the source tree may read it (and nobody else).
    fn publish_kubeconfig(&self) -> Result<()> {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
        if self.kubeconfig.exists() {
            return Ok(());
        }
        fs::copy(self.data_dir().join("admin.kubeconfig"), &self.kubeconfig)
            .context("the control service wrote no admin.kubeconfig")?;
        fs::set_permissions(&self.kubeconfig, fs::Permissions::from_mode(0o600))?;
        let owner = fs::metadata(workspace::root())?;
        std::os::unix::fs::chown(&self.kubeconfig, Some(owner.uid()), Some(owner.gid()))?;
        Ok(())
    }

    fn start_nodes(&self, images: &Path) -> Result<()> {
        let data_dir = self.data_dir();
        let names: Vec<String> = self.spec().node_names().collect();
        std::thread::scope(|scope| {
            let start = |name| {
                let node = self.node(name)?;
                if node.agent().pid().is_none() {
                    node.prepare(&data_dir, images)?;
                    node.start_agent()?;
                }
                Ok(())
            };
            let threads: Vec<_> = names.iter().map(|name| (name, scope.spawn(move || start(name)))).collect();
            for (name, thread) in threads {
                let result: Result<()> = thread.join().unwrap_or_else(|_| bail!("the thread panicked"));
                result.with_context(|| format!("cannot start {name}"))?;
            }
            Ok(())
        })
    }

    /// Waits until every node is Ready.
    pub fn wait_ready(&self, timeout: Duration) -> Result<()> {
        let kubectl = self.kubectl();
        let jsonpath = r#"jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}"#;
        let ready = crate::command::wait_until("every node is Ready", timeout, || {
            let output = crate::command::output(kubectl.command("get nodes -o").arg(jsonpath))?;
            let text = String::from_utf8_lossy(&output.stdout);
            // Each kubectl is a process of some 50 ms of work, which the nodes need more while they start.
            std::thread::sleep(Duration::from_millis(150));
            if !self.is_running() {
                bail!("a program of the cluster ended");
            }
            Ok(text.lines().filter(|line| *line == "True").count() == self.spec().nodes)
        });
        ready.with_context(|| {
            let mut logs = format!("control:\n{}", self.control().log_tail());
            for name in self.spec().node_names() {
                if let Ok(node) = self.node(&name) {
                    logs.push_str(&format!("\n{name}:\n{}", node.agent().log_tail()));
                }
            }
            logs
        })
    }

    fn process(&self, member: Member<'_>) -> Result<Process> {
        Ok(match member {
            Member::Control => self.control(),
            Member::Agent(name) => self.node(name)?.agent(),
            Member::Runtime(name) => self.node(name)?.runtime(),
        })
    }
}

impl Cluster for NamespaceCluster {
    fn nodes(&self) -> Vec<String> {
        self.spec().node_names().collect()
    }

    fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    fn load_images(&self, archive: &Path) -> Result<()> {
        self.nodes().iter().try_for_each(|name| self.node(name)?.import(archive))
    }

    fn run_on_node(&self, node: &str, argv: &[&str]) -> Result<Output> {
        self.node(node)?.run(argv)
    }

    fn kill(&self, member: Member<'_>) -> Result<()> {
        self.process(member)?.kill()
    }

    fn start(&self, member: Member<'_>) -> Result<()> {
        match member {
            Member::Control => self.launch_control(),
            Member::Agent(name) => self.node(name)?.start_agent(),
            Member::Runtime(name) => self.node(name)?.start_runtime(),
        }
    }

    fn pid(&self, member: Member<'_>) -> Option<i32> {
        self.process(member).ok()?.pid()
    }

    fn set_link(&self, node: &str, up: bool) -> Result<()> {
        self.node(node)?;
        network::set_link(&self.prefix, node, up)
    }

    fn destroy(&self) -> Result<()> {
        Self::clear(&self.spec().name)
    }
}

/// Names go into those of network namespaces, cgroups and files.
fn check_name(name: &str) -> Result<()> {
    let valid = (1..=20).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if !valid {
        bail!("cluster name {name:?}: 1 to 20 lowercase letters, digits and '-'");
    }
    Ok(())
}

fn prefix(name: &str) -> Result<String> {
    let root = workspace::root().canonicalize()?;
    let digest = Sha256::digest(root.as_os_str().as_encoded_bytes());
    Ok(format!("skep-{:02x}{:02x}-{name}", digest[0], digest[1]))
}
