//! What an end-to-end test stands on: a cluster of its own that goes with it, and ways to run programs in its pods.

use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

use crate::cluster::{Cluster as _, Spec};
use crate::command::{command, output, wait_until};
use crate::kubectl::Kubectl;
use crate::namespaces::NamespaceCluster;
use crate::workspace;

/// A cluster that is removed when the test ends, however it ends.
#[derive(Debug)]
pub struct TestCluster(NamespaceCluster);

impl TestCluster {
    /// Makes a cluster, runs a test on it and removes it. If the test fails, the ends of the programs' logs are printed; with
    /// `SKEP_KEEP_FAILED` in the environment the cluster is kept.
    pub fn run(spec: Spec, test: impl FnOnce(&Self) -> Result<()>) -> Result<()> {
        let cluster = Self::up(spec)?;
        let result = test(&cluster);
        if result.is_err() {
            cluster.print_logs();
            if std::env::var_os("SKEP_KEEP_FAILED").is_some() {
                eprintln!("kept: cargo xtask down --name {}", cluster.spec().name);
                std::mem::forget(cluster);
            }
        }
        result
    }

    /// Makes a cluster. What a killed run left of the same name is removed first.
    pub fn up(spec: Spec) -> Result<Self> {
        ensure!(nix::unistd::geteuid().is_root(), "end-to-end tests need root: `cargo xtask test` sees to that");
        NamespaceCluster::clear(&spec.name)?;
        let name = spec.name.clone();
        let made = NamespaceCluster::up(spec, &mut |_, _| {});
        if made.is_err() {
            NamespaceCluster::clear(&name)?;
        }
        Ok(Self(made?))
    }

    /// A program in a pod: with the namespaces of the pod's first container, and in its cgroup, where the socket hooks are.
    ///
    /// Neither the API server nor the agent nor the runtime takes part, so that it works while these are down.
    pub fn pod_command(&self, pod: &PodPlace, argv: &[&str]) -> Result<Command> {
        let cgroup = self.pods_cgroup(&pod.node)?.join(&pod.container);
        let pid = first_process(&cgroup)?.to_string();
        let script =
            r#"echo $$ > "$0/cgroup.procs" && exec nsenter --target "$1" --mount --uts --ipc --net -- "${@:2}""#;
        let mut shell = command("bash", ["-c", script]);
        shell.arg(cgroup).arg(pid).args(argv);
        Ok(shell)
    }

    /// Runs something on a thread in a pod's network. It is not in the pod's cgroup: the socket hooks do not see it, tc does.
    pub fn in_pod_network<T: Send>(&self, pod: &PodPlace, task: impl FnOnce() -> T + Send) -> Result<T> {
        let pid = first_process(&self.pods_cgroup(&pod.node)?.join(&pod.container))?;
        let netns = fs::File::open(format!("/proc/{pid}/ns/net"))?;
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                nix::sched::setns(netns, nix::sched::CloneFlags::CLONE_NEWNET)?;
                Ok(task())
            });
            thread.join().map_err(|_| anyhow::anyhow!("the thread in the pod's network panicked"))?
        })
    }

    /// Runs a program in a pod to its end.
    pub fn run_in_pod(&self, pod: &PodPlace, argv: &[&str]) -> Result<Output> {
        output(&mut self.pod_command(pod, argv)?)
    }

    /// Runs the demo client in a pod and reads its report.
    pub fn demo(&self, pod: &PodPlace, line: &str) -> Result<Report> {
        self.demo_in_background(pod, line)?.report()
    }

    /// Starts the demo client in a pod.
    pub fn demo_in_background(&self, pod: &PodPlace, line: &str) -> Result<Running> {
        let argv: Vec<&str> = std::iter::once("/skep-demo").chain(line.split_whitespace()).collect();
        let mut command = self.pod_command(pod, &argv)?;
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(Running { line: line.to_owned(), child: command.spawn().context("cannot run nsenter")? })
    }

    /// Runs the demo client where `client` says and reads its report.
    pub fn demo_from(&self, client: &Client, line: &str) -> Result<Report> {
        let program = match client {
            Client::Pod(_) => "/skep-demo".to_owned(),
            Client::Host(_) | Client::Outside => workspace::demo_program()?.to_string_lossy().into_owned(),
        };
        let argv: Vec<&str> = std::iter::once(program.as_str()).chain(line.split_whitespace()).collect();
        let mut command = match client {
            Client::Pod(place) => self.pod_command(place, &argv)?,
            Client::Host(node) => self.host_command(node, &argv)?,
            Client::Outside => self.outside_command(&argv),
        };
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running { line: line.to_owned(), child: command.spawn().context("cannot run the client")? }.report()
    }

    /// Where a pod runs.
    pub fn place(&self, namespace: &str, pod: &str) -> Result<PodPlace> {
        let pod = self.kubectl().with_namespace(namespace).json(&format!("get pod {pod}"))?;
        let text = |pointer: &str| {
            let value = pod.pointer(pointer).and_then(serde_json::Value::as_str);
            value.map(str::to_owned).with_context(|| format!("pod has no {pointer}: {pod}"))
        };
        let container = text("/status/containerStatuses/0/containerID")?;
        Ok(PodPlace {
            name: text("/metadata/name")?,
            node: text("/spec/nodeName")?,
            container: container.trim_start_matches("containerd://").to_owned(),
            address: text("/status/podIP")?,
        })
    }

    /// Resident memory of a member, bytes.
    pub fn resident(&self, member: crate::Member<'_>) -> Result<u64> {
        let pid = self.pid(member).with_context(|| format!("{member:?} does not run"))?;
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
        let kib: u64 = line.split_whitespace().nth(1).context("no number in VmRSS")?.parse()?;
        Ok(kib * 1024)
    }

    /// Runs `skep` on a node.
    pub fn skep(&self, node: &str, line: &str) -> Result<Output> {
        let skep = workspace::program("skep")?;
        let argv: Vec<&str> =
            std::iter::once(skep.to_str().context("path is not UTF-8")?).chain(line.split_whitespace()).collect();
        self.run_on_node(node, &argv)
    }

    /// Waits until `line` of kubectl prints `expected`.
    pub fn wait_for(&self, kubectl: &Kubectl, line: &str, expected: &str, timeout: Duration) -> Result<()> {
        let mut last = String::new();
        wait_until(&format!("kubectl {line} prints {expected:?}"), timeout, || {
            let output = kubectl.output(line)?;
            std::thread::sleep(Duration::from_millis(150));
            last = String::from_utf8_lossy(&output.stdout).into_owned();
            last.push_str(&String::from_utf8_lossy(&output.stderr));
            Ok(last.trim() == expected)
        })
        .with_context(|| format!("last it printed {last:?}"))
    }

    fn print_logs(&self) {
        let mut files = vec![self.dir().join("control.log")];
        files.extend(self.nodes().iter().map(|node| self.dir().join("nodes").join(node).join("agent.log")));
        for log in files {
            let text = fs::read_to_string(&log).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            eprintln!("--- {}\n{}", log.display(), lines[lines.len().saturating_sub(25)..].join("\n"));
        }
    }
}

/// Number of a process in a container's cgroup.
fn first_process(cgroup: &Path) -> Result<i32> {
    crate::cgroup::processes(cgroup).first().copied().with_context(|| format!("nothing runs in {}", cgroup.display()))
}

impl Deref for TestCluster {
    type Target = NamespaceCluster;

    fn deref(&self) -> &NamespaceCluster {
        &self.0
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        if let Err(error) = self.destroy() {
            eprintln!("cannot remove the cluster: {error:#}");
        }
    }
}

/// Where traffic comes from.
#[derive(Clone, Debug)]
pub enum Client {
    /// A pod, with its own network or the node's.
    Pod(PodPlace),
    /// A process of the node of this name that is no pod.
    Host(String),
    /// A machine that is no part of the cluster ([`NamespaceCluster::add_outside`]).
    Outside,
}

/// Where a pod's first container is.
#[derive(Clone, Debug)]
pub struct PodPlace {
    /// The pod's name.
    pub name: String,
    /// Its node.
    pub node: String,
    /// Id of its first container.
    pub container: String,
    /// Its first address.
    pub address: String,
}

/// A demo client at work.
#[derive(Debug)]
pub struct Running {
    line: String,
    child: Child,
}

impl Running {
    /// Waits for its end and reads the report.
    pub fn report(self) -> Result<Report> {
        let output = self.child.wait_with_output()?;
        let stdout = String::from_utf8_lossy(&output.stdout);
        match serde_json::from_str(stdout.trim()) {
            Ok(report) => Ok(report),
            Err(_) => bail!(
                "skep-demo {} ended with {} and printed {:?}, {:?}",
                self.line,
                output.status,
                stdout,
                String::from_utf8_lossy(&output.stderr)
            ),
        }
    }
}

/// What the demo client saw. Which fields are there depends on its command.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Report {
    /// Requests that were answered.
    pub ok: u64,
    /// Requests that were not.
    pub failed: u64,
    /// Requests by the name of the pod that answered.
    pub answers: std::collections::BTreeMap<String, u64>,
    /// Failures by kind of error.
    pub failures: std::collections::BTreeMap<String, u64>,
    /// `connect`: the address on the other side as the client sees it.
    pub peer: String,
    /// `connect`: who answered, and the client's address as it was seen there.
    pub answer: String,
    /// `wait`: what ended the connection.
    pub end: String,
    /// `rate`: connections per second.
    pub per_second: f64,
}
