//! How soon packets obey a change of one endpoint.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use skep_tests::proxy::Proxy;
use skep_tests::testbed::{Client, PodPlace, TestCluster};
use skep_tests::{Spec, manifest};

use super::super::report::{Aim, Row};
use super::{BENCH, NODE, create_services, wait_for_service};

const SERVICES: usize = 10_000;
const CHANGES: usize = 300;
const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/moved";
/// A change that takes longer is an error.
const LIMIT: Duration = Duration::from_secs(5);

pub(super) fn run() -> Result<Vec<Row>> {
    println!("cluster of one node, changes of an endpoint...");
    let cluster = TestCluster::up(Spec::new("bench-moves", 1))?;
    let kubectl = cluster.kubectl();
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "moved"},
        "spec": {"ports": [{"port": 80, "protocol": "UDP"}]},
    });
    let manifests = manifest::join([
        manifest::server("web", NODE),
        manifest::server("other", NODE),
        manifest::client("client", NODE, "role: client"),
        super::service("web", "ClusterIP"),
        service.to_string(),
    ]);
    kubectl.feed("apply -f -", &manifests)?;
    kubectl.run("wait --for=condition=Ready pod --all --timeout=60s")?;
    let [web, other, client] = ["web", "other", "client"].map(|pod| cluster.place("default", pod));
    let (servers, client) = ([web?, other?], client?);
    println!("{SERVICES} Services through the API...");
    let last = create_services(&cluster, 0..SERVICES)?;
    wait_for_service(&cluster, &Client::Pod(client.clone()), &last)?;
    let address: SocketAddr =
        format!("{}:80", kubectl.run("get service moved -o jsonpath={.spec.clusterIP}")?).parse()?;

    let proxy = Proxy::start(&kubectl)?;
    let answer = proxy.post(SLICE.trim_end_matches("/moved"), &slice(&servers[0]))?;
    ensure!(answer.code == 201, "{}", String::from_utf8_lossy(&answer.body));
    let (requested, acknowledged) = measure(&cluster, &client, address, &servers, &proxy)?;
    let case = format!("one endpoint changed, {SERVICES} Services");
    let row = |figure: &str, times: &[f64], share: f64, aim| {
        let at = ((times.len() as f64 * share) as usize).min(times.len() - 1);
        Row::new(BENCH, &case, figure, times[at], "ms", aim)
    };
    Ok(vec![
        row("p50 from the acknowledgement", &acknowledged, 0.5, Aim::None),
        row("p99 from the acknowledgement", &acknowledged, 0.99, Aim::AtMost(10.0)),
        row("p50 from the request", &requested, 0.5, Aim::None),
        row("p99 from the request", &requested, 0.99, Aim::None),
    ])
}

fn slice(server: &PodPlace) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "moved", "labels": {"kubernetes.io/service-name": "moved"}},
        "addressType": "IPv4", "endpoints": [{"addresses": [server.address]}],
        "ports": [{"port": 8080, "protocol": "UDP"}],
    })
}

/// Milliseconds from the request and from its acknowledgement to the first answer of the new server, each sorted.
fn measure(
    cluster: &TestCluster,
    client: &PodPlace,
    address: SocketAddr,
    servers: &[PodPlace; 2],
    proxy: &Proxy,
) -> Result<(Vec<f64>, Vec<f64>)> {
    // Who answers now, and since when.
    let seen = Mutex::new((String::new(), Instant::now()));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let result = cluster.in_pod_network(client, || ask(address, &seen, &stop))?;
            result.context("asking the Service")
        });
        let changed = (1..=CHANGES)
            .map(|turn| {
                // At any time of the agent's own rhythm.
                std::thread::sleep(Duration::from_millis(20 + (turn * 7 % 13) as u64));
                let server = &servers[turn % 2];
                let requested = Instant::now();
                let answer = proxy.put(SLICE, &slice(server))?;
                let acknowledged = Instant::now();
                ensure!(answer.code == 200, "{}", String::from_utf8_lossy(&answer.body));
                loop {
                    let (name, since) = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    if name == server.name {
                        let milliseconds = |from: Instant| since.saturating_duration_since(from).as_secs_f64() * 1e3;
                        return Ok((milliseconds(requested), milliseconds(acknowledged)));
                    }
                    ensure!(acknowledged.elapsed() < LIMIT, "{} does not answer", server.name);
                    std::thread::sleep(Duration::from_micros(200));
                }
            })
            .collect::<Result<Vec<_>>>();
        stop.store(true, Ordering::Relaxed);
        let Ok(asked) = asking.join() else { bail!("the asking thread panicked") };
        asked?;
        let (mut requested, mut acknowledged): (Vec<f64>, Vec<f64>) = changed?.into_iter().unzip();
        requested.sort_by(f64::total_cmp);
        acknowledged.sort_by(f64::total_cmp);
        Ok((requested, acknowledged))
    })
}

/// Asks without end, each time from a socket of its own, and notes when another server answers.
fn ask(address: SocketAddr, seen: &Mutex<(String, Instant)>, stop: &AtomicBool) -> Result<()> {
    let mut buffer = [0; 256];
    while !stop.load(Ordering::Relaxed) {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.set_read_timeout(Some(Duration::from_secs(1)))?;
        socket.send_to(b"who\n", address)?;
        let (length, _) = socket.recv_from(&mut buffer).context("no answer")?;
        let now = Instant::now();
        let answer = String::from_utf8_lossy(&buffer[..length]);
        let name = answer.split_whitespace().next().unwrap_or_default();
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.0 != name {
            *seen = (name.to_owned(), now);
        }
    }
    Ok(())
}
