//! Address pools and the Services that get addresses from them, with the controllers at work.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Client, Cluster, SERVICES};

const POOLS: &str = "/apis/skep.io/v1alpha1/addresspools";

fn pool(name: &str, addresses: &[&str]) -> Value {
    json!({
        "apiVersion": "skep.io/v1alpha1", "kind": "AddressPool", "metadata": {"name": name},
        "spec": {"addresses": addresses},
    })
}

fn balancer(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}], "selector": {"app": name}, "ipFamilyPolicy": "RequireDualStack"},
    })
}

/// Reads until it is as it should be.
async fn until(client: &Client, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    for _ in 0..400 {
        last = client.get(path).await.json();
        if holds(&last) {
            return last;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{path} does not come to it: {last}")
}

fn addresses(service: &Value) -> Vec<String> {
    let ingress = service["status"]["loadBalancer"]["ingress"].as_array().into_iter().flatten();
    ingress.map(|ingress| ingress["ip"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranges_of_a_pool_are_nobody_elses() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    let made = client.post(POOLS, &pool("a", &["192.0.2.0/28", "2001:db8::/120"])).await.expect(201);
    assert_eq!((&made["spec"]["autoAssign"], &made["metadata"]["generation"]), (&json!(true), &json!(1)));
    for (ranges, with) in [
        (["192.0.2.15-192.0.2.20"], "AddressPool \\\"a\\\""),
        (["10.96.4.0/24"], "the Service range 10.96.0.0/16"),
        (["10.0.0.0/8"], "the Service range 10.96.0.0/16"),
        (["fd53:6b65:7070:1::/64"], "the pod range fd53:6b65:7070::/56"),
    ] {
        let answer = client.post(POOLS, &pool("b", &ranges)).await;
        let (code, reason, _) = answer.failure();
        assert_eq!((code, reason.as_str()), (422, "Invalid"));
        let cause = &answer.json()["details"]["causes"][0];
        assert_eq!((&cause["field"], &cause["reason"]), (&json!("spec.addresses[0]"), &json!("FieldValueInvalid")));
        assert!(cause.to_string().contains(&format!("overlaps with {with}")), "{cause}");
    }
    // Its own ranges do not stand in a pool's way.
    let path = format!("{POOLS}/a");
    let wider = json!({"spec": {"addresses": ["192.0.2.0/27"]}});
    assert_eq!(client.patch(&path, "merge-patch", &wider).await.expect(200)["metadata"]["generation"], 2);
    client.post(POOLS, &pool("b", &["2001:db8::/120"])).await.expect(201);
    let back = json!({"spec": {"addresses": ["192.0.2.0/27", "2001:db8::1-2001:db8::2"]}});
    assert_eq!(client.patch(&path, "merge-patch", &back).await.failure().0, 422);
    let makers = (0..8).map(|n| {
        let client = client.clone();
        tokio::spawn(async move { client.post(POOLS, &pool(&format!("same{n}"), &["198.51.100.0/24"])).await.code })
    });
    let mut codes = Vec::new();
    for maker in makers.collect::<Vec<_>>() {
        codes.push(maker.await.unwrap());
    }
    codes.sort_unstable();
    assert_eq!(codes, [201, 422, 422, 422, 422, 422, 422, 422], "of those at the same time one is made");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_balancer_has_addresses_while_it_is_one() {
    let cluster = Cluster::with(tempfile::tempdir().unwrap(), &[]).await;
    let client = &cluster.client;
    let lb = format!("{SERVICES}/lb");
    client.post(SERVICES, &balancer("lb")).await.expect(201);
    let waits = |service: &Value| service["status"]["conditions"][0]["reason"] == "NoAddressPool";
    until(client, &lb, waits).await;
    let events = "/api/v1/namespaces/default/events";
    let told = |events: &Value| {
        let all = events["items"].as_array().unwrap().iter();
        all.filter(|event| event["involvedObject"]["name"] == "lb").any(|event| event["reason"] == "AddressNotAssigned")
    };
    until(client, events, told).await;
    client.post(POOLS, &pool("outside", &["192.0.2.0/31", "2001:db8::10/127"])).await.expect(201);
    let served = until(client, &lb, |service| addresses(service).len() == 2).await;
    assert_eq!(addresses(&served), ["192.0.2.0", "2001:db8::10"]);
    assert_eq!(served["status"]["loadBalancer"]["ingress"][0]["ipMode"], "VIP");
    for name in ["second", "third"] {
        client.post(SERVICES, &balancer(name)).await.expect(201);
    }
    let (second, third) = (format!("{SERVICES}/second"), format!("{SERVICES}/third"));
    until(client, &second, |service| addresses(service) == ["192.0.2.1", "2001:db8::11"]).await;
    until(client, &third, |service| service["status"]["conditions"][0]["reason"] == "AddressPoolExhausted").await;
    let count = json!({"ipv4": {"assigned": 2, "total": 2}, "ipv6": {"assigned": 2, "total": 2}});
    until(client, &format!("{POOLS}/outside"), |pool| pool["status"] == count).await;
    client.patch(&second, "merge-patch", &json!({"spec": {"type": "ClusterIP"}})).await.expect(200);
    until(client, &third, |service| addresses(service) == ["192.0.2.1", "2001:db8::11"]).await;
    // A new start of the service keeps who has what.
    let Cluster { control, dir, .. } = cluster;
    control.stop().await;
    let cluster = Cluster::with(dir, &[]).await;
    let client = &cluster.client;
    client.post(SERVICES, &balancer("fourth")).await.expect(201);
    let fourth = format!("{SERVICES}/fourth");
    until(client, &fourth, |service| service["status"]["conditions"][0]["reason"] == "AddressPoolExhausted").await;
    assert_eq!(addresses(&client.get(&lb).await.json()), ["192.0.2.0", "2001:db8::10"]);
    assert_eq!(addresses(&client.get(&third).await.json()), ["192.0.2.1", "2001:db8::11"]);
    client.delete(&lb).await.expect(200);
    until(client, &fourth, |service| addresses(service) == ["192.0.2.0", "2001:db8::10"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_dns_is_a_service_at_the_tenth_address() {
    let arguments = ["--service-cidr", "10.9.0.0/24,fd09::/120"];
    let cluster = Cluster::with(tempfile::tempdir().unwrap(), &arguments).await;
    let client = &cluster.client;
    let dns = "/api/v1/namespaces/kube-system/services/kube-dns";
    let made = until(client, dns, |service| service["spec"]["clusterIP"] == "10.9.0.10").await;
    assert_eq!(made["spec"]["clusterIPs"], json!(["10.9.0.10", "fd09::a"]));
    assert_eq!(made["metadata"]["labels"]["k8s-app"], "kube-dns");
    assert!(made["spec"].get("selector").is_none());
    client.delete(dns).await.expect(200);
    let uid = &made["metadata"]["uid"];
    until(client, dns, |service| service["spec"]["clusterIP"] == "10.9.0.10" && service["metadata"]["uid"] != *uid)
        .await;
    // An administrator puts another DNS server in its place.
    let selector = json!({"spec": {"selector": {"k8s-app": "coredns"}, "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]}});
    let own = client.patch(dns, "merge-patch", &selector).await.expect(200);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(client.get(dns).await.expect(200), own);
}
