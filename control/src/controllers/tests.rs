//! The controllers over the real API and store, with a node that is played here.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use skep_control_core::api::service_ip::NodePorts;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{ControllersConfig, spawn};
use crate::Backend;
use crate::api::{Api, ApiConfig, Caller, DeleteOptions, ListOptions, PatchType, Subresource, WriteOptions};

struct Cluster {
    api: Api,
    directory: TempDir,
    shutdown: watch::Sender<bool>,
    controllers: JoinHandle<()>,
    node: JoinHandle<()>,
}

async fn open(directory: &TempDir) -> Api {
    let store = Backend::open(&directory.path().join("store.redb"), skep_store::Options::default()).expect("a store");
    let config = ApiConfig {
        service_cidrs: vec!["10.96.0.0/16".parse().expect("a range"), "fd53:6b65:7073::/112".parse().expect("a range")],
        cluster_cidrs: vec!["10.244.0.0/16".parse().expect("a range")],
        node_ports: NodePorts::default(),
        cluster_domain: "cluster.local".to_owned(),
        lease_duration_seconds: 40,
    };
    Api::start(store, config).await.expect("an API")
}

fn controllers(api: &Api) -> (watch::Sender<bool>, JoinHandle<()>) {
    let (shutdown, over) = watch::channel(false);
    let config = ControllersConfig {
        node_monitor_grace: Duration::from_secs(40),
        node_eviction: Duration::from_secs(5),
        service_cidrs: api.config().service_cidrs.clone(),
        advertise: "192.0.2.1:6443".to_owned(),
        root_ca: "certificate".to_owned(),
    };
    (shutdown, spawn(api.clone(), config, over))
}

impl Cluster {
    async fn start() -> Self {
        let directory = TempDir::new().expect("a directory");
        let api = open(&directory).await;
        let (shutdown, controllers) = controllers(&api);
        let node = tokio::spawn(play_node(api.clone()));
        Self { api, directory, shutdown, controllers, node }
    }

    async fn create(&self, resource: &str, ns: &str, object: Value) {
        let created = self.api.create(&user(), resource, ns, object, &WriteOptions::default()).await;
        created.unwrap_or_else(|status| panic!("{resource}: {}", status.message));
    }

    async fn patch(&self, resource: &str, name: &str, body: Value) {
        merge(&self.api, resource, "default", name, None, body).await;
    }

    async fn list(&self, resource: &str, ns: &str) -> Vec<Value> {
        list(&self.api, resource, ns).await
    }

    async fn until(&self, what: &str, mut holds: impl AsyncFnMut(&Self) -> bool) {
        for _ in 0..600 {
            if holds(self).await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("not within half a minute: {what}");
    }

    /// Whether the Deployment is done as `kubectl rollout status` sees it.
    async fn rolled_out(&self) -> bool {
        let Some(web) = self.list("deployments.apps", "default").await.pop() else { return false };
        let (spec, status) = (&web["spec"], &web["status"]);
        status["observedGeneration"] == web["metadata"]["generation"]
            && status["updatedReplicas"] == spec["replicas"]
            && status["replicas"] == spec["replicas"]
            && status["availableReplicas"] == spec["replicas"]
    }
}

fn user() -> Caller {
    Caller::system("test")
}

async fn merge(api: &Api, resource: &str, ns: &str, name: &str, sub: Option<Subresource>, body: Value) {
    let body = serde_json::to_vec(&body).expect("serializes");
    let patched = api.patch(&user(), resource, sub, ns, name, PatchType::Merge, &body, &WriteOptions::default()).await;
    patched.unwrap_or_else(|status| panic!("{resource} {name}: {}", status.message));
}

async fn list(api: &Api, resource: &str, ns: &str) -> Vec<Value> {
    let list = api.list(resource, ns, &ListOptions::default()).await.expect("a list");
    list.items.iter().map(|object| object.value().expect("an object")).collect()
}

/// A node that runs whatever is bound to it, at once.
async fn play_node(api: Api) {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}});
    api.create(&user(), "nodes", "", node, &WriteOptions::default()).await.expect("a node");
    let ready = json!({"status": {
        "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": now(), "lastTransitionTime": now()}],
    }});
    merge(&api, "nodes", "", "node-1", Some(Subresource::Status), ready).await;
    let mut started = BTreeSet::new();
    loop {
        for pod in list(&api, "pods", "").await {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (ns, name) = (text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]));
            if pod["spec"]["nodeName"] != "node-1" {
                continue;
            }
            if pod["metadata"]["deletionTimestamp"].is_string() {
                let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
                api.delete(&user(), "pods", &ns, &name, &now).await.expect("deletes");
            } else if started.insert(pod["metadata"]["uid"].clone().to_string()) {
                let address = format!("10.244.0.{}", started.len());
                let status = json!({"status": {
                    "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
                    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": self::now()}],
                }});
                merge(&api, "pods", &ns, &name, Some(Subresource::Status), status).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn now() -> String {
    skep_control_core::api::meta::time_text(Timestamp::now())
}

fn deployment(ns: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": ns},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "demo:1", "ports": [{"name": "http", "containerPort": 80}]}]},
            },
        },
    })
}

fn service(ns: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": ns},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]},
    })
}

fn image(name: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": name}]}}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_runs_rolls_and_scales() {
    let cluster = Cluster::start().await;
    cluster.create("services", "default", service("default")).await;
    cluster.create("deployments.apps", "default", deployment("default")).await;
    cluster.until("rolled out", Cluster::rolled_out).await;
    let ready = async |cluster: &Cluster| {
        let slices = cluster.list("endpointslices.discovery.k8s.io", "default").await;
        let of_web = slices.iter().filter(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == "web");
        let endpoints = of_web.flat_map(|slice| slice["endpoints"].as_array().cloned().unwrap_or_default());
        endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true).count()
    };
    cluster.until("three endpoints", async |cluster: &Cluster| ready(cluster).await == 3).await;

    cluster.patch("deployments.apps", "web", image("demo:2")).await;
    cluster.until("rolled out again", Cluster::rolled_out).await;
    let pods = cluster.list("pods", "default").await;
    let current = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    assert!(current.clone().all(|pod| pod["spec"]["containers"][0]["image"] == "demo:2"));
    assert_eq!(current.count(), 3);

    cluster.patch("deployments.apps", "web", json!({"spec": {"replicas": 5}})).await;
    cluster.until("five endpoints", async |cluster: &Cluster| ready(cluster).await == 5).await;

    let events = cluster.list("events", "default").await;
    for reason in ["ScalingReplicaSet", "SuccessfulCreate", "SuccessfulDelete", "Scheduled"] {
        assert!(events.iter().any(|event| event["reason"] == reason), "{reason}");
    }
    cluster.node.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_start_of_the_controllers_writes_nothing() {
    let mut cluster = Cluster::start().await;
    cluster.create("services", "default", service("default")).await;
    cluster.create("deployments.apps", "default", deployment("default")).await;
    cluster.until("rolled out", Cluster::rolled_out).await;
    let quiet = async |cluster: &Cluster| {
        let before = cluster.api.revision();
        tokio::time::sleep(Duration::from_millis(500)).await;
        cluster.api.revision() == before
    };
    cluster.until("quiet", quiet).await;
    cluster.shutdown.send_replace(true);
    (&mut cluster.controllers).await.expect("ends");
    let before = cluster.api.revision();
    let (shutdown, again) = controllers(&cluster.api);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(cluster.api.revision(), before);
    shutdown.send_replace(true);
    again.await.expect("ends");
    cluster.node.abort();
    assert!(cluster.directory.path().exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_goes_with_its_contents() {
    let cluster = Cluster::start().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    cluster.create("namespaces", "", namespace).await;
    cluster.create("services", "team", service("team")).await;
    cluster.create("deployments.apps", "team", deployment("team")).await;
    cluster.until("pods", async |cluster: &Cluster| cluster.list("pods", "team").await.len() == 3).await;
    cluster.api.delete(&user(), "namespaces", "", "team", &DeleteOptions::default()).await.expect("deletes");
    let gone = async |cluster: &Cluster| cluster.api.get("namespaces", "", "team").await.is_err();
    cluster.until("the namespace is gone", gone).await;
    for resource in ["pods", "services", "endpoints", "deployments.apps", "events", "configmaps"] {
        assert!(cluster.list(resource, "team").await.is_empty(), "{resource}");
    }
    cluster.node.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_is_found_under_its_service() {
    let cluster = Cluster::start().await;
    let kept = async |cluster: &Cluster| !cluster.list("endpoints", "default").await.is_empty();
    cluster.until("Endpoints", kept).await;
    let service = cluster.list("services", "default").await.remove(0);
    assert_eq!(
        (&service["metadata"]["name"], &service["spec"]["clusterIP"]),
        (&json!("kubernetes"), &json!("10.96.0.1"))
    );
    let endpoints = cluster.list("endpoints", "default").await.remove(0);
    assert_eq!(endpoints["subsets"][0]["addresses"][0]["ip"], "192.0.2.1");
    cluster.node.abort();
}
