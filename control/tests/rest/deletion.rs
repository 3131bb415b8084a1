//! Delete: grace, finalizers, preconditions, propagation, collections, namespaces.

use http::Method;
use serde_json::json;

use crate::harness::{CONFIG_MAPS, Cluster, JSON, PODS, config_map, deployment, pod};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bound_pod_goes_when_its_node_says_so() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    let mut bound = pod("p");
    bound["spec"]["nodeName"] = "n1".into();
    client.post(PODS, &bound).await.expect(201);
    let path = format!("{PODS}/p");
    let marked = client.delete(&path).await.expect(200);
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    // Asked again it changes nothing, asked for sooner it is sooner.
    let again = client.delete(&path).await.expect(200);
    assert_eq!(again["metadata"], marked["metadata"]);
    let sooner = client.delete(&format!("{path}?gracePeriodSeconds=5")).await.expect(200);
    assert_eq!(sooner["metadata"]["deletionGracePeriodSeconds"], 5);
    let now = client.request(Method::DELETE, &path, JSON, br#"{"gracePeriodSeconds":0}"#).await.expect(200);
    assert_eq!(now["kind"], "Pod");
    assert_eq!(client.get(&path).await.code, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_runs_nowhere_goes_at_once() {
    let cluster = Cluster::start().await;
    cluster.client.post(PODS, &pod("p")).await.expect(201);
    cluster.client.delete(&format!("{PODS}/p")).await.expect(200);
    assert_eq!(cluster.client.get(&format!("{PODS}/p")).await.code, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn finalizers_hold_an_object() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    let mut object = config_map("a");
    object["metadata"]["finalizers"] = json!(["example.com/f"]);
    client.post(CONFIG_MAPS, &object).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    let marked = client.delete(&path).await.expect(200);
    assert_eq!(marked["kind"], "ConfigMap");
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    client.get(&path).await.expect(200);
    let patch = json!({"metadata": {"finalizers": null}});
    client.patch(&path, "merge-patch", &patch).await.expect(200);
    assert_eq!(client.get(&path).await.code, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn preconditions_must_hold() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    let made = client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    for preconditions in [json!({"uid": "other"}), json!({"resourceVersion": "1"})] {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions});
        let answer = client.request(Method::DELETE, &path, JSON, options.to_string().as_bytes()).await;
        let (code, reason, message) = answer.failure();
        assert_eq!((code, reason.as_str()), (409, "Conflict"));
        assert!(message.contains("Precondition failed"), "{message}");
    }
    let options = json!({"preconditions": {"uid": made["metadata"]["uid"]}});
    client.request(Method::DELETE, &path, JSON, options.to_string().as_bytes()).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn propagation_becomes_a_finalizer() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    let all = "/apis/apps/v1/namespaces/default/deployments";
    for (policy, finalizer) in [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")] {
        client.post(all, &deployment("a")).await.expect(201);
        let answer = client.delete(&format!("{all}/a?propagationPolicy={policy}")).await.expect(200);
        assert_eq!(answer["metadata"]["finalizers"], json!([finalizer]));
        client.patch(&format!("{all}/a"), "merge-patch", &json!({"metadata": {"finalizers": null}})).await.expect(200);
    }
    client.post(all, &deployment("a")).await.expect(201);
    assert_eq!(client.delete(&format!("{all}/a?propagationPolicy=Sideways")).await.failure().0, 422);
    client.delete(&format!("{all}/a?propagationPolicy=Background")).await.expect(200);
    assert_eq!(client.get(&format!("{all}/a")).await.code, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collection_goes_by_selector() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    for name in ["a", "b", "c"] {
        let mut object = config_map(name);
        object["metadata"]["labels"] = json!({"keep": (name == "b").to_string()});
        client.post(CONFIG_MAPS, &object).await.expect(201);
    }
    let gone = client.delete(&format!("{CONFIG_MAPS}?labelSelector=keep%3Dfalse")).await.expect(200);
    assert_eq!(gone["items"].as_array().unwrap().len(), 2);
    let left = client.get(CONFIG_MAPS).await.expect(200);
    assert_eq!(left["items"].as_array().unwrap().len(), 1);
    assert_eq!(left["items"][0]["metadata"]["name"], "b");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_that_ends_takes_nothing_new() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    let made = client.post("/api/v1/namespaces", &namespace).await.expect(201);
    assert_eq!((&made["status"]["phase"], &made["spec"]["finalizers"]), (&json!("Active"), &json!(["kubernetes"])));
    let ending = client.delete("/api/v1/namespaces/n").await.expect(200);
    assert_eq!(ending["status"]["phase"], "Terminating");
    let answer = client.post("/api/v1/namespaces/n/configmaps", &config_map("a")).await;
    let text =
        "configmaps \"a\" is forbidden: unable to create new content in namespace n because it is being terminated";
    assert_eq!(answer.failure(), (403, "Forbidden".into(), text.into()));
    let cause = json!([{"reason": "NamespaceTerminating", "message": "namespace n is being terminated", "field": "metadata.namespace"}]);
    assert_eq!(answer.json()["details"]["causes"], cause);
    let mut finalized = ending.clone();
    finalized["spec"] = json!({});
    client.put("/api/v1/namespaces/n/finalize", &finalized).await.expect(200);
    assert_eq!(client.get("/api/v1/namespaces/n").await.code, 404);
    let answer = client.post("/api/v1/namespaces/n/configmaps", &config_map("a")).await;
    assert_eq!(answer.failure(), (404, "NotFound".into(), "namespaces \"n\" not found".into()));
}
