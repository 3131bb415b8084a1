//! Real clients against the real services, over the real API and store; only the sockets are left out.

mod dataplane;
mod registration;
mod report;
mod watch_node;

use std::time::Duration;

use serde_json::{Value, json};
use skep_control_core::api::service_ip::NodePorts;
use skep_proto::dataplane::v1::dataplane_service_client::DataplaneServiceClient;
use skep_proto::node::v1::node_service_client::NodeServiceClient;
use skep_proto::node::v1::{RegisterRequest, RegisterResponse};
use skep_store::RedbStore;
use tokio::sync::watch;

use super::{GrpcConfig, services};
use crate::api::{Api, ApiConfig, Caller, Object, Subresource, WriteOptions};

/// A control service without its port.
pub(super) struct Control {
    pub(super) api: Api,
    router: axum::Router,
    shutdown: watch::Sender<bool>,
    directory: tempfile::TempDir,
}

impl Control {
    pub(super) async fn start() -> Self {
        Self::open(tempfile::tempdir().unwrap()).await
    }

    async fn open(directory: tempfile::TempDir) -> Self {
        let store = RedbStore::open(&directory.path().join("store"), skep_store::Options::default()).unwrap();
        let config = ApiConfig {
            service_cidrs: vec!["10.96.0.0/16".parse().unwrap(), "fd53:6b65:7073::/112".parse().unwrap()],
            cluster_cidrs: vec!["10.244.0.0/16".parse().unwrap(), "fd53:6b65:7070::/56".parse().unwrap()],
            node_ports: NodePorts::default(),
            cluster_domain: "cluster.local".to_owned(),
            lease_duration_seconds: 40,
        };
        let api = Api::start(store, config).await.unwrap();
        let (shutdown, over) = watch::channel(false);
        let router = services(api.clone(), GrpcConfig::of(&api).until(over)).into_axum_router();
        Self { api, router, shutdown, directory }
    }

    /// Ends the service and starts it again on the same store.
    pub(super) async fn restart(self) -> Self {
        let Self { api, router, shutdown, directory } = self;
        shutdown.send_replace(true);
        drop(router);
        drop(api);
        // The feed's task holds a handle of the store until it is gone.
        tokio::time::sleep(Duration::from_millis(100)).await;
        Self::open(directory).await
    }

    /// Tells the services to end.
    pub(super) fn end(&self) {
        self.shutdown.send_replace(true);
    }

    fn with(&self, user: &str, group: &str) -> axum::Router {
        let caller = Caller { user: user.to_owned(), groups: vec![group.to_owned()] };
        self.router.clone().layer(axum::Extension(caller))
    }

    pub(super) fn router_of(&self, node: &str) -> axum::Router {
        self.with(&format!("system:node:{node}"), "system:nodes")
    }

    pub(super) fn node(&self, node: &str) -> NodeServiceClient<axum::Router> {
        NodeServiceClient::new(self.router_of(node))
    }

    pub(super) fn dataplane(&self, node: &str) -> DataplaneServiceClient<axum::Router> {
        DataplaneServiceClient::new(self.router_of(node))
    }

    pub(super) fn somebody(&self, user: &str, group: &str) -> NodeServiceClient<axum::Router> {
        NodeServiceClient::new(self.with(user, group))
    }

    pub(super) fn nobody(&self) -> NodeServiceClient<axum::Router> {
        NodeServiceClient::new(self.router.clone())
    }

    pub(super) async fn register(&self, node: &str) -> RegisterResponse {
        let object = node_object(node).to_string().into_bytes();
        let request = RegisterRequest { name: node.to_owned(), node: object };
        self.node(node).register(request).await.unwrap().into_inner()
    }

    pub(super) async fn create(&self, resource: &'static str, namespace: &str, object: Value) -> Object {
        let caller = Caller::system("test");
        self.api.create(&caller, resource, namespace, object, &WriteOptions::default()).await.unwrap()
    }

    pub(super) async fn get(&self, resource: &'static str, namespace: &str, name: &str) -> Option<Value> {
        match self.api.get(resource, namespace, name).await {
            Ok(object) => Some(object.value().unwrap()),
            Err(error) if error.is_not_found() => None,
            Err(error) => panic!("{error:?}"),
        }
    }

    pub(super) async fn modify(
        &self,
        resource: &'static str,
        subresource: Option<Subresource>,
        namespace: &str,
        name: &str,
        change: impl Fn(&mut Value) + Send + Sync,
    ) -> Object {
        let change = |object: &mut Value| {
            change(object);
            Ok(true)
        };
        self.api.modify(&Caller::system("test"), resource, subresource, namespace, name, change).await.unwrap()
    }

    /// Makes a pod and binds it.
    pub(super) async fn pod(&self, name: &str, node: &str, mut spec: Value) -> Value {
        spec["nodeName"] = node.into();
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}}, "spec": spec});
        self.create("pods", "default", pod).await.value().unwrap()
    }

    pub(super) async fn config_map(&self, name: &str, value: &str) -> Object {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": value}});
        self.create("configmaps", "default", object).await
    }

    pub(super) async fn delete(&self, resource: &'static str, namespace: &str, name: &str) -> bool {
        let options = crate::api::DeleteOptions::default();
        self.api.delete(&Caller::system("test"), resource, namespace, name, &options).await.unwrap().removed
    }
}

/// The Node that an agent sends.
pub(super) fn node_object(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
        "spec": {"unschedulable": true},
        "status": {
            "capacity": {"cpu": "2", "memory": "4Gi", "pods": "110"},
            "allocatable": {"cpu": "2", "memory": "4Gi", "pods": "110"},
            "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}, {"type": "Hostname", "address": name}],
            "conditions": [{"type": "Ready", "status": "True", "reason": "AgentReady", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "nodeInfo": {"kubeletVersion": "v1.33.0-skep", "architecture": "amd64"},
        },
    })
}

/// A spec with one container.
pub(super) fn plain() -> Value {
    json!({"containers": [{"name": "c", "image": "demo"}]})
}

/// The next message of a stream, which must not take long.
pub(super) async fn message<T>(stream: &mut tonic::Streaming<T>) -> T {
    let next = tokio::time::timeout(Duration::from_secs(20), stream.message()).await;
    next.expect("a message in time").expect("a message").expect("no end")
}
