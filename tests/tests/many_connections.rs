//! Very many connections at a time.

use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use skep_tests::command::run;
use skep_tests::testbed::TestCluster;
use skep_tests::{Spec, manifest, workspace};

/// Programs of the client and pods that serve them: a process may not have as many open files as there are connections.
const PARTS: usize = 4;
/// More than half of all ports, and more than the 28,232 that Linux by itself gives one client.
const CONNECTIONS: u64 = 40_000;

/// All of one client address to one node port, and on to pods on another node.
#[test]
fn forty_thousand_of_one_client_to_one_node_port() -> Result<()> {
    TestCluster::run(Spec::new("t-many", 2), |cluster| {
        let kubectl = cluster.kubectl();
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "many"},
            "spec": {"type": "NodePort", "selector": {"app": "many"}, "ports": [{"port": 80, "targetPort": 8084}]},
        });
        let servers: [String; PARTS] = std::array::from_fn(|n| {
            manifest::server("many", "node-2").replacen("name: many", &format!("name: many-{n}"), 1)
        });
        kubectl.feed("apply -f -", &manifest::join([manifest::join(servers), service.to_string()]))?;
        kubectl.run("wait --for=condition=Ready pod --all --timeout=60s")?;
        let port = kubectl.run("get service many -o jsonpath={.spec.ports[0].nodePort}")?;
        let [node, _] = cluster.node_addresses("node-1")?;
        let client = cluster.add_machine("client", 1)?;
        let range = "echo 10000 65000 > /proc/sys/net/ipv4/ip_local_port_range";
        run(&mut client.command(&["sh", "-c", range]))?;

        let demo = workspace::demo_program()?;
        let (target, share) = (format!("{node}:{port}"), (CONNECTIONS / PARTS as u64).to_string());
        let argv = [demo.to_str().context("path is not UTF-8")?, "many", &target];
        let options = ["--connections", &share, "--concurrency", "4", "--timeout-ms", "10000", "--seconds", "5"];
        let running: Vec<_> = (0..PARTS)
            .map(|_| client.command(&argv).args(options).stdout(Stdio::piped()).spawn())
            .collect::<Result<_, _>>()?;
        let mut answered = 0;
        for program in running {
            let printed = program.wait_with_output()?.stdout;
            let report: Value = serde_json::from_slice(&printed).with_context(|| format!("{printed:?}"))?;
            ensure!(report["failed"] == 0, "{report}");
            answered += report["ok"].as_u64().context("a number")?;
        }
        ensure!(answered == CONNECTIONS, "{answered}");

        let shown = cluster.skep("node-1", "maps counters -o json")?;
        let counters: Value = serde_json::from_slice(&shown.stdout)?;
        let counter = |name: &str| {
            let rows = counters.as_array().context("a list")?;
            let row =
                rows.iter().find(|row| row["counter"] == name).with_context(|| format!("{name} in {counters}"))?;
            row["count"].as_u64().context("a number")
        };
        ensure!(counter("snat_allocated")? >= CONNECTIONS, "{counters}");
        ensure!(counter("snat_exhausted")? == 0, "{counters}");
        Ok(())
    })
}
