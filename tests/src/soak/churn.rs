//! Things that happen to a cluster, in random order.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::REPLICAS;
use super::oracle::Outage;
use crate::testbed::{Client, TestCluster};
use crate::{Cluster as _, Member};

/// The node that is lost now and then. No client outside comes in by it.
const LOST: &str = "node-3";

/// How long after the API has acknowledged a Service its address must answer.
const PROGRAMMED: Duration = Duration::from_secs(2);

/// One thing that was done.
pub(super) struct Operation {
    pub(super) what: &'static str,
    pub(super) from: Instant,
    pub(super) until: Instant,
}

/// Does one thing after the other until `end`. Returns the outages and what was done.
pub(super) fn run(cluster: &TestCluster, end: Instant, seed: u64) -> Result<(Vec<Outage>, Vec<Operation>)> {
    let mut random = Random(seed);
    let mut outages = Vec::new();
    let mut done = Vec::new();
    let mut turn = 0_u64;
    while Instant::now() < end {
        let left = end.saturating_duration_since(Instant::now());
        turn += 1;
        let from = Instant::now();
        let what = match random.below(10) {
            0..=3 => {
                service(cluster, turn)?;
                "Service made and removed"
            }
            4 | 5 => {
                delete_pod(cluster, &mut random)?;
                "pod deleted"
            }
            6 | 7 => {
                let replicas = 2 + random.below(5);
                cluster.kubectl().run(&format!("scale deployment/web --replicas={replicas}"))?;
                cluster.kubectl().run("rollout status deployment/web --timeout=60s")?;
                "scaled"
            }
            8 => {
                let nodes = cluster.nodes();
                let node = &nodes[random.below(nodes.len() as u64) as usize];
                cluster.kill(Member::Agent(node))?;
                std::thread::sleep(Duration::from_millis(500 * random.below(4)));
                cluster.start(Member::Agent(node))?;
                // Longer away, it would count as lost.
                cluster.wait_ready(Duration::from_secs(30))?;
                "agent killed"
            }
            // An outage takes a while, and what it leaves must be mended by the end.
            9 if left > Duration::from_secs(60) => {
                outages.push(lose_node(cluster)?);
                "node lost"
            }
            _ => continue,
        };
        done.push(Operation { what, from, until: Instant::now() });
        std::thread::sleep(Duration::from_millis(500 + random.below(1500)));
    }
    cluster.kubectl().run(&format!("scale deployment/web --replicas={REPLICAS}"))?;
    Ok((outages, done))
}

/// A Service of its own answers soon after it was made, and not any more soon after it was deleted.
fn service(cluster: &TestCluster, turn: u64) -> Result<()> {
    let kubectl = cluster.kubectl();
    let name = format!("churn-{turn}");
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    });
    kubectl.feed("apply -f -", &service.to_string())?;
    let ip = kubectl.run(&format!("get service {name} -o jsonpath={{.spec.clusterIP}}"))?;
    let client = Client::Host("node-1".to_owned());
    let line = format!("load {ip}:80 --count 20 --timeout-ms 500");
    crate::command::wait_until(&format!("the new Service {name} answers"), PROGRAMMED, || {
        let report = cluster.demo_from(&client, &line)?;
        Ok(report.failed == 0)
    })?;
    kubectl.run(&format!("delete service {name}"))?;
    crate::command::wait_until(&format!("the deleted Service {name} is silent"), PROGRAMMED, || {
        Ok(cluster.demo_from(&client, &format!("load {ip}:80 --count 1 --timeout-ms 200"))?.ok == 0)
    })
}

fn delete_pod(cluster: &TestCluster, random: &mut Random) -> Result<()> {
    let pods = cluster.kubectl().json("get pods -l app=web")?;
    let items = pods["items"].as_array().context("a list")?;
    ensure!(!items.is_empty(), "no server is left");
    let pod = &items[random.below(items.len() as u64) as usize];
    let name = pod["metadata"]["name"].as_str().context("a name")?;
    cluster.kubectl().run(&format!("delete pod {name} --wait=false --ignore-not-found"))?;
    cluster.kubectl().run("rollout status deployment/web --timeout=60s").map(drop)
}

fn lose_node(cluster: &TestCluster) -> Result<Outage> {
    let ready = |wanted: &str| {
        let jsonpath = r#"jsonpath={.status.conditions[?(@.type=="Ready")].status}"#;
        crate::command::wait_until(&format!("Ready of {LOST} is {wanted}"), Duration::from_secs(60), || {
            std::thread::sleep(Duration::from_millis(200));
            let mut command = cluster.kubectl().command(&format!("get node {LOST} -o"));
            let output = crate::command::output(command.arg(jsonpath))?;
            Ok((String::from_utf8_lossy(&output.stdout).trim() == "True") == (wanted == "True"))
        })
    };
    let mut outage = Outage { node: LOST.to_owned(), from: Instant::now(), known: None, until: None };
    cluster.set_link(LOST, false)?;
    let noticed = ready("not True");
    outage.known = Some(Instant::now());
    std::thread::sleep(Duration::from_secs(8));
    // Before anything else: the node comes back also when it was not noticed.
    cluster.set_link(LOST, true)?;
    noticed?;
    ready("True")?;
    cluster.kubectl().run("rollout status deployment/web --timeout=60s")?;
    outage.until = Some(Instant::now());
    Ok(outage)
}

/// Numbers that look random and are the same for the same seed (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % limit.max(1)
    }
}
