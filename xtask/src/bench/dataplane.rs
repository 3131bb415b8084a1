//! How fast pods reach each other directly, through Services, and through rule sets of kube-proxy's shape.
//!
//! All cases of a table are measured in turns within one run: what else the machine does hits each alike, and only ratios
//! within a turn are compared.

mod changes;
mod measure;
mod outside;
mod packets;
mod plain;
mod pods;

use std::ops::Range;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde_json::json;
use skep_tests::proxy::Proxy;
use skep_tests::testbed::{Client, TestCluster};
use skep_tests::{Member, manifest};

use super::report::Row;

#[derive(Args)]
pub(crate) struct Options {
    /// Numbers of Services beside one, rising
    #[arg(long, value_delimiter = ',', default_values_t = [10_000, 100_000])]
    services: Vec<usize>,
    /// Turns; each measures every case once
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Length of one measurement
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// Only this part
    #[arg(long, value_enum)]
    only: Option<Part>,
}

/// Parts of the bench, each with clusters of its own.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// From pod to pod, with socket hooks
    Pods,
    /// From pod to pod, by tc alone
    Tc,
    /// From outside through node ports
    Outside,
    /// How soon packets obey a change
    Changes,
    /// What a packet costs in each program
    Packets,
}

const BENCH: &str = "dataplane";
const NODE: &str = "node-1";

pub(crate) fn run(options: &Options) -> Result<Vec<Row>> {
    let services = &options.services;
    ensure!(services.is_sorted_by(|a, b| a < b), "--services must rise");
    ensure!(services.iter().all(|count| (2..=100_000).contains(count)), "--services must be between 2 and 100000");
    ensure!(options.rounds > 0 && options.seconds > 0, "--rounds and --seconds must be at least 1");
    let wanted = |part| options.only.is_none_or(|only| only == part);
    let mut rows = Vec::new();
    if wanted(Part::Pods) {
        rows.extend(pods::run(options)?);
    }
    if wanted(Part::Tc) {
        rows.extend(pods::run_tc(options)?);
    }
    if wanted(Part::Outside) {
        rows.extend(outside::run(options)?);
    }
    if wanted(Part::Changes) {
        rows.extend(changes::run()?);
    }
    if wanted(Part::Packets) {
        rows.extend(packets::run()?);
    }
    Ok(rows)
}

/// A Service of the measuring ports of a server.
fn service(name: &str, kind: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"type": kind, "selector": {"app": "web"}, "ports": [
            {"name": "connections", "port": 80, "targetPort": 8081},
            {"name": "stream", "port": 81, "targetPort": 8082},
            {"name": "exchanges", "port": 82, "targetPort": 8083},
            {"name": "datagrams", "port": 80, "targetPort": 8080, "protocol": "UDP"},
            {"name": "packets", "port": 83, "targetPort": 8082, "protocol": "UDP"},
        ]},
    })
    .to_string()
}

/// A server on a node and a client on the first.
fn start(cluster: &TestCluster, server_node: &str, kind: &str) -> Result<(Client, String)> {
    let kubectl = cluster.kubectl();
    let manifests = manifest::join([
        manifest::server("web", server_node),
        service("web", kind),
        manifest::client("client", NODE, "role: client"),
    ]);
    kubectl.feed("apply -f -", &manifests)?;
    kubectl.run("wait --for=condition=Ready pod --all --timeout=60s")?;
    let address = cluster.place("default", "web")?.address;
    Ok((Client::Pod(cluster.place("default", "client")?), address))
}

fn resident(cluster: &TestCluster, member: Member<'_>) -> Result<f64> {
    Ok(cluster.resident(member)? as f64 / f64::from(1 << 20))
}

/// Creates Services that all select the one server, and returns the last one's address.
fn create_services(cluster: &TestCluster, numbers: Range<usize>) -> Result<String> {
    const CONNECTIONS: usize = 8;
    let proxy = Proxy::start(&cluster.kubectl())?;
    let create = |number: usize| -> Result<String> {
        let service: serde_json::Value = serde_json::from_str(&service(&format!("bench-{number}"), "ClusterIP"))?;
        let answer = proxy.post("/api/v1/namespaces/default/services", &service)?;
        ensure!(answer.code == 201, "creating a Service: {} {}", answer.code, String::from_utf8_lossy(&answer.body));
        answer.json()["spec"]["clusterIP"].as_str().map(str::to_owned).context("a Service without address")
    };
    let last = numbers.end - 1;
    std::thread::scope(|scope| {
        let create = &create;
        let workers: Vec<_> = (0..CONNECTIONS)
            .map(|worker| {
                let mut mine = (numbers.start + worker..last).step_by(CONNECTIONS);
                scope.spawn(move || mine.try_for_each(|number| create(number).map(drop)))
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| anyhow::bail!("a thread panicked")))
    })?;
    create(last)
}

fn wait_for_service(cluster: &TestCluster, client: &Client, address: &str) -> Result<()> {
    let line = format!("rate {address}:80 --seconds 1 --timeout-ms 500");
    skep_tests::command::wait_until("the last Service answers", Duration::from_secs(300), || {
        let report = cluster.demo_from(client, &line)?;
        Ok(report.ok > 0 && report.failed == 0)
    })
}
