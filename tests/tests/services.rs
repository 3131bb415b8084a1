//! Services as pods see them: every family and protocol, with the socket hooks and by tc alone.
#![allow(clippy::print_stdout, reason = "figures for whoever reads the test's output")]

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use skep_tests::testbed::{PodPlace, TestCluster};
use skep_tests::{Cluster as _, Spec, image, manifest};

/// Node of each server pod, by name.
fn servers(cluster: &TestCluster) -> Result<BTreeMap<String, String>> {
    let pods = cluster.kubectl().json("get pods -l app=web")?;
    let items = pods["items"].as_array().context("a list")?;
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    Ok(items.iter().map(|pod| (text(&pod["metadata"]["name"]), text(&pod["spec"]["nodeName"]))).collect())
}

/// IPv4 and IPv6 address of a Service, the latter in brackets.
fn cluster_ips(cluster: &TestCluster, service: &str) -> Result<[String; 2]> {
    let service = cluster.kubectl().json(&format!("get service {service}"))?;
    let ip = |index: usize| service["spec"]["clusterIPs"][index].as_str().map(str::to_owned).context("two cluster IPs");
    Ok([ip(0)?, format!("[{}]", ip(1)?)])
}

fn start(cluster: &TestCluster) -> Result<PodPlace> {
    let kubectl = cluster.kubectl();
    let manifests = manifest::join([
        manifest::deployment("web", 4),
        manifest::service("web"),
        manifest::service("nobody"),
        manifest::client("client", "node-1", "role: client"),
    ]);
    kubectl.feed("apply -f -", &manifests)?;
    kubectl.run("rollout status deployment/web --timeout=60s")?;
    kubectl.run("wait --for=condition=Ready pod/client --timeout=60s")?;
    cluster.place("default", "client")
}

/// 10,000 requests of each family and protocol: none fails, every server answers, the client sees the Service's address.
fn every_family_and_protocol(cluster: &TestCluster, client: &PodPlace) -> Result<()> {
    let servers = servers(cluster)?;
    ensure!(
        servers.values().any(|node| node == "node-1") && servers.values().any(|node| node == "node-2"),
        "{servers:?}"
    );
    for address in cluster_ips(cluster, "web")? {
        for protocol in ["", "--udp", "--udp --connected"] {
            let report =
                cluster.demo(client, &format!("load {address}:80 --count 10000 --concurrency 4 {protocol}"))?;
            println!("{address} {protocol}: {} answered by {:?}", report.ok, report.answers);
            ensure!(report.failed == 0 && report.ok == 10_000, "{address} {protocol}: {report:?}");
            ensure!(report.answers.keys().eq(servers.keys()), "{address} {protocol}: {report:?}, servers {servers:?}");
        }
        let seen = cluster.demo(client, &format!("connect {address}:80"))?;
        ensure!(seen.peer == format!("{address}:80"), "getpeername shows {}", seen.peer);
    }
    Ok(())
}

/// A Service without endpoints refuses; nothing waits for a timeout. `protocols`: what can learn of it. A datagram socket that is not
/// connected is told by the socket hooks only: Linux does not hand it the ICMP errors of tc.
fn refuses_without_endpoints(cluster: &TestCluster, client: &PodPlace, protocols: &[&str]) -> Result<()> {
    for address in cluster_ips(cluster, "nobody")? {
        for protocol in protocols {
            let report = cluster.demo(client, &format!("load {address}:80 --count 3 --timeout-ms 5000 {protocol}"))?;
            ensure!(report.failures.get("ConnectionRefused") == Some(&3), "{address} {protocol}: {report:?}");
        }
    }
    Ok(())
}

/// A server reaches its own Service, also when it is chosen itself.
fn reaches_itself(cluster: &TestCluster) -> Result<()> {
    let name = servers(cluster)?.into_keys().next().context("no server")?;
    let server = cluster.place("default", &name)?;
    for address in cluster_ips(cluster, "web")? {
        let report = cluster.demo(&server, &format!("load {address}:80 --count 200"))?;
        ensure!(report.failed == 0 && report.answers.contains_key(&name), "{address}: {report:?}");
    }
    Ok(())
}

#[test]
fn socket_hooks() -> Result<()> {
    TestCluster::run(Spec::new("t-services", 2), |cluster| {
        let client = start(cluster)?;
        every_family_and_protocol(cluster, &client)?;
        refuses_without_endpoints(cluster, &client, &["", "--udp", "--udp --connected"])?;
        reaches_itself(cluster)?;
        no_rule_anywhere(cluster)?;
        rolling_update_loses_nothing(cluster, &client)
    })
}

#[test]
fn tc_alone() -> Result<()> {
    let mut spec = Spec::new("t-tc", 2);
    spec.agent_args.push("--no-socket-lb".to_owned());
    TestCluster::run(spec, |cluster| {
        let client = start(cluster)?;
        every_family_and_protocol(cluster, &client)?;
        refuses_without_endpoints(cluster, &client, &["", "--udp --connected"])?;
        reaches_itself(cluster)
    })
}

/// All of the above went through BPF maps: no node has a rule.
fn no_rule_anywhere(cluster: &TestCluster) -> Result<()> {
    for node in cluster.nodes() {
        for argv in [&["iptables-save"][..], &["ip6tables-save"], &["nft", "list", "ruleset"]] {
            let output = cluster.run_on_node(&node, argv)?;
            ensure!(output.status.success(), "{argv:?}: {}", String::from_utf8_lossy(&output.stderr));
            let text = String::from_utf8_lossy(&output.stdout);
            let rules: Vec<&str> =
                text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()).collect();
            ensure!(rules.is_empty(), "{node} {argv:?}: {rules:?}");
        }
    }
    Ok(())
}

/// New connections all the time, while every pod is replaced: each is answered.
fn rolling_update_loses_nothing(cluster: &TestCluster, client: &PodPlace) -> Result<()> {
    let kubectl = cluster.kubectl();
    let [address, _] = cluster_ips(cluster, "web")?;
    let before = servers(cluster)?;
    let load = cluster
        .demo_in_background(client, &format!("load {address}:80 --seconds 25 --concurrency 4 --interval-ms 2"))?;
    kubectl.run(&format!("set image deployment/web server={}", image::DEMO_V2))?;
    kubectl.run("rollout status deployment/web --timeout=60s")?;
    std::thread::sleep(Duration::from_secs(1));
    let report = load.report()?;
    let after = servers(cluster)?;
    println!("rolling update: {} requests, answered by {:?}", report.ok, report.answers);
    ensure!(report.failed == 0, "{report:?}");
    ensure!(after.keys().all(|name| !before.contains_key(name)), "{before:?} {after:?}");
    ensure!(after.keys().all(|name| report.answers.contains_key(name)), "the new pods did not answer: {report:?}");
    Ok(())
}
