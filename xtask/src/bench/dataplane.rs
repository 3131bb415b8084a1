//! New TCP connections a second from one pod to another on the same node, by each way of reaching a Service.
//!
//! All cases are measured in turns within one run: what else the machine does hits each alike, and only ratios are compared.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde_json::json;
use skep_tests::proxy::Proxy;
use skep_tests::testbed::{PodPlace, TestCluster};
use skep_tests::{Member, Spec, manifest};

use super::report::{Aim, Row};
use super::rules;

#[derive(Args)]
pub(crate) struct Options {
    /// Services of the large case
    #[arg(long, default_value_t = 10_000)]
    services: usize,
    /// Turns; each measures every case once
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Length of one measurement
    #[arg(long, default_value_t = 2)]
    seconds: u64,
}

const BENCH: &str = "dataplane";
const NODE: &str = "node-1";

pub(crate) fn run(options: &Options) -> Result<Vec<Row>> {
    ensure!((2..=50_000).contains(&options.services), "--services must be between 2 and 50000");
    ensure!(options.rounds > 0 && options.seconds > 0, "--rounds and --seconds must be at least 1");
    println!("cluster of one node...");
    let cluster = TestCluster::up(Spec::new("bench", 1))?;
    let kubectl = cluster.kubectl();
    let manifests = manifest::join([
        manifest::deployment("web", 1),
        manifest::service("web").replace("targetPort: http", "targetPort: 8081"),
        manifest::client("client", NODE, "role: client"),
    ]);
    kubectl.feed("apply -f -", &manifests)?;
    kubectl.run("rollout status deployment/web --timeout=60s")?;
    kubectl.run("wait --for=condition=Ready pod/client --timeout=60s")?;
    let server = kubectl.run("get pods -l app=web -o jsonpath={.items[0].metadata.name}")?;
    let (client, server) = (cluster.place("default", "client")?, cluster.place("default", &server)?);
    let first = kubectl.run("get service web -o jsonpath={.spec.clusterIP}")?;

    let mut bench = Measured { cluster: &cluster, client: &client, options, samples: BTreeMap::new() };
    let direct = format!("{}:8081", server.address);
    for _ in 0..options.rounds {
        bench.measure("direct, 1 Service", &direct)?;
        bench.measure("ClusterIP, 1 Service", &format!("{first}:80"))?;
    }

    let before = [resident(&cluster, Member::Control)?, resident(&cluster, Member::Agent(NODE))?];
    println!("{} Services through the API...", options.services);
    let last = create_services(&cluster, options.services)?;
    wait_for_service(&cluster, &client, &last)?;
    let large = format!("{} Services", options.services);
    let names = ["direct", "ClusterIP", "nftables", "iptables"].map(|way| format!("{way}, {large}"));
    let baseline = format!("{}:80", rules::address(options.services - 1));
    let nft = rules::nftables(options.services, &server.address);
    let iptables = rules::iptables(options.services, &server.address);
    for _ in 0..options.rounds {
        bench.measure(&names[0], &direct)?;
        bench.measure(&names[1], &format!("{last}:80"))?;
        rules::load(&cluster, NODE, &["nft", "-f", "-"], &nft)?;
        bench.measure(&names[2], &baseline)?;
        rules::load(&cluster, NODE, &["nft", "delete", "table", "ip", "bench"], "")?;
        rules::load(&cluster, NODE, &["iptables-restore"], &iptables)?;
        bench.measure(&names[3], &baseline)?;
        rules::load(&cluster, NODE, &["iptables-restore"], "*nat\nCOMMIT\n")?;
    }

    let mut rows = Vec::new();
    for (case, samples) in &bench.samples {
        rows.push(Row::new(BENCH, case, "connections", median(samples), "1/s", Aim::None));
    }
    let small = bench.ratio("ClusterIP, 1 Service", "direct, 1 Service")?;
    let ratio = bench.ratio(&names[1], &names[0])?;
    rows.push(Row::new(BENCH, "ClusterIP, 1 Service", "of direct", small, "ratio", Aim::None));
    rows.push(Row::new(BENCH, &names[1], "of direct", ratio, "ratio", Aim::AtLeast(0.95)));
    rows.push(Row::new(BENCH, &names[1], "of nftables", bench.ratio(&names[1], &names[2])?, "ratio", Aim::Above(1.0)));
    rows.push(Row::new(BENCH, &names[1], "of iptables", bench.ratio(&names[1], &names[3])?, "ratio", Aim::Above(1.0)));
    rows.push(Row::new(BENCH, &names[1], "of 1 Service (flat)", ratio / small, "ratio", Aim::AtLeast(0.95)));
    for (member, name, before) in [(Member::Control, "control", before[0]), (Member::Agent(NODE), "agent", before[1])] {
        rows.push(Row::new(BENCH, name, "resident, 1 Service", before, "MiB", Aim::None));
        let figure = if options.services == 10_000 { "resident, 10k" } else { "resident, large" };
        rows.push(Row::new(BENCH, name, figure, resident(&cluster, member)?, "MiB", Aim::None));
    }
    Ok(rows)
}

struct Measured<'a> {
    cluster: &'a TestCluster,
    client: &'a PodPlace,
    options: &'a Options,
    /// Connections per second by case, in the order of the rounds.
    samples: BTreeMap<String, Vec<f64>>,
}

impl Measured<'_> {
    fn measure(&mut self, case: &str, target: &str) -> Result<()> {
        let line = format!("rate {target} --seconds {} --concurrency 2", self.options.seconds);
        let report = self.cluster.demo(self.client, &line).with_context(|| case.to_owned())?;
        ensure!(report.failed == 0 && report.ok > 0, "{case}: {report:?}");
        println!("{case:<34}{:>8.0}/s", report.per_second);
        self.samples.entry(case.to_owned()).or_default().push(report.per_second);
        Ok(())
    }

    /// Median over the rounds of the ratio within each round.
    fn ratio(&self, case: &str, to: &str) -> Result<f64> {
        let samples = |case: &str| self.samples.get(case).with_context(|| format!("{case} was not measured"));
        let ratios: Vec<f64> = samples(case)?.iter().zip(samples(to)?).map(|(a, b)| a / b).collect();
        Ok(median(&ratios))
    }
}

fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

fn resident(cluster: &TestCluster, member: Member<'_>) -> Result<f64> {
    Ok(cluster.resident(member)? as f64 / f64::from(1 << 20))
}

/// Creates Services that all select the one server, and returns the last one's address.
fn create_services(cluster: &TestCluster, count: usize) -> Result<String> {
    const CONNECTIONS: usize = 8;
    let proxy = Proxy::start(&cluster.kubectl())?;
    let create = |number: usize| -> Result<String> {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("bench-{number}")},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8081}]},
        });
        let answer = proxy.post("/api/v1/namespaces/default/services", &service)?;
        ensure!(answer.code == 201, "creating a Service: {} {}", answer.code, String::from_utf8_lossy(&answer.body));
        answer.json()["spec"]["clusterIP"].as_str().map(str::to_owned).context("a Service without address")
    };
    std::thread::scope(|scope| {
        let create = &create;
        let workers: Vec<_> = (0..CONNECTIONS)
            .map(|worker| {
                scope.spawn(move || (worker..count - 1).step_by(CONNECTIONS).try_for_each(|n| create(n).map(drop)))
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| anyhow::bail!("a thread panicked")))
    })?;
    create(count - 1)
}

fn wait_for_service(cluster: &TestCluster, client: &PodPlace, address: &str) -> Result<()> {
    let line = format!("rate {address}:80 --seconds 1 --timeout-ms 500");
    skep_tests::command::wait_until("the last Service answers", Duration::from_secs(180), || {
        let report = cluster.demo(client, &line)?;
        Ok(report.ok > 0 && report.failed == 0)
    })
}
