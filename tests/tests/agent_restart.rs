//! The agent dies and comes back: pods, connections and requests never notice.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use skep_tests::testbed::TestCluster;
use skep_tests::{Cluster as _, Member, Spec, manifest};

/// Ids and restart counts of every container.
fn containers(cluster: &TestCluster) -> Result<Vec<Value>> {
    let pods = cluster.kubectl().json("get pods")?;
    let items = pods["items"].as_array().context("a list")?;
    let statuses = items.iter().filter_map(|pod| pod["status"]["containerStatuses"].as_array()).flatten();
    Ok(statuses.map(|status| serde_json::json!([status["containerID"], status["restartCount"]])).collect())
}

#[test]
fn restart_is_invisible() -> Result<()> {
    TestCluster::run(Spec::new("t-restart", 2), |cluster| {
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
        let before = containers(cluster)?;

        let load = cluster
            .demo_in_background(&client, &format!("load {address}:80 --seconds 20 --concurrency 4 --interval-ms 2"))?;
        let hold = cluster.demo_in_background(&client, &format!("hold {address}:80 --seconds 20 --connections 20"))?;
        std::thread::sleep(Duration::from_secs(1));
        for round in 0..3 {
            for node in ["node-1", "node-2"] {
                cluster.kill(Member::Agent(node))?;
            }
            // Changed while nobody looks: a Service that is new, and one that lost its endpoints.
            kubectl.feed("apply -f -", &service(&format!("late-{round}"), "web"))?;
            let gone = (round > 0).then(|| format!("late-{}", round - 1));
            if let Some(gone) = &gone {
                kubectl.feed("apply -f -", &service(gone, "nobody"))?;
            }
            std::thread::sleep(Duration::from_millis(500));
            let begin = Instant::now();
            for node in ["node-1", "node-2"] {
                cluster.start(Member::Agent(node))?;
            }
            answers(cluster, &client, &format!("late-{round}"), true)?;
            if let Some(gone) = &gone {
                answers(cluster, &client, gone, false)?;
            }
            println!("round {round}: Services right {:.2} s after the agents' return", begin.elapsed().as_secs_f64());
        }
        let (load, hold) = (load.report()?, hold.report()?);
        println!("{} requests on new connections, {} on 20 old ones", load.ok, hold.ok);
        ensure!(load.failed == 0 && load.ok > 0, "{load:?}");
        ensure!(hold.failed == 0 && hold.ok > 0, "{hold:?}");
        ensure!(containers(cluster)? == before, "a container was restarted: {before:?} {:?}", containers(cluster)?);
        cluster.wait_ready(Duration::from_secs(30))
    })
}

fn service(name: &str, app: &str) -> String {
    manifest::service(name).replace(&format!("app: {name}"), &format!("app: {app}"))
}

fn answers(cluster: &TestCluster, client: &skep_tests::testbed::PodPlace, service: &str, expected: bool) -> Result<()> {
    let address = cluster.kubectl().run(&format!("get service {service} -o jsonpath={{.spec.clusterIP}}"))?;
    skep_tests::command::wait_until(&format!("{service} answers is {expected}"), Duration::from_secs(10), || {
        let report = cluster.demo(client, &format!("load {address}:80 --count 1 --timeout-ms 300"))?;
        Ok((report.failed == 0) == expected)
    })
}
