//! The control service dies at any moment: what it acknowledged is there afterwards.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use skep_tests::command::wait_until;
use skep_tests::proxy::Proxy;
use skep_tests::testbed::TestCluster;
use skep_tests::{Cluster as _, Member, Spec, manifest};

const KILLS: usize = 50;
const WRITERS: usize = 8;
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// An object whose last write but at most one was acknowledged.
struct Acknowledged {
    name: String,
    value: u64,
    revision: String,
    /// A later write that was not acknowledged: it may have happened or not.
    attempted: Option<u64>,
}

/// Creates objects, and updates each once, until told to stop; remembers what was acknowledged.
fn write_until(stop: &AtomicBool, proxy: &Proxy, writer: usize) -> Vec<Acknowledged> {
    let mut written: Vec<Acknowledged> = Vec::new();
    let mut number = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let update = written.last_mut().filter(|last| last.attempted.is_none() && number.is_multiple_of(2));
        let answer = match &update {
            Some(last) => {
                let mut object = object(&last.name, number);
                object["metadata"]["resourceVersion"] = json!(last.revision);
                proxy.put(&format!("{CONFIG_MAPS}/{}", last.name), &object)
            }
            None => proxy.post(CONFIG_MAPS, &object(&format!("writer-{writer}-{number}"), number)),
        };
        let revision = match answer {
            Ok(answer) if answer.code == 200 || answer.code == 201 => {
                answer.json()["metadata"]["resourceVersion"].as_str().map(str::to_owned)
            }
            _ => None,
        };
        match (update, revision) {
            (Some(last), Some(revision)) => (last.value, last.revision) = (number, revision),
            (Some(last), None) => last.attempted = Some(number),
            (None, Some(revision)) => {
                let name = format!("writer-{writer}-{number}");
                written.push(Acknowledged { name, value: number, revision, attempted: None });
            }
            (None, None) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    written
}

fn object(name: &str, value: u64) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value.to_string()}})
}

/// Some milliseconds up to `limit`, from the clock: which moment a kill hits need not be repeatable.
fn random_pause(limit: u64) -> Duration {
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().subsec_nanos();
    Duration::from_millis(u64::from(nanos / 1000) % limit)
}

#[test]
fn acknowledged_writes_survive() -> Result<()> {
    TestCluster::run(Spec::new("t-crash", 2), |cluster| {
        let kubectl = cluster.kubectl();
        let manifests = manifest::join([
            manifest::deployment("web", 2),
            manifest::service("web"),
            manifest::client("client", "node-1", "role: client"),
        ]);
        kubectl.feed("apply -f -", &manifests)?;
        kubectl.run("rollout status deployment/web --timeout=60s")?;
        kubectl.run("wait --for=condition=Ready pod/client --timeout=60s")?;
        let client = cluster.place("default", "client")?;
        let address = kubectl.run("get service web -o jsonpath={.spec.clusterIP}")?;
        // Uid and restarts of every pod.
        let names =
            "get pods -o jsonpath={range.items[*]}{.metadata.uid}{.status.containerStatuses[*].restartCount}{end}";
        let pods = kubectl.run(names)?;

        let load = cluster
            .demo_in_background(&client, &format!("load {address}:80 --seconds 40 --concurrency 2 --interval-ms 5"))?;
        let hold = cluster.demo_in_background(&client, &format!("hold {address}:80 --seconds 40 --connections 10"))?;
        let proxy = Proxy::start(&kubectl)?;
        let stop = AtomicBool::new(false);
        let (killed, acknowledged) = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let (stop, proxy) = (&stop, &proxy);
                    scope.spawn(move || write_until(stop, proxy, writer))
                })
                .collect();
            let killed = (0..KILLS).try_for_each(|_| {
                wait_until("the control service serves", Duration::from_secs(20), || {
                    Ok(proxy.get("/readyz").is_ok_and(|answer| answer.code == 200))
                })?;
                std::thread::sleep(random_pause(400));
                cluster.kill(Member::Control)?;
                cluster.start(Member::Control)
            });
            stop.store(true, Ordering::Relaxed);
            let acknowledged: Vec<Acknowledged> = writers.into_iter().filter_map(|w| w.join().ok()).flatten().collect();
            (killed, acknowledged)
        });
        killed?;

        cluster.wait_ready(Duration::from_secs(60))?;
        let list = kubectl.json("get configmaps")?;
        let items = list["items"].as_array().context("a list")?;
        let stored: std::collections::HashMap<&str, &Value> =
            items.iter().filter_map(|item| Some((item["metadata"]["name"].as_str()?, item))).collect();
        ensure!(acknowledged.len() > KILLS, "only {} writes were acknowledged", acknowledged.len());
        for write in &acknowledged {
            let object = stored
                .get(write.name.as_str())
                .with_context(|| format!("{} was acknowledged and is lost", write.name))?;
            let value = object["data"]["value"].as_str().and_then(|value| value.parse::<u64>().ok());
            let same = value == Some(write.value) && object["metadata"]["resourceVersion"] == write.revision;
            let newer = value.is_some() && value == write.attempted;
            ensure!(same || newer, "{}: {object}, acknowledged {} at {}", write.name, write.value, write.revision);
        }
        let (load, hold) = (load.report()?, hold.report()?);
        println!(
            "{KILLS} kills, {} acknowledged writes, {} requests, {} on old connections",
            acknowledged.len(),
            load.ok,
            hold.ok
        );
        ensure!(load.failed == 0 && hold.failed == 0, "{load:?} {hold:?}");
        ensure!(kubectl.run(names)? == pods, "a pod was replaced or restarted");
        Ok(())
    })
}
