//! What a Service may ask for beside addresses: affinity, Local traffic policies, source ranges, topology, Maglev, endpoints that
//! are going away.
#![allow(clippy::print_stdout, reason = "figures for whoever reads the test's output")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use skep_tests::testbed::{Client, Report, TestCluster};
use skep_tests::{Spec, image, manifest};

/// A cluster with a server on each of two nodes (two on the first), a client pod on the first, and a machine outside.
fn run(name: &str, test: impl FnOnce(&Stage<'_>) -> Result<()>) -> Result<()> {
    TestCluster::run(Spec::new(name, 2), |cluster| {
        let outside = cluster.add_outside()?;
        let kubectl = cluster.kubectl();
        let mut manifests = String::new();
        for (name, node) in [("a", "node-1"), ("b", "node-1"), ("c", "node-2")] {
            manifests.push_str(&server(name, node));
        }
        manifests.push_str(&manifest::client("client", "node-1", "role: client"));
        kubectl.feed("apply -f -", &manifests)?;
        kubectl.run("wait --for=condition=Ready pod --all --timeout=60s")?;
        let client = Client::Pod(cluster.place("default", "client")?);
        test(&Stage { cluster, client, outside })
    })
}

struct Stage<'a> {
    cluster: &'a TestCluster,
    client: Client,
    outside: [String; 2],
}

fn server(name: &str, node: &str) -> String {
    format!(
        r#"apiVersion: v1
kind: Pod
metadata:
  name: {name}
  labels: {{app: web, server: {name}}}
spec:
  nodeSelector: {{kubernetes.io/hostname: {node}}}
  terminationGracePeriodSeconds: 20
  containers:
  - name: server
    image: {image}
    args: [serve, --port, "8080", --drain, "15"]
    readinessProbe:
      httpGet: {{path: /, port: 8080}}
      periodSeconds: 1
---
"#,
        image = image::DEMO_V1
    )
}

impl Stage<'_> {
    /// Makes a Service of the servers out of `spec`, and returns it.
    fn service(&self, name: &str, annotations: Value, spec: Value) -> Result<Value> {
        let mut service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "annotations": annotations},
            "spec": {"selector": {"app": "web"}, "ports": [
                {"name": "http", "port": 80, "targetPort": 8080},
                {"name": "datagram", "port": 80, "targetPort": 8080, "protocol": "UDP"},
            ]},
        });
        for (field, value) in spec.as_object().context("a spec")? {
            service["spec"][field] = value.clone();
        }
        self.cluster.kubectl().feed("apply -f -", &service.to_string())?;
        self.cluster.kubectl().json(&format!("get service {name}"))
    }

    fn load(&self, client: &Client, address: &str, options: &str) -> Result<Report> {
        self.cluster.demo_from(client, &format!("load {address} --timeout-ms 1000 {options}"))
    }

    /// Waits until exactly these servers answer, each of them.
    fn wait_for_servers(&self, client: &Client, address: &str, servers: &[&str]) -> Result<()> {
        let wanted: BTreeSet<&str> = servers.iter().copied().collect();
        let mut last = Report::default();
        skep_tests::command::wait_until(&format!("{servers:?} answer at {address}"), Duration::from_secs(20), || {
            last = self.load(client, address, "--count 60 --concurrency 2")?;
            let seen: BTreeSet<&str> = last.answers.keys().map(String::as_str).collect();
            Ok(seen == wanted && last.failed == 0)
        })
        .with_context(|| format!("{last:?}"))
    }

    /// Packets that a node has dropped for a reason.
    fn drops(&self, node: &str, reason: &str) -> Result<u64> {
        let output = self.cluster.skep(node, "drops -o json")?;
        let rows: Value = serde_json::from_slice(&output.stdout)?;
        let rows = rows.as_array().context("rows")?.iter().filter(|row| row["reason"] == reason);
        Ok(rows.filter_map(|row| row["packets"].as_u64()).sum())
    }
}

fn cluster_ip(service: &Value) -> Result<String> {
    Ok(format!("{}:80", service["spec"]["clusterIP"].as_str().context("a cluster IP")?))
}

fn node_port(service: &Value, port: usize) -> Result<u64> {
    service["spec"]["ports"][port]["nodePort"].as_u64().context("a node port")
}

#[test]
fn affinity_holds_for_its_time() -> Result<()> {
    run("t-affinity", |stage| {
        let config = json!({"clientIP": {"timeoutSeconds": 3}});
        let spec = json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": config, "type": "NodePort"});
        let service = stage.service("sticky", Value::Null, spec)?;
        let node = &stage.cluster.node_addresses("node-1")?[0];
        let outside = format!("{node}:{}", node_port(&service, 0)?);
        stage.service("any", Value::Null, json!({}))?;
        let mut chosen: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for turn in 0..12 {
            for (name, client, address) in [
                ("pod", &stage.client, cluster_ip(&service)?),
                ("host", &Client::Host("node-1".to_owned()), cluster_ip(&service)?),
                ("outside", &Client::Outside, outside.clone()),
            ] {
                // One at a time: two first connections at the same moment may each choose.
                let report = stage.load(client, &address, "--count 20")?;
                ensure!(report.failed == 0 && report.answers.len() == 1, "{name}, turn {turn}: {report:?}");
                chosen.entry(name.to_owned()).or_default().extend(report.answers.into_keys());
            }
            // Longer than the timeout: the next turn may choose another.
            std::thread::sleep(Duration::from_millis(3200));
        }
        // Twelve free choices among three that all fall on the same one are one case in 177,147.
        println!("{chosen:?}");
        ensure!(chosen.values().all(|servers| servers.len() > 1), "never chosen anew: {chosen:?}");
        Ok(())
    })
}

#[test]
fn local_policies_keep_to_the_node() -> Result<()> {
    run("t-local", |stage| {
        let spec = json!({"type": "NodePort", "externalTrafficPolicy": "Local"});
        let external = stage.service("external", Value::Null, spec)?;
        let internal = stage.service("internal", Value::Null, json!({"internalTrafficPolicy": "Local"}))?;
        let host = Client::Host("node-1".to_owned());
        for (node, servers) in [("node-1", &["a", "b"][..]), ("node-2", &["c"])] {
            let address = format!("{}:{}", stage.cluster.node_addresses(node)?[0], node_port(&external, 0)?);
            stage.wait_for_servers(&Client::Outside, &address, servers)?;
            let seen = stage.cluster.demo_from(&Client::Outside, &format!("connect {address}"))?;
            ensure!(seen.answer.contains(&stage.outside[0]), "the client's address is lost: {}", seen.answer);
            // Clients in the cluster are short-circuited to every endpoint.
            stage.wait_for_servers(&stage.client, &address, &["a", "b", "c"])?;
            stage.wait_for_servers(&host, &address, &["a", "b", "c"])?;
        }
        stage.wait_for_servers(&stage.client, &cluster_ip(&internal)?, &["a", "b"])?;
        // Without an endpoint on the node: dropped and counted outside, refused at once inside.
        stage.cluster.kubectl().run("delete pod a b --grace-period=0 --force")?;
        stage.wait_for_servers(&stage.client, &cluster_ip(&external)?, &["c"])?;
        let before = stage.drops("node-1", "no_local_endpoints")?;
        let address = format!("{}:{}", stage.cluster.node_addresses("node-1")?[0], node_port(&external, 0)?);
        let report = stage.load(&Client::Outside, &address, "--count 2")?;
        ensure!(report.failures.contains_key("TimedOut"), "{report:?}");
        let report = stage.load(&stage.client, &cluster_ip(&internal)?, "--count 3")?;
        ensure!(report.failures.get("ConnectionRefused") == Some(&3), "{report:?}");
        let after = stage.drops("node-1", "no_local_endpoints")?;
        ensure!(after >= before + 5, "no_local_endpoints: {before} -> {after}");
        Ok(())
    })
}

#[test]
fn health_check_ports_tell_who_has_endpoints() -> Result<()> {
    run("t-health", |stage| {
        let spec = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"});
        let service = stage.service("balanced", Value::Null, spec)?;
        let port = service["spec"]["healthCheckNodePort"].as_u64().context("a health check node port")?;
        let ask = |node: &str| -> Result<String> {
            let address = format!("{}:{port}", stage.cluster.node_addresses(node)?[0]);
            let script = format!(
                "exec 3<>/dev/tcp/{}/{port} && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3",
                address.split(':').next().context("an address")?
            );
            let output = skep_tests::command::output(&mut stage.cluster.outside_command(&["bash", "-c", &script]))?;
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let answers = |node: &str, wanted: &str| {
            let mut last = String::new();
            skep_tests::command::wait_until(&format!("{node} answers {wanted}"), Duration::from_secs(10), || {
                last = ask(node)?;
                Ok(last.contains(wanted))
            })
            .with_context(|| last)
        };
        answers("node-1", r#""localEndpoints":2"#)?;
        answers("node-2", r#""localEndpoints":1"#)?;
        ensure!(ask("node-2")?.starts_with("HTTP/1.0 200"), "not healthy");
        stage.cluster.kubectl().run("delete pod c --grace-period=0 --force")?;
        answers("node-2", r#""localEndpoints":0"#)?;
        ensure!(ask("node-2")?.starts_with("HTTP/1.0 503"), "healthy without endpoints");
        Ok(())
    })
}

#[test]
fn source_ranges_shut_others_out() -> Result<()> {
    run("t-ranges", |stage| {
        let [v4, _] = stage.cluster.load_balancer_ranges();
        let pool = json!({
            "apiVersion": "skep.io/v1alpha1", "kind": "AddressPool", "metadata": {"name": "outside"},
            "spec": {"addresses": [v4]},
        });
        stage.cluster.kubectl().feed("apply -f -", &pool.to_string())?;
        let open = format!("{}/32", stage.outside[0]);
        for (name, ranges, allowed) in
            [("allowed", json!([open, "10.9.0.0/16"]), true), ("denied", json!(["10.9.0.0/16"]), false)]
        {
            let spec = json!({"type": "LoadBalancer", "loadBalancerSourceRanges": ranges});
            stage.service(name, Value::Null, spec)?;
            let kubectl = stage.cluster.kubectl();
            kubectl.run(&format!(
                "wait --for=jsonpath={{.status.loadBalancer.ingress[0].ip}} service/{name} --timeout=20s"
            ))?;
            let ip = kubectl.run(&format!("get service {name} -o jsonpath={{.status.loadBalancer.ingress[0].ip}}"))?;
            let address = format!("{ip}:80");
            // Pods are within.
            stage.wait_for_servers(&stage.client, &address, &["a", "b", "c"])?;
            if allowed {
                stage.wait_for_servers(&Client::Outside, &address, &["a", "b", "c"])?;
            } else {
                let sum = || -> Result<u64> {
                    Ok(stage.drops("node-1", "source_range")? + stage.drops("node-2", "source_range")?)
                };
                let before = sum()?;
                let report = stage.load(&Client::Outside, &address, "--count 2")?;
                ensure!(report.ok == 0 && report.failures.contains_key("TimedOut"), "{report:?}");
                ensure!(sum()? >= before + 2, "source_range is not counted");
            }
        }
        Ok(())
    })
}

#[test]
fn hints_keep_traffic_in_the_zone() -> Result<()> {
    run("t-hints", |stage| {
        let kubectl = stage.cluster.kubectl();
        kubectl.run("label node node-1 topology.kubernetes.io/zone=east")?;
        kubectl.run("label node node-2 topology.kubernetes.io/zone=west")?;
        let near = stage.service("near", Value::Null, json!({"trafficDistribution": "PreferClose"}))?;
        let plain = stage.service("plain", Value::Null, json!({}))?;
        stage.wait_for_servers(&stage.client, &cluster_ip(&near)?, &["a", "b"])?;
        stage.wait_for_servers(&Client::Host("node-2".to_owned()), &cluster_ip(&near)?, &["c"])?;
        stage.wait_for_servers(&stage.client, &cluster_ip(&plain)?, &["a", "b", "c"])?;
        // The zone's last endpoint gone: any will do.
        kubectl.run("delete pod c --grace-period=0 --force")?;
        stage.wait_for_servers(&Client::Host("node-2".to_owned()), &cluster_ip(&near)?, &["a", "b"])
    })
}

#[test]
fn terminating_endpoints_are_the_last_resort() -> Result<()> {
    run("t-last", |stage| {
        let service = stage.service("last", Value::Null, json!({"selector": {"server": "c"}}))?;
        let other = stage.service("other", Value::Null, json!({}))?;
        let address = cluster_ip(&service)?;
        stage.wait_for_servers(&stage.client, &address, &["c"])?;
        stage.cluster.kubectl().run("delete pod c --wait=false")?;
        // One that goes away but serves is better than none, and worse than any other.
        stage.wait_for_servers(&stage.client, &cluster_ip(&other)?, &["a", "b"])?;
        let report = stage.load(&stage.client, &address, "--count 50")?;
        ensure!(report.ok == 50, "{report:?}");
        Ok(())
    })
}

#[test]
fn publish_not_ready_addresses_and_ports_without_readiness() -> Result<()> {
    run("t-notready", |stage| {
        let pod = server("unready", "node-2")
            .replace("path: /, port: 8080", "path: /, port: 9999")
            .replace("app: web", "app: dark");
        stage.cluster.kubectl().feed("apply -f -", &pod)?;
        let dark = json!({"selector": {"app": "dark"}, "publishNotReadyAddresses": true});
        let published = stage.service("published", Value::Null, dark)?;
        let hidden = stage.service("hidden", Value::Null, json!({"selector": {"app": "dark"}}))?;
        stage.wait_for_servers(&stage.client, &cluster_ip(&published)?, &["unready"])?;
        let report = stage.load(&stage.client, &cluster_ip(&hidden)?, "--count 3")?;
        ensure!(report.failures.get("ConnectionRefused") == Some(&3), "{report:?}");
        Ok(())
    })
}

#[test]
fn maglev_nodes_agree() -> Result<()> {
    run("t-maglev", |stage| {
        let annotations = json!({"service.skep.io/load-balancing": "maglev"});
        let service = stage.service("maglev", annotations, json!({"type": "NodePort"}))?;
        let port = node_port(&service, 0)?;
        // The same tuple but for the node that it comes in by would be another tuple: the tables are compared instead.
        let table = |node: &str| -> Result<Vec<(u64, String)>> {
            let shown = stage.cluster.skep(node, "maps slots -o json")?;
            let rows: Value = serde_json::from_slice(&shown.stdout)?;
            let rows = rows.as_array().context("rows")?;
            let mine =
                rows.iter().filter(|row| row["service_name"].as_str().is_some_and(|name| name.contains("maglev:http")));
            Ok(mine
                .map(|row| {
                    let pod = row["backend_name"].as_str().unwrap_or_default().to_owned();
                    (row["index"].as_u64().unwrap_or_default(), pod)
                })
                .collect())
        };
        for node in ["node-1", "node-2"] {
            let address = format!("{}:{port}", stage.cluster.node_addresses(node)?[0]);
            stage.wait_for_servers(&Client::Outside, &address, &["a", "b", "c"])?;
        }
        let (first, second) = (table("node-1")?, table("node-2")?);
        ensure!(first.len() > 250, "a table of {} slots", first.len());
        ensure!(first == second, "nodes differ");
        Ok(())
    })
}
