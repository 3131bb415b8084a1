//! The agent as a whole on a node of its own: network, mount and cgroup namespaces, a kernel dataplane, pods that are
//! network namespaces, the CNI plugin as the runtime calls it, and a control service on the other side of a real wire.
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
    pub mod plugin;
    pub mod pods;
    pub mod world;
}
mod support;

use std::time::Duration;

use node::plugin::Plugin;
use node::pods::Pod;
use node::world::{World, enter};
use serde_json::json;
use skep_proto::dataplane::v1 as dp;
use skep_proto::dataplane::v1::watch_event::Event as Wire;
use support::eventually;

const CLUSTER_IP: &str = "10.96.0.10";
const CLUSTER_IP6: &str = "fd00:96::10";

fn service() -> Wire {
    Wire::Service(dp::Service {
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        uid: "service-uid".to_owned(),
        cluster_ips: vec![CLUSTER_IP.to_owned(), CLUSTER_IP6.to_owned()],
        ports: vec![dp::ServicePort {
            name: "http".to_owned(),
            protocol: dp::Protocol::Tcp.into(),
            port: 80,
            node_port: 0,
        }],
        r#type: dp::ServiceType::ClusterIp.into(),
        ..Default::default()
    })
}

fn slice(name: &str, addr: &str, pod: &str) -> Wire {
    Wire::EndpointSlice(dp::EndpointSlice {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        service: "web".to_owned(),
        endpoints: vec![dp::Endpoint {
            addresses: vec![addr.to_owned()],
            ready: true,
            serving: true,
            terminating: false,
            node: "n1".to_owned(),
            zone: String::new(),
            pod: pod.to_owned(),
            ..Default::default()
        }],
        ports: vec![dp::EndpointPort { name: "http".to_owned(), protocol: dp::Protocol::Tcp.into(), port: 8080 }],
    })
}

fn workload(pod: &Pod) -> Wire {
    Wire::Workload(dp::Workload {
        namespace: "shop".to_owned(),
        name: pod.name.clone(),
        uid: pod.uid(),
        node: "n1".to_owned(),
        addresses: pod.addresses.iter().map(ToString::to_string).collect(),
        labels: [("app".to_owned(), pod.name.clone())].into(),
        named_ports: Vec::new(),
    })
}

fn route(name: &str, cidr: &str, via: &str) -> Wire {
    Wire::NodeRoute(dp::NodeRoute {
        name: name.to_owned(),
        addresses: vec![via.to_owned()],
        pod_cidrs: vec![cidr.to_owned()],
        ready: true,
        ..Default::default()
    })
}

fn default_deny(app: &str) -> Wire {
    Wire::NetworkPolicy(dp::NetworkPolicy {
        namespace: "shop".to_owned(),
        name: "deny".to_owned(),
        pod_selector: Some(dp::LabelSelector {
            match_labels: [("app".to_owned(), app.to_owned())].into(),
            match_expressions: Vec::new(),
        }),
        ingress_isolated: true,
        egress_isolated: false,
        ingress: Vec::new(),
        egress: Vec::new(),
    })
}

fn at(revision: u64, event: Wire) -> dp::WatchEvent {
    dp::WatchEvent { revision, event: Some(event), ..Default::default() }
}

#[test]
fn a_node_runs_its_pods_network() {
    if !enter("a_node_runs_its_pods_network") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut world = World::new().await;
        pods_get_addresses_and_reach_each_other(&mut world).await;
    });
}

#[allow(clippy::too_many_lines, reason = "one story")]
async fn pods_get_addresses_and_reach_each_other(world: &mut World) {
    let mut agent = world.start_agent(&["--no-socket-lb"]);
    let plugin = Plugin::new(world);

    // Before the node has its ranges nothing is promised, and afterwards the runtime is told.
    eventually("conflist", async || world.conflist().exists().then_some(())).await;
    assert_eq!(world.peer.record(|record| record.registrations.len()), 1);
    let registered: serde_json::Value =
        world.peer.record(|record| serde_json::from_slice(&record.registrations[0].node).unwrap());
    assert_eq!(registered["metadata"]["labels"]["kubernetes.io/hostname"], "n1");
    assert_eq!(registered["status"]["addresses"][0], json!({"type": "InternalIP", "address": "192.0.2.2"}));
    assert_eq!(plugin.version()["supportedVersions"], json!(["0.3.1", "0.4.0", "1.0.0"]));

    // For whoever reads why this test failed.
    let mut all_flows = world.flows().await;
    tokio::spawn(async move {
        while let Some(record) = all_flows.try_next().await {
            println!("flow: {record}");
        }
    });

    // Until it knows every policy, the node lets no new pod talk.
    let stream = world.peer.next_dataplane().await;
    assert_eq!(stream.resume_revision, 0);
    stream.send(at(9, Wire::SnapshotBegin(dp::SnapshotBegin {}))).await;
    let shop = dp::Namespace { name: "shop".to_owned(), ..dp::Namespace::default() };
    stream.send(at(9, Wire::Namespace(shop))).await;
    stream.send(at(9, Wire::Synced(dp::Synced {}))).await;
    eventually("synced", async || {
        let status = world.status().await?;
        (status["dataplane"]["synced"] == true).then_some(())
    })
    .await;

    // Pods.
    let (mut web, mut client) = (Pod::new("web"), Pod::new("client"));
    let result = plugin.add(&mut web, "1.0.0");
    assert_eq!(result["ips"][0]["address"], "10.244.1.1/32");
    assert_eq!(result["ips"][1]["address"], "fd00:244:1::1/128");
    assert_eq!(result["interfaces"][1]["name"], "eth0");
    let old = plugin.add(&mut client, "0.3.1");
    assert_eq!(old["ips"][0]["version"], "4");
    plugin.check(&client);
    let loopback = plugin.loopback(&client);
    assert_eq!(loopback["ips"][0]["address"], "127.0.0.1/8");

    // Pod to pod, pod to itself, node to pod; both families.
    web.serve(8080);
    for addr in web.addresses.clone() {
        client.expect_answer(addr, 8080, "web");
        let (answer, seen) = world.connect_from_node(addr, 8080);
        assert_eq!(answer, "web");
        let own = if addr.is_ipv4() { "192.0.2.2" } else { "2001:db8::2" };
        assert_eq!(seen.to_string(), own, "the node shows its own address to pods");
    }
    client.expect_answer("192.0.2.2".parse().unwrap(), world.serve_on_node(), "node");
    client.serve(8080);
    client.expect_answer("127.0.0.1".parse().unwrap(), 8080, "client");

    // A Service, from the stream.
    for pod in [&web, &client] {
        stream.send(at(10, workload(pod))).await;
    }
    stream.send(at(10, service())).await;
    stream.send(at(10, slice("web-4", &web.addresses[0].to_string(), "web"))).await;
    stream.send(at(10, slice("web-6", &web.addresses[1].to_string(), "web"))).await;
    stream.send(at(10, route("n2", "10.244.2.0/24", "192.0.2.3"))).await;
    for ip in [CLUSTER_IP, CLUSTER_IP6] {
        eventually("the Service", async || client.reaches(ip.parse().unwrap(), 80).then_some(())).await;
    }
    for ip in [CLUSTER_IP, CLUSTER_IP6] {
        client.expect_answer(ip.parse().unwrap(), 80, "web");
        // A pod reaches itself through its Service.
        web.expect_answer(ip.parse().unwrap(), 80, "web");
    }
    eventually("route to n2", async || world.routes().contains("10.244.2.0/24 via 192.0.2.3").then_some(())).await;

    // A policy, and the record of what it stops.
    let mut flows = world.flows().await;
    stream.send(at(11, default_deny("web"))).await;
    eventually("denied", async || (!client.reaches(web.addresses[0], 8080)).then_some(())).await;
    let record = flows.next().await;
    assert_eq!(record["verdict"], "dropped", "{record}");
    assert_eq!(record["reason"], "policy_denied", "{record}");
    assert_eq!(record["pod"], "shop/web", "{record}");
    assert_eq!(record["policies"], json!(["deny"]), "{record}");
    let (answer, _) = world.connect_from_node(web.addresses[0], 8080);
    assert_eq!(answer, "web", "probes of the node pass");
    let deny =
        dp::Deleted { kind: dp::Kind::NetworkPolicy.into(), namespace: "shop".to_owned(), name: "deny".to_owned() };
    stream.send(at(12, Wire::Deleted(deny))).await;
    eventually("allowed again", async || client.reaches(web.addresses[0], 8080).then_some(())).await;

    // kill -9, with a connection that lives on.
    let mut third = Pod::new("third");
    plugin.add(&mut third, "1.0.0");
    let mut connection = client.open(CLUSTER_IP.parse().unwrap(), 80);
    assert_eq!(connection.exchange("before"), "before");
    agent.kill();
    drop(stream);
    assert_eq!(connection.exchange("while the agent is away"), "while the agent is away");
    client.expect_answer(CLUSTER_IP.parse().unwrap(), 80, "web");
    let mut late = Pod::new("late");
    assert_eq!(plugin.try_add(&mut late, "1.0.0").unwrap_err()["code"], 11);
    plugin.delete(&third);
    let agent_again = world.start_agent(&["--no-socket-lb"]);
    let stream = world.peer.next_dataplane().await;
    assert_eq!(stream.resume_revision, 0, "what an agent knew goes with it");
    // Nothing is pruned before the state is complete.
    stream.send(at(20, Wire::SnapshotBegin(dp::SnapshotBegin {}))).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(connection.exchange("back"), "back");
    client.expect_answer(CLUSTER_IP.parse().unwrap(), 80, "web");
    assert!(world.routes().contains("10.244.2.0/24"), "a route went before the state was complete");
    let shop = dp::Namespace { name: "shop".to_owned(), ..dp::Namespace::default() };
    stream.send(at(20, Wire::Namespace(shop))).await;
    for pod in [&web, &client] {
        stream.send(at(20, workload(pod))).await;
    }
    stream.send(at(20, service())).await;
    stream.send(at(20, slice("web-4", &client.addresses[0].to_string(), "client"))).await;
    let complete = std::time::Instant::now();
    stream.send(at(20, Wire::Synced(dp::Synced {}))).await;
    eventually("the Service's new endpoint", async || {
        client.answer(CLUSTER_IP.parse().unwrap(), 80).filter(|answer| answer == "client").map(drop)
    })
    .await;
    println!("Services right {:?} after the state was complete", complete.elapsed());
    assert_eq!(connection.exchange("still"), "still", "an established connection stays");
    eventually("the removal that the plugin kept", async || {
        let endpoints = world.status().await?["endpoints"].as_array()?.len();
        (endpoints == 2).then_some(())
    })
    .await;
    eventually("stale route", async || (!world.routes().contains("10.244.2.0/24")).then_some(())).await;

    // Pods come and go; addresses are not reused at once.
    plugin.add(&mut late, "1.0.0");
    assert_eq!(late.addresses[0].to_string(), "10.244.1.4");
    client.expect_answer(late.serve(8080), 8080, "late");
    plugin.delete(&late);
    plugin.delete(&late);
    let mut times = Vec::new();
    for n in 0..20 {
        let mut pod = Pod::new(&format!("burst{n}"));
        let started = std::time::Instant::now();
        plugin.add(&mut pod, "1.0.0");
        times.push(started.elapsed());
        assert!(!pod.addresses.contains(&late.addresses[0]));
        plugin.delete(&pod);
    }
    times.sort();
    println!("CNI ADD, plugin process included: p50 {:?}, worst {:?}", times[10], times[19]);
    println!("memory of the agent: {}", agent_again.memory());

    // The node API: for the control service only.
    assert_eq!(world.node_api("kube-apiserver-kubelet-client", "system:masters").await, Some(200));
    assert_eq!(world.node_api("system:node:n2", "system:nodes").await, Some(403));
    assert_eq!(world.node_api_without_certificate().await, None);

    // And nothing is left of what is gone.
    for pod in [&web, &client] {
        plugin.delete(pod);
    }
    let status = world.status().await.unwrap();
    assert_eq!(status["endpoints"], json!([]));
    assert!(!world.links().contains("skeppod"), "{}", world.links());
    assert_eq!(world.pinned_links(), Vec::<String>::new());
    assert!(world.peer.record(|record| record.renewals) > 0);
    agent_again.stop_cleanly();
}
