//! NetworkPolicy: what is denied is denied, what is allowed passes, and the reason can be read.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use skep_tests::testbed::{PodPlace, TestCluster};
use skep_tests::{Spec, manifest};

const DEFAULT_DENY: &str = "apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: default-deny}
spec:
  podSelector: {}
  policyTypes: [Ingress, Egress]
";

const ALLOW_INGRESS: &str = "apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: allow-ingress}
spec:
  podSelector: {matchLabels: {app: web}}
  policyTypes: [Ingress]
  ingress:
  - from:
    - podSelector: {matchLabels: {role: friend}}
    ports:
    - {protocol: TCP, port: http}
";

const ALLOW_EGRESS: &str = "apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: allow-egress}
spec:
  podSelector: {matchLabels: {role: friend}}
  policyTypes: [Egress]
  egress:
  - to:
    - podSelector: {matchLabels: {app: web}}
    ports:
    - {protocol: TCP, port: 8080}
";

/// Asks until the answer is as expected: a policy takes a moment to reach the maps.
fn expect(cluster: &TestCluster, client: &PodPlace, target: &str, allowed: bool) -> Result<()> {
    let mut last = String::new();
    skep_tests::command::wait_until(
        &format!("{} to {target}: allowed is {allowed}", client.name),
        Duration::from_secs(15),
        || {
            let report = cluster.demo(client, &format!("load {target} --count 1 --timeout-ms 300"))?;
            last = format!("{report:?}");
            Ok((report.failed == 0) == allowed)
        },
    )
    .context(last)?;
    // And it stays so.
    let report = cluster.demo(client, &format!("load {target} --count 5 --timeout-ms 300"))?;
    ensure!(if allowed { report.failed == 0 } else { report.ok == 0 }, "{} to {target}: {report:?}", client.name);
    Ok(())
}

fn denied_packets(cluster: &TestCluster, node: &str) -> Result<u64> {
    let output = cluster.skep(node, "drops -o json")?;
    ensure!(output.status.success(), "skep drops: {}", String::from_utf8_lossy(&output.stderr));
    let rows: Value = serde_json::from_slice(&output.stdout)?;
    let rows = rows.as_array().context("skep drops prints a list")?;
    let denied = rows.iter().filter(|row| row["reason"] == "policy_denied");
    Ok(denied.filter_map(|row| row["packets"].as_u64()).sum())
}

#[test]
fn default_deny_and_an_allow() -> Result<()> {
    TestCluster::run(Spec::new("t-policy", 2), |cluster| {
        let kubectl = cluster.kubectl();
        let manifests = manifest::join([
            manifest::deployment("web", 2),
            manifest::service("web"),
            manifest::client("friend", "node-1", "role: friend"),
            manifest::client("stranger", "node-1", "role: stranger"),
            manifest::client("far-stranger", "node-2", "role: stranger"),
        ]);
        kubectl.feed("apply -f -", &manifests)?;
        kubectl.run("rollout status deployment/web --timeout=60s")?;
        kubectl.run("wait --for=condition=Ready pod/friend pod/stranger pod/far-stranger --timeout=60s")?;
        let place = |name| cluster.place("default", name);
        let (friend, stranger, far) = (place("friend")?, place("stranger")?, place("far-stranger")?);
        let service = kubectl.json("get service web")?;
        let targets: Vec<String> = (0..2)
            .filter_map(|index| service["spec"]["clusterIPs"][index].as_str())
            .map(|ip| if ip.contains(':') { format!("[{ip}]:80") } else { format!("{ip}:80") })
            .collect();
        ensure!(targets.len() == 2, "{service}");
        let everyone = |allowed: [bool; 3]| -> Result<()> {
            for target in &targets {
                for (client, allowed) in [&friend, &stranger, &far].into_iter().zip(allowed) {
                    expect(cluster, client, target, allowed)?;
                }
            }
            Ok(())
        };

        everyone([true, true, true])?;
        kubectl.feed("apply -f -", DEFAULT_DENY)?;
        everyone([false, false, false])?;
        let before = denied_packets(cluster, "node-1")?;

        // Ingress alone does not help while egress is denied; both together let the connection and its replies pass.
        kubectl.feed("apply -f -", ALLOW_INGRESS)?;
        everyone([false, false, false])?;
        kubectl.feed("apply -f -", ALLOW_EGRESS)?;
        everyone([true, false, false])?;
        // Readiness probes come from the node and pass whatever the policies say.
        kubectl.run("rollout status deployment/web --timeout=5s")?;

        let after = denied_packets(cluster, "node-1")?;
        ensure!(after > before, "drop counter went from {before} to {after}");
        flow_event_names_the_reason(cluster, &stranger, &targets[0])?;

        kubectl.run("delete networkpolicy default-deny allow-ingress allow-egress")?;
        everyone([true, true, true])
    })
}

/// `skep observe` shows the denied connection with its reason while it happens.
fn flow_event_names_the_reason(cluster: &TestCluster, client: &PodPlace, target: &str) -> Result<()> {
    let skep = skep_tests::workspace::program("skep")?;
    let mut command = skep_tests::command::command("nsenter", cluster.enter(&client.node)?);
    command.arg(skep).args(["observe", "-o", "json"]).stdout(std::process::Stdio::piped());
    let mut observe = command.spawn()?;
    std::thread::sleep(Duration::from_millis(500));
    cluster.demo(client, &format!("load {target} --count 3 --timeout-ms 300"))?;
    std::thread::sleep(Duration::from_millis(500));
    observe.kill()?;
    let seen = observe.wait_with_output()?;
    let text = String::from_utf8_lossy(&seen.stdout);
    let denied = text.lines().any(|line| line.contains("policy_denied") && line.contains(&client.name));
    ensure!(denied, "no flow event of {} with policy_denied in: {text}", client.name);
    Ok(())
}
