//! Nobody unauthenticated gets in; nodes have gRPC only.

use http::Method;
use serde_json::json;

use crate::harness::{Cluster, PODS};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_certificate_everything_is_401() {
    let cluster = Cluster::start().await;
    let stranger = cluster.stranger();
    for path in ["/", "/version", "/healthz", "/livez", "/readyz", "/api", "/apis", "/openapi/v2", PODS, "/nope"] {
        let answer = stranger.get(path).await;
        assert_eq!(answer.failure(), (401, "Unauthorized".into(), "Unauthorized".into()), "{path}");
    }
    let answer = stranger.request(Method::POST, PODS, &[("content-type", "application/grpc")], b"").await;
    assert_eq!(answer.headers["grpc-status"], "16");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_may_not_use_rest() {
    let cluster = Cluster::start().await;
    let node = cluster.node("node-1");
    let answer = node.get("/api/v1/namespaces/default/pods/a").await;
    let text = "pods \"a\" is forbidden: User \"system:node:node-1\" cannot get resource \"pods\" in API group \"\" in the namespace \"default\"";
    assert_eq!(answer.failure(), (403, "Forbidden".into(), text.into()));
    let answer = node.get("/apis/apps/v1/deployments?watch=1").await;
    let text = "deployments.apps is forbidden: User \"system:node:node-1\" cannot watch resource \"deployments\" in API group \"apps\" at the cluster scope";
    assert_eq!(answer.failure(), (403, "Forbidden".into(), text.into()));
    let answer = node.post("/api/v1/namespaces", &json!({})).await;
    assert_eq!(answer.code, 403);
    let answer = node.get("/version").await;
    let text = "forbidden: User \"system:node:node-1\" cannot get path \"/version\"";
    assert_eq!(answer.failure(), (403, "Forbidden".into(), text.into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_administrator_sees_health_and_version() {
    let cluster = Cluster::start().await;
    for check in ["healthz", "livez", "readyz"] {
        let answer = cluster.client.get(&format!("/{check}")).await;
        assert_eq!((answer.code, &answer.body[..]), (200, &b"ok"[..]));
        let answer = cluster.client.get(&format!("/{check}?verbose")).await;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(text.starts_with("[+]ping ok\n") && text.ends_with(&format!("{check} check passed\n")), "{text}");
    }
    assert_eq!(cluster.client.get("/version").await.expect(200)["gitVersion"], "v1.33.0");
    assert_eq!(cluster.client.get("/nope").await.failure().0, 404);
    assert_eq!(cluster.client.post("/version", &json!({})).await.failure().0, 405);
}
