//! What becomes of clients when the endpoints of their Service change.
#![allow(clippy::print_stdout, reason = "figures for whoever reads the test's output")]

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use skep_tests::testbed::{Client, PodPlace, Report, TestCluster};
use skep_tests::{Spec, manifest};

/// Two servers, each on a node, and a Service whose slice the tests write by hand: pods stay while endpoints go.
struct Stage<'a> {
    cluster: &'a TestCluster,
    servers: Vec<PodPlace>,
    client: PodPlace,
    address: String,
}

fn run(name: &str, socket_hooks: bool, test: impl FnOnce(&Stage<'_>) -> Result<()>) -> Result<()> {
    let mut spec = Spec::new(name, 2);
    if !socket_hooks {
        spec.agent_args.push("--no-socket-lb".to_owned());
    }
    TestCluster::run(spec, |cluster| {
        let kubectl = cluster.kubectl();
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "by-hand"},
            "spec": {"ports": [
                {"name": "http", "port": 80, "protocol": "TCP"},
                {"name": "datagram", "port": 80, "protocol": "UDP"},
            ]},
        });
        let manifests = manifest::join([
            manifest::client("client", "node-1", "role: client"),
            manifest::server("one", "node-1"),
            manifest::server("two", "node-2"),
            service.to_string(),
        ]);
        kubectl.feed("apply -f -", &manifests)?;
        kubectl.run("wait --for=condition=Ready pod --all --timeout=60s")?;
        let ip = kubectl.run("get service by-hand -o jsonpath={.spec.clusterIP}")?;
        let servers = vec![cluster.place("default", "one")?, cluster.place("default", "two")?];
        let client = cluster.place("default", "client")?;
        test(&Stage { cluster, servers, client, address: format!("{ip}:80") })
    })
}

impl Stage<'_> {
    /// Makes the servers of these numbers the Service's endpoints.
    fn serve(&self, servers: &[usize]) -> Result<()> {
        let endpoints: Vec<Value> =
            servers.iter().map(|&index| json!({"addresses": [self.servers[index].address]})).collect();
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": "by-hand", "labels": {"kubernetes.io/service-name": "by-hand"}},
            "addressType": "IPv4", "endpoints": endpoints,
            "ports": [
                {"name": "http", "port": 8080, "protocol": "TCP"},
                {"name": "datagram", "port": 8080, "protocol": "UDP"},
            ],
        });
        self.cluster.kubectl().feed("apply -f -", &slice.to_string()).map(drop)
    }

    /// Waits until a new connection from `client` is answered by this server.
    fn wait_for(&self, client: &Client, server: &str) -> Result<()> {
        let mut last = Report::default();
        skep_tests::command::wait_until(&format!("{server} answers"), Duration::from_secs(10), || {
            last = self.cluster.demo_from(client, &format!("load {} --count 5 --timeout-ms 500", self.address))?;
            Ok(last.answers.keys().eq([server]))
        })
        .with_context(|| format!("{last:?}"))
    }
}

/// A connection that only waits learns that its backend is gone from the Service, in a pod and on the node itself.
#[test]
fn sockets_of_a_backend_that_is_gone_are_ended() -> Result<()> {
    run("t-gone", true, |stage| {
        for (name, client) in [("pod", Client::Pod(stage.client.clone())), ("host", Client::Host("node-1".to_owned()))]
        {
            stage.serve(&[1])?;
            stage.wait_for(&client, "two")?;
            let line = format!("wait {} --seconds 10", stage.address);
            let report = std::thread::scope(|scope| {
                let waiting = scope.spawn(|| stage.cluster.demo_from(&client, &line));
                // The connection has to be there first.
                std::thread::sleep(Duration::from_millis(500));
                stage.serve(&[0])?;
                waiting.join().map_err(|_| anyhow::anyhow!("the client's thread panicked"))?
            })?;
            println!("{name}: {} then {}", report.answer.trim(), report.end);
            ensure!(report.answer.starts_with("two ") && report.end == "ConnectionAborted", "{name}: {report:?}");
            stage.wait_for(&client, "one")?;
        }
        Ok(())
    })
}

/// A datagram socket goes on with another backend, connected or not.
fn datagrams_move(stage: &Stage<'_>) -> Result<()> {
    let client = Client::Pod(stage.client.clone());
    for connected in ["", "--connected"] {
        stage.serve(&[1])?;
        stage.wait_for(&client, "two")?;
        let line = format!("flow {} {connected} --count 60 --interval-ms 50 --timeout-ms 300", stage.address);
        let report = std::thread::scope(|scope| {
            let flow = scope.spawn(|| stage.cluster.demo_from(&client, &line));
            std::thread::sleep(Duration::from_millis(1000));
            stage.serve(&[0])?;
            flow.join().map_err(|_| anyhow::anyhow!("the client's thread panicked"))?
        })?;
        println!("{connected:?}: {:?}, failures {:?}", report.answers, report.failures);
        // Both pods live, so that nothing is lost; the last endpoint only is the question.
        ensure!(report.answers.get("two").is_some_and(|&n| n >= 5), "{connected:?}: {report:?}");
        ensure!(report.answers.get("one").is_some_and(|&n| n >= 10), "does not move: {connected:?}: {report:?}");
        ensure!(report.failed == 0, "{connected:?}: {report:?}");
    }
    Ok(())
}

/// A datagram socket that was there before the first endpoint works as soon as there is one.
fn datagrams_before_the_first_endpoint(stage: &Stage<'_>) -> Result<()> {
    let client = Client::Pod(stage.client.clone());
    for connected in ["", "--connected"] {
        stage.serve(&[])?;
        skep_tests::command::wait_until("nobody answers", Duration::from_secs(10), || {
            let report =
                stage.cluster.demo_from(&client, &format!("load {} --count 2 --timeout-ms 300", stage.address))?;
            Ok(report.failures.get("ConnectionRefused") == Some(&2))
        })?;
        let line = format!("flow {} {connected} --count 60 --interval-ms 50 --timeout-ms 300", stage.address);
        let report = std::thread::scope(|scope| {
            let flow = scope.spawn(|| stage.cluster.demo_from(&client, &line));
            std::thread::sleep(Duration::from_millis(1000));
            stage.serve(&[0])?;
            flow.join().map_err(|_| anyhow::anyhow!("the client's thread panicked"))?
        })?;
        println!("{connected:?}: {:?}, failures {:?}", report.answers, report.failures);
        ensure!(report.failed > 0, "an answer without endpoints? {connected:?}: {report:?}");
        ensure!(report.answers.get("one").is_some_and(|&n| n >= 10), "stays dark: {connected:?}: {report:?}");
    }
    Ok(())
}

#[test]
fn datagrams_with_socket_hooks() -> Result<()> {
    run("t-datagram", true, |stage| {
        datagrams_move(stage)?;
        datagrams_before_the_first_endpoint(stage)
    })
}

#[test]
fn datagrams_with_tc_alone() -> Result<()> {
    run("t-datagram-tc", false, |stage| {
        datagrams_move(stage)?;
        datagrams_before_the_first_endpoint(stage)
    })
}
