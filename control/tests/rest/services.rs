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

fn node_ports(service: &Value) -> Vec<u64> {
    service["spec"]["ports"].as_array().unwrap().iter().filter_map(|port| port["nodePort"].as_u64()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_range_of_node_ports_is_shared_and_given_back() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::with(dir, &["--api-only", "--service-node-port-range", "31000-31001"]).await;
    let client = &cluster.client;
    let dns = json!([{"name": "udp", "port": 53, "protocol": "UDP"}, {"name": "tcp", "port": 53}]);
    let made = client.post(SERVICES, &service("dns", json!({"type": "NodePort", "ports": dns}))).await.expect(201);
    let given = node_ports(&made);
    assert_eq!((given.len(), given[0]), (2, given[1]), "one number for both protocols");
    let second = client.post(SERVICES, &service("a", json!({"type": "NodePort"}))).await.expect(201);
    assert_eq!(node_ports(&second)[0], 31_000 + 31_001 - given[0]);
    let (code, _, message) = client.post(SERVICES, &service("b", json!({"type": "NodePort"}))).await.failure();
    assert_eq!(code, 500, "{message}");
    assert!(message.contains("failed to allocate a nodePort: range is full"), "{message}");
    // Without node ports there is room for it.
    let spec = json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false});
    let balancer = client.post(SERVICES, &service("c", spec)).await.expect(201);
    assert!(node_ports(&balancer).is_empty());
    // A change of the type frees the number at once.
    let path = format!("{SERVICES}/a");
    let changed = client.patch(&path, "merge-patch", &json!({"spec": {"type": "ClusterIP"}})).await.expect(200);
    assert!(node_ports(&changed).is_empty() && changed["spec"].get("externalTrafficPolicy").is_none());
    let spec =
        json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "externalTrafficPolicy": "Local"});
    let local = client.post(SERVICES, &service("d", spec)).await.expect(201);
    let check = local["spec"]["healthCheckNodePort"].as_u64().unwrap();
    assert_eq!(check, node_ports(&second)[0]);
    // It is immutable, kept, and given back.
    let path = format!("{SERVICES}/d");
    let other = json!({"spec": {"healthCheckNodePort": given[0]}});
    let (_, reason, message) = client.patch(&path, "merge-patch", &other).await.failure();
    assert!(
        reason == "Invalid" && message.contains("spec.healthCheckNodePort: Forbidden: field is immutable"),
        "{message}"
    );
    let labelled = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"healthCheckNodePort": 0}});
    let kept = client.patch(&path, "merge-patch", &labelled).await.expect(200);
    assert_eq!(kept["spec"]["healthCheckNodePort"], check);
    let policy = json!({"spec": {"externalTrafficPolicy": "Cluster"}});
    let freed = client.patch(&path, "merge-patch", &policy).await.expect(200);
    assert!(freed["spec"].get("healthCheckNodePort").is_none());
    let asked = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": check}]});
    client.post(SERVICES, &service("e", asked.clone())).await.expect(201);
    let (_, _, message) = client.post(SERVICES, &service("f", asked)).await.failure();
    let expected = format!("spec.ports[0].nodePort: Invalid value: {check}: provided port is already allocated");
    assert!(message.contains(&expected), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_family_comes_and_goes() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::with(dir, &["--api-only", "--service-cidr", "10.9.0.0/28,fd09::/124"]).await;
    let client = &cluster.client;
    let made = client.post(SERVICES, &service("a", json!({}))).await.expect(201);
    assert_eq!(made["spec"]["ipFamilies"], json!(["IPv4"]));
    let path = format!("{SERVICES}/a");
    let policy = |policy: &str| json!({"spec": {"ipFamilyPolicy": policy}});
    let wide = client.patch(&path, "merge-patch", &policy("PreferDualStack")).await.expect(200);
    let addresses = wide["spec"]["clusterIPs"].as_array().unwrap().clone();
    assert_eq!((addresses.len(), &addresses[0]), (2, &made["spec"]["clusterIP"]));
    let held = async || {
        let contents = cluster.contents().await;
        let keys = contents.iter().map(|kv| String::from_utf8_lossy(&kv.key).into_owned());
        keys.filter(|key| key.starts_with("/registry/ranges/serviceips/")).count()
    };
    assert_eq!(held().await, 2);
    let narrow = client.patch(&path, "merge-patch", &policy("SingleStack")).await.expect(200);
    assert_eq!(narrow["spec"]["clusterIPs"], json!([addresses[0]]));
    assert_eq!(held().await, 1);
    // A name needs no address, and what is no name any more gets one.
    let named = json!({"spec": {"type": "ExternalName", "externalName": "db.example.org"}});
    let named = client.patch(&path, "merge-patch", &named).await.expect(200);
    assert!(named["spec"].get("clusterIP").is_none() && named["spec"].get("ipFamilyPolicy").is_none(), "{named}");
    assert_eq!(held().await, 0);
    let plain = json!({"spec": {"type": "ClusterIP", "externalName": null}});
    let plain = client.patch(&path, "merge-patch", &plain).await.expect(200);
    assert!(plain["spec"]["clusterIP"].is_string());
    assert_eq!(held().await, 1);
    client.delete(&path).await.expect(200);
    assert_eq!(held().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_has_a_door_of_its_own() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    client.post(SERVICES, &service("lb", json!({"type": "LoadBalancer"}))).await.expect(201);
    let path = format!("{SERVICES}/lb/status");
    let ingress =
        json!({"spec": {"type": "ClusterIP"}, "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}});
    let written = client.patch(&path, "merge-patch", &ingress).await.expect(200);
    assert_eq!(written["spec"]["type"], "LoadBalancer");
    assert_eq!(written["status"]["loadBalancer"]["ingress"], json!([{"ip": "192.0.2.1", "ipMode": "VIP"}]));
    assert_eq!(client.get(&path).await.expect(200)["status"], written["status"]);
    let wrong = json!({"status": {"loadBalancer": {"ingress": [{"ip": "nowhere"}]}}});
    assert_eq!(client.patch(&path, "merge-patch", &wrong).await.failure().1, "Invalid");
    let main = json!({"status": {"loadBalancer": {"ingress": []}}});
    let kept = client.patch(&format!("{SERVICES}/lb"), "merge-patch", &main).await.expect(200);
    assert_eq!(kept["status"], written["status"]);
    let plain = json!({"spec": {"type": "ClusterIP"}});
    let plain = client.patch(&format!("{SERVICES}/lb"), "merge-patch", &plain).await.expect(200);
    assert_eq!(plain["status"], json!({"loadBalancer": {}}));
}
