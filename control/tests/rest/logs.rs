//! `pods/log`, with an agent that answers as agents do.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, RawQuery};
use axum::response::IntoResponse;
use axum::routing::get;
use http::StatusCode;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use skep_control::pki::{self, Identity, Pki};
use skep_control::tls;
use tokio_rustls::TlsAcceptor;

use crate::harness::{Cluster, PODS, pod};

async fn answer(
    Path((namespace, pod, container)): Path<(String, String, String)>,
    RawQuery(query): RawQuery,
) -> impl IntoResponse {
    let query = query.unwrap_or_default();
    if query.contains("previous") {
        let text = format!("previous terminated container {container:?} in pod {pod:?} not found");
        return (StatusCode::BAD_REQUEST, text);
    }
    (StatusCode::OK, format!("{namespace}/{pod}/{container}?{query}\n"))
}

/// Serves as the agent of a node, with the node's certificate; asks for the caller's.
async fn agent(cluster: &Cluster) -> u16 {
    let out = cluster.dir.path().join("agent");
    pki::issue_node(cluster.dir.path(), "n1", &["127.0.0.1".parse().unwrap()], &out).unwrap();
    let read = |file: &str| std::fs::read_to_string(out.join(file)).unwrap();
    let identity = Identity { certificate: read("node.crt"), key: read("node.key") };
    let pki = Pki { ca: read("ca.crt"), server: identity.clone(), kubelet_client: identity };
    let acceptor = TlsAcceptor::from(tls::server_config(&pki).unwrap());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let router = Router::new().route("/containerLogs/{namespace}/{pod}/{container}", get(answer));
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let tls = acceptor.accept(tcp).await.unwrap();
            let certificate = tls.get_ref().1.peer_certificates().unwrap()[0].clone();
            assert_eq!(tls::caller(&certificate).unwrap().user, "kube-apiserver-kubelet-client");
            let service = TowerToHyperService::new(router.clone());
            tokio::spawn(async move {
                let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                builder.serve_connection(TokioIo::new(tls), service).await.unwrap();
            });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_come_from_the_node() {
    let cluster = Arc::new(Cluster::start().await);
    let client = &cluster.client;
    let port = agent(&cluster).await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    client.post("/api/v1/nodes", &node).await.expect(201);
    let status = json!({"status": {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }});
    client.patch("/api/v1/nodes/n1/status", "merge-patch", &status).await.expect(200);

    client.post(PODS, &pod("nowhere")).await.expect(201);
    let answer = client.get(&format!("{PODS}/nowhere/log")).await;
    assert_eq!((answer.code, answer.body.len()), (200, 0));

    let mut bound = pod("p");
    bound["spec"]["nodeName"] = "n1".into();
    client.post(PODS, &bound).await.expect(201);
    let answer = client.get(&format!("{PODS}/p/log?tailLines=5&timestamps=true&limitBytes=100")).await;
    assert_eq!(answer.code, 200, "{answer:?}");
    assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
    assert_eq!(&answer.body[..], b"default/p/c?timestamps=true&tailLines=5&limitBytes=100\n");

    let previous = client.get(&format!("{PODS}/p/log?previous=true")).await;
    let text = "previous terminated container \"c\" in pod \"p\" not found";
    assert_eq!(previous.failure(), (400, "BadRequest".into(), text.into()));
    let wrong = client.get(&format!("{PODS}/p/log?container=d")).await;
    assert_eq!(wrong.failure(), (400, "BadRequest".into(), "container d is not valid for pod p".into()));
    let bad = client.get(&format!("{PODS}/p/log?tailLines=-1")).await;
    assert_eq!(bad.failure().1, "Invalid");
    assert_eq!(client.get(&format!("{PODS}/nope/log")).await.failure().2, "pods \"nope\" not found");
}
