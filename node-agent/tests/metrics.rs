//! What the agent tells Prometheus, and whom it tells that a map fills up: a whole agent on a node of its own, and a control
//! service on the other side of a real wire.
//!
//! Needs root and unshare; skipped, with the reason printed, where these are missing.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that cannot go on fails"
)]

#[allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "nothing of a test is public, and another one uses the rest"
)]
mod node {
    pub mod pods;
    pub mod world;
}
mod support;

use std::time::{SystemTime, UNIX_EPOCH};

use node::world::{World, enter};
use serde_json::{Value, json};
use skep_proto::dataplane::v1 as dp;
use skep_proto::dataplane::v1::watch_event::Event as Wire;
use support::eventually;
use support::peer::Opened;

const SECOND: u64 = 1_000_000_000;

fn run(test: &str, story: impl AsyncFnOnce(&mut World)) {
    if !enter(test) {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut world = World::new().await;
        story(&mut world).await;
    });
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos().try_into().unwrap()
}

fn at(revision: u64, changed_at_unix_nanos: u64, event: Wire) -> dp::WatchEvent {
    dp::WatchEvent { revision, changed_at_unix_nanos, event: Some(event) }
}

fn service(n: u16) -> Wire {
    let [high, low] = n.to_be_bytes();
    Wire::Service(dp::Service {
        namespace: "shop".to_owned(),
        name: format!("web-{n}"),
        uid: format!("uid-{n}"),
        cluster_ips: vec![format!("10.96.{high}.{low}"), format!("fd00:96::{n:x}")],
        ports: vec![dp::ServicePort {
            name: String::new(),
            protocol: dp::Protocol::Tcp.into(),
            port: 80,
            node_port: 0,
        }],
        r#type: dp::ServiceType::ClusterIp.into(),
        ..Default::default()
    })
}

fn slice(n: u16) -> Wire {
    Wire::EndpointSlice(dp::EndpointSlice {
        namespace: "shop".to_owned(),
        name: format!("web-{n}-4"),
        service: format!("web-{n}"),
        endpoints: vec![dp::Endpoint {
            addresses: vec!["10.244.2.7".to_owned()],
            ready: true,
            serving: true,
            node: "n2".to_owned(),
            ..Default::default()
        }],
        ports: vec![dp::EndpointPort { name: String::new(), protocol: dp::Protocol::Tcp.into(), port: 8080 }],
    })
}

fn gone(kind: dp::Kind, name: String) -> Wire {
    Wire::Deleted(dp::Deleted { kind: kind.into(), namespace: "shop".to_owned(), name })
}

/// Opens the stream with a snapshot of these objects.
async fn begin(world: &mut World, objects: Vec<Wire>) -> Opened<dp::WatchEvent> {
    let stream = world.peer.next_dataplane().await;
    stream.send(at(9, 0, Wire::SnapshotBegin(dp::SnapshotBegin {}))).await;
    for object in objects {
        stream.send(at(9, 0, object)).await;
    }
    stream.send(at(9, 0, Wire::Synced(dp::Synced {}))).await;
    eventually("synced", async || (world.status().await?["dataplane"]["synced"] == true).then_some(())).await;
    stream
}

/// The value of one line of the text.
fn value(text: &str, name: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    Some(rest.parse().unwrap())
}

async fn value_becomes(world: &World, name: &str, expected: f64) {
    eventually(&format!("{name} {expected}"), async || {
        (value(&world.metrics().await?, name)? == expected).then_some(())
    })
    .await;
}

const TIMES: &str = "skep_network_programming_seconds";

#[test]
fn the_way_of_a_change_to_the_maps_is_measured() {
    run("the_way_of_a_change_to_the_maps_is_measured", async |world: &mut World| {
        let agent = world.start_agent(&["--no-socket-lb"]);
        let stream = begin(world, vec![service(1), slice(1)]).await;
        let text = world.metrics().await.unwrap();
        assert!(!text.contains(&format!("{TIMES}_count")), "a snapshot says nothing of changes:\n{text}");
        value_becomes(world, r#"skep_map_entries{map="frontends"}"#, 2.0).await;

        // One change that was under way for five seconds, and one of a control service whose clock is an hour ahead.
        stream.send(at(10, now() - 5 * SECOND, service(2))).await;
        stream.send(at(11, now() + 3600 * SECOND, slice(2))).await;
        for kind in ["Service", "EndpointSlice"] {
            value_becomes(world, &format!(r#"{TIMES}_count{{kind="{kind}"}}"#), 1.0).await;
        }
        let text = world.metrics().await.unwrap();
        let of_services = |what: &str| value(&text, &format!(r#"{TIMES}_{what}{{kind="Service"}}"#)).unwrap();
        assert!(of_services("sum") >= 5.0, "{text}");
        assert_eq!(value(&text, &format!(r#"{TIMES}_bucket{{le="2.5",kind="Service"}}"#)), Some(0.0));
        assert_eq!(value(&text, &format!(r#"{TIMES}_sum{{kind="EndpointSlice"}}"#)), Some(0.0));

        // What goes is measured too, and what has another kind is not.
        let workload = dp::Workload {
            namespace: "shop".to_owned(),
            name: "pod".to_owned(),
            uid: "pod-uid".to_owned(),
            node: "n2".to_owned(),
            addresses: vec!["10.244.2.7".to_owned()],
            ..Default::default()
        };
        stream.send(at(12, now(), Wire::Workload(workload))).await;
        stream.send(at(13, now(), gone(dp::Kind::Service, "web-2".to_owned()))).await;
        value_becomes(world, &format!(r#"{TIMES}_count{{kind="Service"}}"#), 2.0).await;
        value_becomes(world, r#"skep_map_entries{map="frontends"}"#, 2.0).await;

        let text = world.metrics().await.unwrap();
        for (name, expected) in [
            ("skep_dataplane_queue_depth", 0.0),
            ("skep_map_write_failures_total", 0.0),
            (r#"skep_map_capacity{map="frontends"}"#, 262_144.0),
            (r#"skep_map_entries{map="nat"}"#, 0.0),
            (r#"skep_map_capacity{map="nat"}"#, 524_288.0),
            (r#"skep_dropped_packets_total{reason="policy_denied",direction="ingress"}"#, 0.0),
            ("skep_dataplane_snat_allocated_total", 0.0),
            ("skep_dns_tcp_queries_total", 0.0),
        ] {
            assert_eq!(value(&text, name), Some(expected), "{name} in\n{text}");
        }
        assert!(value(&text, "process_resident_memory_bytes").unwrap() > 1e6);
        assert!(value(&text, "skep_map_writes_total").unwrap() > 0.0);
        assert_eq!(text.lines().filter(|line| line.starts_with("# TYPE skep_map_entries ")).count(), 1);
        assert!(text.ends_with("# EOF\n"), "{text}");
        value_becomes(world, r#"skep_map_entries{map="conntrack"}"#, 0.0).await;
        value_becomes(world, "skep_dns_services", 1.0).await;

        let (code, text) = world.node_api_get("/metrics", "prometheus", "system:masters").await.unwrap();
        assert_eq!((code, value(&text, &format!(r#"{TIMES}_count{{kind="Service"}}"#))), (200, Some(2.0)));
        let refused = world.node_api_get("/metrics", "system:node:n2", "system:nodes").await.unwrap();
        assert!(refused.0 == 403 && !refused.1.contains("skep_"), "{refused:?}");
        agent.stop_cleanly();
    });
}

/// The condition that the node has reported last.
async fn pressure(world: &World, status: &str) -> Value {
    eventually(&format!("DataplaneMapPressure is {status}"), async || {
        let reported = world.peer.record(|record| record.node_statuses.last().cloned())?;
        let conditions = reported["conditions"].as_array()?;
        conditions.iter().find(|c| c["type"] == "DataplaneMapPressure" && c["status"] == status).cloned()
    })
    .await
}

#[test]
fn a_map_that_fills_up_is_reported_and_can_be_made_larger() {
    run("a_map_that_fills_up_is_reported_and_can_be_made_larger", async |world: &mut World| {
        let services = 470;
        let mut agent = world.start_agent(&["--no-socket-lb", "--service-entries", "1024"]);
        let stream = begin(world, (1..=services).map(service).collect()).await;
        let condition = pressure(world, "True").await;
        assert_eq!(condition["reason"], "MapsNearlyFull");
        let message = "map frontends: 940 of 1024 entries, 91% (--service-entries makes it larger)";
        assert_eq!(condition["message"], message);
        let status = world.status().await.unwrap();
        assert_eq!(status["mapsNearlyFull"], json!([{"map": "frontends", "entries": 940, "capacity": 1024}]));
        agent.kill();
        drop(stream);

        let again = world.start_agent(&["--no-socket-lb", "--service-entries", "4096"]);
        let _stream = world.peer.next_dataplane().await;
        // The state is not complete yet: these are the entries of the agent before.
        value_becomes(world, r#"skep_map_entries{map="frontends"}"#, 940.0).await;
        value_becomes(world, r#"skep_map_capacity{map="frontends"}"#, 4096.0).await;
        pressure(world, "False").await;
        assert_eq!(world.status().await.unwrap()["mapsNearlyFull"], json!([]));
        again.stop_cleanly();
    });
}
