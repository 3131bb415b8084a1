//! Pods and nodes that go away.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use skep_tests::command::wait_until;
use skep_tests::testbed::TestCluster;
use skep_tests::{Cluster as _, Member, Spec, manifest};

/// Name and node of every Ready pod of the Deployment.
fn ready_pods(cluster: &TestCluster) -> Result<Vec<(String, String)>> {
    let pods = cluster.kubectl().json("get pods -l app=web")?;
    let items = pods["items"].as_array().context("a list")?;
    let ready = items.iter().filter(|pod| {
        let conditions = pod["status"]["conditions"].as_array();
        let ready = conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True");
        ready && pod["metadata"]["deletionTimestamp"].is_null()
    });
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    Ok(ready.map(|pod| (text(&pod["metadata"]["name"]), text(&pod["spec"]["nodeName"]))).collect())
}

#[test]
fn pods_are_replaced() -> Result<()> {
    let mut spec = Spec::new("t-failure", 2);
    spec.control_args = vec!["--node-monitor-grace-seconds=5".to_owned(), "--node-eviction-seconds=2".to_owned()];
    TestCluster::run(spec, |cluster| {
        let kubectl = cluster.kubectl();
        let manifests = manifest::join([
            manifest::deployment("web", 4),
            manifest::service("web"),
            manifest::client("client", "node-1", "role: client"),
        ]);
        kubectl.feed("apply -f -", &manifests)?;
        kubectl.run("rollout status deployment/web --timeout=60s")?;
        kubectl.run("wait --for=condition=Ready pod/client --timeout=60s")?;
        let client = cluster.place("default", "client")?;
        let address = kubectl.run("get service web -o jsonpath={.spec.clusterIP}")?;

        // A deleted pod is replaced.
        let (victim, _) = ready_pods(cluster)?.into_iter().next().context("no pod")?;
        kubectl.run(&format!("delete pod {victim} --wait=false"))?;
        wait_until("the deleted pod is replaced", Duration::from_secs(20), || {
            let pods = ready_pods(cluster)?;
            Ok(pods.len() == 4 && pods.iter().all(|(name, _)| *name != victim))
        })?;

        // A node whose agent and runtime are gone is NotReady, and its pods run elsewhere.
        let load = cluster
            .demo_in_background(&client, &format!("load {address}:80 --seconds 30 --concurrency 2 --interval-ms 5"))?;
        cluster.kill(Member::Agent("node-2"))?;
        cluster.kill(Member::Runtime("node-2"))?;
        let status = r#"get node node-2 -o jsonpath={.status.conditions[?(@.type=="Ready")].status}"#;
        cluster.wait_for(&kubectl, status, "Unknown", Duration::from_secs(30))?;
        ensure!(kubectl.run("get nodes")?.contains("NotReady"), "{}", kubectl.run("get nodes")?);
        wait_until("four pods are Ready on node-1", Duration::from_secs(40), || {
            let pods = ready_pods(cluster)?;
            Ok(pods.len() == 4 && pods.iter().all(|(_, node)| node == "node-1"))
        })?;
        let report = load.report()?;
        println!("while node-2 was lost: {} requests, answered by {:?}", report.ok, report.answers);
        ensure!(report.failed == 0, "{report:?}");

        // It comes back, and what it still runs of the replaced pods goes.
        cluster.start(Member::Runtime("node-2"))?;
        cluster.start(Member::Agent("node-2"))?;
        cluster.wait_for(&kubectl, status, "True", Duration::from_secs(30))?;
        wait_until("the replaced pods are gone", Duration::from_secs(40), || {
            let pods = kubectl.json("get pods -l app=web")?;
            Ok(pods["items"].as_array().is_some_and(|items| items.len() == 4))
        })
    })
}
