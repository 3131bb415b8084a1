//! What every pod's worker shares.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use skep_agent_core::pods::{Dns, NodeFacts};
use tokio::sync::{Semaphore, mpsc};

use super::config::PodsConfig;
use super::desired::PodReport;
use super::layout::Layout;
use super::reader::Reader;
use super::runtime::{Runtime, channel};
use crate::dns::SettingsWatch;

/// The node, its runtime, and where reports go.
pub(super) struct Context {
    /// With the cluster's name servers as last asked for.
    node: Mutex<Arc<NodeFacts>>,
    cluster_dns: Option<SettingsWatch>,
    pub(super) layout: Arc<Layout>,
    pub(super) runtime: Runtime,
    pub(super) reader: Reader,
    pub(super) socket: PathBuf,
    /// Permits to make a sandbox.
    pub(super) sandbox_permits: Semaphore,
    pub(super) reports: mpsc::Sender<PodReport>,
    pub(super) events: mpsc::Sender<skep_proto::node::v1::Event>,
}

impl Context {
    pub(super) fn new(
        config: PodsConfig,
        reports: mpsc::Sender<PodReport>,
        events: mpsc::Sender<skep_proto::node::v1::Event>,
    ) -> Self {
        let layout = Arc::new(Layout { pods: config.state_dir.join("pods"), logs: config.pod_log_dir.clone() });
        let runtime = Runtime::new(channel(&config.cri_socket));
        Self {
            node: Mutex::new(Arc::new(facts(&config))),
            cluster_dns: config.cluster_dns,
            reader: Reader::new(runtime.clone(), Arc::clone(&layout)),
            layout,
            runtime,
            sandbox_permits: Semaphore::new(config.sandbox_parallelism.max(1)),
            socket: config.cri_socket,
            reports,
            events,
        }
    }
}

impl Context {
    /// What is known of the node now.
    pub(super) fn node(&self) -> Arc<NodeFacts> {
        let settings = self.cluster_dns.as_ref().and_then(|settings| settings.borrow().dns.clone());
        let cluster_dns = settings.map(|dns| (text(&dns.servers), dns.domain));
        let mut node = self.node.lock().unwrap_or_else(PoisonError::into_inner);
        if node.cluster_dns != cluster_dns {
            *node = Arc::new(NodeFacts { cluster_dns, ..NodeFacts::clone(&node) });
        }
        Arc::clone(&node)
    }
}

fn text(addresses: &[IpAddr]) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}

fn facts(config: &PodsConfig) -> NodeFacts {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| i64::try_from(cpus.get()).unwrap_or(1));
    NodeFacts {
        name: config.node_name.clone(),
        addresses: text(&config.node_addresses),
        cpu_milli: cpus * 1000,
        memory_bytes: memory_bytes().unwrap_or(0),
        runtime: "containerd".to_owned(),
        cgroup_parent: config.cgroup_parent.clone(),
        log_dir: config.pod_log_dir.to_string_lossy().into_owned(),
        cluster_dns: None,
        resolver: read("/etc/resolv.conf").map(|text| resolver(&text)).unwrap_or_default(),
        hosts: read("/etc/hosts").unwrap_or_default(),
    }
}

/// A node without the file is a node without what is in it.
fn read(path: &str) -> Option<String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Some(text),
        Err(error) => {
            tracing::info!(path, %error, "pods do without what the node does not have");
            None
        }
    }
}

fn memory_bytes() -> Option<i64> {
    let table = read("/proc/meminfo")?;
    let total = table.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: i64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// `resolv.conf(5)`.
fn resolver(text: &str) -> Dns {
    let mut dns = Dns::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => dns.servers.extend(words.next().map(str::to_owned)),
            // The last one counts.
            Some("search" | "domain") => dns.searches = words.map(str::to_owned).collect(),
            Some("options") => dns.options.extend(words.map(str::to_owned)),
            _ => {}
        }
    }
    dns
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;

    use super::*;
    use crate::dns::{ClusterDns, Settings};

    #[tokio::test]
    async fn pods_are_told_of_the_name_server_that_there_is_when_they_start() {
        let dir = tempfile::tempdir().unwrap();
        let (settings, watched) = watch::channel(Settings::default());
        let config = PodsConfig {
            node_name: "n1".to_owned(),
            node_addresses: vec!["192.0.2.2".parse().unwrap()],
            cri_socket: dir.path().join("no-runtime.sock"),
            state_dir: dir.path().to_owned(),
            pod_log_dir: dir.path().to_owned(),
            cgroup_parent: None,
            cluster_dns: Some(watched),
            sandbox_parallelism: 1,
        };
        let context = Context::new(config, mpsc::channel(1).0, mpsc::channel(1).0);
        let early = context.node();
        assert_eq!(early.cluster_dns, None);
        let servers = vec!["10.96.0.10".parse().unwrap(), "fd00:96::a".parse().unwrap()];
        let dns = ClusterDns { servers, domain: "cluster.local".to_owned() };
        settings.send_replace(Settings { dns: Some(dns), settled: true });
        let told = (vec!["10.96.0.10".to_owned(), "fd00:96::a".to_owned()], "cluster.local".to_owned());
        assert_eq!(context.node().cluster_dns, Some(told));
        assert!(Arc::ptr_eq(&context.node(), &context.node()), "pods share what they are told");
        assert_eq!(early.cluster_dns, None);
    }
}
