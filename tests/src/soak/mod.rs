//! A cluster under load while Services, pods, agents and nodes come and go, and an oracle that knows what may fail.
//!
//! ```text
//!  load (pods, node processes, a machine outside)  ──► samples ─┐
//!  churn (Services, pods, agents, a node)          ──► outages ─┴─► oracle: a failure outside of every outage is unexplained
//! ```
//!
//! Only the loss of a node excuses a failure, and only for a while: everything else has to happen unseen.

mod churn;
mod drops;
mod load;
mod oracle;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::testbed::{Client, TestCluster};
use crate::{Cluster as _, Member, Spec, manifest};
use load::Target;
use oracle::History;
pub use oracle::Summary;

/// Nodes; the last one is lost now and then.
const NODES: usize = 3;
/// Replicas of the server while nothing scales it.
const REPLICAS: usize = 4;

/// Maps whose entries must be what they were once the cluster wants what it wanted.
const MAPS: [&str; 8] =
    ["frontends", "slots", "backends", "endpoints", "identities", "source_ranges", "routes", "node_addrs"];

/// Runs for `time`, and tells what it saw; an error when something cannot be explained.
pub fn run(time: Duration, seed: u64) -> Result<Summary> {
    let mut spec = Spec::new("soak", NODES);
    // A lost node is noticed soon, so that the run sees it lost and back more than once.
    spec.control_args = ["--node-monitor-grace-seconds=6", "--node-eviction-seconds=5"].map(str::to_owned).to_vec();
    let mut summary = Summary::default();
    TestCluster::run(spec, |cluster| {
        summary = soak(cluster, time, seed)?;
        Ok(())
    })?;
    Ok(summary)
}

fn soak(cluster: &TestCluster, time: Duration, seed: u64) -> Result<Summary> {
    let targets = build(cluster)?;
    let clients = clients(cluster)?;
    // The first connections make what later ones find.
    settle(cluster)?;
    let before = Footprint::of(cluster)?;
    let stop = AtomicBool::new(false);
    let end = Instant::now() + time;
    let history = std::thread::scope(|scope| {
        let loads: Vec<_> =
            clients.iter().map(|client| scope.spawn(|| load::drive(cluster, client, &targets, &stop))).collect();
        let drops = scope.spawn(|| drops::watch(cluster, &stop));
        let churned = churn::run(cluster, end, seed);
        stop.store(true, Ordering::Relaxed);
        let mut samples = Vec::new();
        for load in loads {
            samples.extend(load.join().map_err(|_| anyhow::anyhow!("a load thread panicked"))??);
        }
        let drops = drops.join().map_err(|_| anyhow::anyhow!("the thread that reads counters panicked"))??;
        let (outages, operations) = churned?;
        Ok::<_, anyhow::Error>(History { samples, outages, operations, drops })
    })?;
    settle(cluster)?;
    let after = Footprint::of(cluster)?;
    let summary = oracle::judge(&history);
    ensure!(summary.unexplained.is_empty(), "unexplained failures:\n{}", summary.unexplained.join("\n"));
    ensure!(summary.requests > 0, "nothing was asked");
    after.compare(&before)?;
    Ok(summary)
}

fn build(cluster: &TestCluster) -> Result<Vec<Target>> {
    let kubectl = cluster.kubectl();
    let mut manifests = manifest::deployment("web", REPLICAS);
    manifests.push_str("---\n");
    manifests.push_str(&manifest::service("web").replace("spec:\n", "spec:\n  type: NodePort\n"));
    for node in cluster.nodes() {
        manifests.push_str("---\n");
        // Clients stay on a node that is lost: what they see of it is part of the run.
        let stays = "spec:\n  tolerations: [{operator: Exists, effect: NoExecute}]\n";
        manifests
            .push_str(&manifest::client(&format!("client-{node}"), &node, "role: client").replace("spec:\n", stays));
    }
    kubectl.feed("apply -f -", &manifests)?;
    kubectl.run("rollout status deployment/web --timeout=60s")?;
    kubectl.run("wait --for=condition=Ready pod -l role=client --timeout=60s")?;
    let service = kubectl.json("get service web")?;
    let mut targets = Vec::new();
    for index in 0..2 {
        let ip = service["spec"]["clusterIPs"][index].as_str().context("two cluster IPs")?;
        let ip = if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() };
        for options in ["", "--udp", "--udp --connected"] {
            targets.push(Target { address: format!("{ip}:80"), options, outside: false });
        }
    }
    for (index, options) in ["", "--udp"].into_iter().enumerate() {
        let port = service["spec"]["ports"][index]["nodePort"].as_u64().context("a node port")?;
        let node = &cluster.node_addresses("node-1")?[0];
        targets.push(Target { address: format!("{node}:{port}"), options, outside: true });
    }
    Ok(targets)
}

/// A pod and a process on each node, and a machine outside.
fn clients(cluster: &TestCluster) -> Result<Vec<Client>> {
    cluster.add_outside()?;
    let mut clients = vec![Client::Outside];
    for node in cluster.nodes() {
        clients.push(Client::Pod(cluster.place("default", &format!("client-{node}"))?));
        clients.push(Client::Host(node));
    }
    Ok(clients)
}

/// Waits until the cluster is what it is meant to be, and a while longer, for what follows with delay.
fn settle(cluster: &TestCluster) -> Result<()> {
    cluster.wait_ready(Duration::from_secs(60))?;
    let kubectl = cluster.kubectl();
    kubectl.run(&format!("scale deployment/web --replicas={REPLICAS}"))?;
    kubectl.run("rollout status deployment/web --timeout=90s")?;
    crate::command::wait_until("pods that end are gone", Duration::from_secs(60), || {
        std::thread::sleep(Duration::from_millis(500));
        let pods = kubectl.json("get pods")?;
        let items = pods["items"].as_array().context("a list")?;
        Ok(items
            .iter()
            .all(|pod| pod["metadata"]["deletionTimestamp"].is_null() && pod["status"]["phase"] == "Running"))
    })?;
    std::thread::sleep(Duration::from_secs(3));
    Ok(())
}

/// What a cluster holds.
struct Footprint {
    /// Entries by map, of all nodes together: pods move.
    entries: BTreeMap<&'static str, u64>,
    /// Resident bytes of each agent.
    resident: BTreeMap<String, u64>,
}

impl Footprint {
    fn of(cluster: &TestCluster) -> Result<Self> {
        let mut entries: BTreeMap<&'static str, u64> = BTreeMap::new();
        let mut resident = BTreeMap::new();
        for node in cluster.nodes() {
            let shown = cluster.skep(&node, "maps -o json")?;
            let rows: serde_json::Value = serde_json::from_slice(&shown.stdout).context("skep maps")?;
            for name in MAPS {
                let row = rows.as_array().into_iter().flatten().find(|row| row["name"] == name);
                *entries.entry(name).or_default() +=
                    row.and_then(|row| row["entries"].as_u64()).with_context(|| format!("no map {name} on {node}"))?;
            }
            resident.insert(node.clone(), cluster.resident(Member::Agent(&node))?);
        }
        Ok(Self { entries, resident })
    }

    fn compare(&self, before: &Self) -> Result<()> {
        ensure!(
            self.entries == before.entries,
            "map entries: {:?}, at the beginning {:?}",
            self.entries,
            before.entries
        );
        for (node, &now) in &self.resident {
            let then = before.resident.get(node).copied().unwrap_or_default();
            // Agents that were started anew begin smaller; one that leaks grows with every change.
            ensure!(now < then + then / 2 + (16 << 20), "the agent of {node} grew from {then} to {now} bytes");
        }
        Ok(())
    }
}
