//! Service addresses.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::harness::{Cluster, SERVICES};

fn service(name: &str, spec: Value) -> Value {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"ports": [{"port": 80}], "selector": {"app": name}},
    });
    service["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    service
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_are_given_once_and_given_back() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::with(dir, &["--api-only", "--service-cidr", "10.9.0.0/28"]).await;
    let client = &cluster.client;
    let mut given = HashSet::new();
    let mut last = String::new();
    for n in 0.. {
        let answer = client.post(SERVICES, &service(&format!("s{n}"), json!({}))).await;
        if answer.code != 201 {
            let (code, _, message) = answer.failure();
            assert!(code >= 400 && message.contains("is full"), "{message}");
            break;
        }
        last = answer.json()["spec"]["clusterIP"].as_str().unwrap().to_owned();
        assert!(given.insert(last.clone()), "{last} twice");
    }
    assert!((12..=14).contains(&given.len()), "{given:?}");
    let asked = client.post(SERVICES, &service("t", json!({"clusterIP": last}))).await;
    let (_, reason, message) = asked.failure();
    assert_eq!(reason, "Invalid");
    assert!(message.contains("provided IP is already allocated"), "{message}");
    client.delete(&format!("{SERVICES}/s0")).await.expect(200);
    client.post(SERVICES, &service("t", json!({}))).await.expect(201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_families_headless_and_node_ports() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    let dual = client.post(SERVICES, &service("dual", json!({"ipFamilyPolicy": "RequireDualStack"}))).await.expect(201);
    assert_eq!(dual["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    assert_eq!(dual["spec"]["clusterIPs"].as_array().unwrap().len(), 2);
    let headless = client.post(SERVICES, &service("headless", json!({"clusterIP": "None"}))).await.expect(201);
    assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
    let node_port = client.post(SERVICES, &service("np", json!({"type": "NodePort"}))).await.expect(201);
    let port = node_port["spec"]["ports"][0]["nodePort"].as_u64().unwrap();
    assert!((30_000..=32_767).contains(&port));
    // An update keeps what is given.
    let mut changed = dual.clone();
    changed["spec"]["ports"][0]["port"] = 81.into();
    let changed = client.put(&format!("{SERVICES}/dual"), &changed).await.expect(200);
    assert_eq!(changed["spec"]["clusterIPs"], dual["spec"]["clusterIPs"]);
    let mut moved = changed.clone();
    moved["spec"]["clusterIP"] = "10.96.7.7".into();
    moved["spec"]["clusterIPs"][0] = "10.96.7.7".into();
    assert_eq!(client.put(&format!("{SERVICES}/dual"), &moved).await.failure().1, "Invalid");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn creators_at_the_same_time_get_different_addresses() {
    let cluster = Cluster::start().await;
    let makers = (0..40).map(|n| {
        let client = cluster.client.clone();
        tokio::spawn(async move {
            let made = client.post(SERVICES, &service(&format!("s{n}"), json!({}))).await.expect(201);
            made["spec"]["clusterIP"].as_str().unwrap().to_owned()
        })
    });
    let mut given = HashSet::new();
    for maker in makers.collect::<Vec<_>>() {
        assert!(given.insert(maker.await.unwrap()));
    }
}
