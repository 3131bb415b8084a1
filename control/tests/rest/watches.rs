//! Watches.

use std::time::Duration;

use serde_json::json;
use skep_store::Store;

use crate::harness::{CONFIG_MAPS, Cluster, PODS, config_map, pod};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_state_first_and_then_each_change_once() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let mut frames = client.watch(&format!("{CONFIG_MAPS}?watch=true")).await;
    assert_eq!(frames.brief().await, "ADDED a");
    client.post(CONFIG_MAPS, &config_map("b")).await.expect(201);
    let patched =
        client.patch(&format!("{CONFIG_MAPS}/a"), "merge-patch", &json!({"data": {"k": "w"}})).await.expect(200);
    client.delete(&format!("{CONFIG_MAPS}/b")).await.expect(200);
    assert_eq!(frames.brief().await, "ADDED b");
    let modified = frames.next().await.unwrap();
    assert_eq!((&modified["type"], &modified["object"]), (&json!("MODIFIED"), &patched));
    let deleted = frames.next().await.unwrap();
    assert_eq!(deleted["type"], "DELETED");
    let revision =
        |value: &serde_json::Value| -> u64 { value["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap() };
    assert!(revision(&deleted["object"]) > revision(&patched));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_a_revision_on() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    let made = client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let revision = made["metadata"]["resourceVersion"].as_str().unwrap();
    client.post(CONFIG_MAPS, &config_map("b")).await.expect(201);
    let mut frames = client.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={revision}&timeoutSeconds=1")).await;
    assert_eq!(frames.brief().await, "ADDED b");
    assert_eq!(frames.brief().await, "END");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_selector_sees() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    let mut frames = client.watch(&format!("{PODS}?watch=1&labelSelector=color%3Dred")).await;
    let mut one = client.watch(&format!("{PODS}?watch=1&fieldSelector=metadata.name%3Dq")).await;
    let paint = |color: &str| json!({"metadata": {"labels": {"color": color}}});
    let path = format!("{PODS}/p");
    client.post(PODS, &pod("p")).await.expect(201);
    client.patch(&path, "merge-patch", &paint("red")).await.expect(200);
    client.patch(&path, "merge-patch", &json!({"metadata": {"labels": {"x": "y"}}})).await.expect(200);
    let blue = client.patch(&path, "merge-patch", &paint("blue")).await.expect(200);
    client.patch(&path, "merge-patch", &paint("red")).await.expect(200);
    client.delete(&path).await.expect(200);
    assert_eq!(frames.brief().await, "ADDED p");
    assert_eq!(frames.brief().await, "MODIFIED p");
    let left = frames.next().await.unwrap();
    assert_eq!(left["type"], "DELETED");
    assert_eq!(left["object"]["metadata"]["labels"]["color"], "red");
    assert_eq!(left["object"]["metadata"]["resourceVersion"], blue["metadata"]["resourceVersion"]);
    assert_eq!(frames.brief().await, "ADDED p");
    assert_eq!(frames.brief().await, "DELETED p");
    client.post(PODS, &pod("q")).await.expect(201);
    assert_eq!(one.brief().await, "ADDED q");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_the_state_is_marked() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut frames = client.watch(&format!("{CONFIG_MAPS}?{query}")).await;
    assert_eq!(frames.brief().await, "ADDED a");
    let mark = frames.next().await.unwrap();
    assert_eq!(mark["type"], "BOOKMARK");
    assert_eq!(mark["object"]["kind"], "ConfigMap");
    assert_eq!(mark["object"]["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
    client.post(CONFIG_MAPS, &config_map("b")).await.expect(201);
    assert_eq!(frames.brief().await, "ADDED b");
    let answer = client.get(&format!("{CONFIG_MAPS}?watch=1&sendInitialEvents=true")).await;
    assert_eq!(answer.failure().1, "Invalid");
    let answer = client.get(&format!("{CONFIG_MAPS}?watch=1&resourceVersionMatch=NotOlderThan")).await;
    assert_eq!(answer.failure().1, "Invalid");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compacted_revision_is_expired() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    let made = client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let revision = made["metadata"]["resourceVersion"].as_str().unwrap();
    for n in 0..3 {
        client.post(CONFIG_MAPS, &config_map(&format!("b{n}"))).await.expect(201);
    }
    let store = cluster.control.api.store();
    store.compact(store.revision()).await.unwrap();
    let mut frames = client.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={revision}")).await;
    let error = frames.next().await.unwrap();
    assert_eq!(error["type"], "ERROR");
    let status = &error["object"];
    assert_eq!((&status["code"], &status["reason"]), (&json!(410), &json!("Expired")));
    let message = status["message"].as_str().unwrap();
    assert!(message.starts_with(&format!("too old resource version: {revision} (")), "{message}");
    assert_eq!(frames.brief().await, "END");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_watched_too() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    client.post(PODS, &pod("p")).await.expect(201);
    let request = http::Request::get(format!("{PODS}?watch=1&timeoutSeconds=1"))
        .header("host", "localhost")
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(http_body_util::Full::default())
        .unwrap();
    let response = client.send(request).await;
    client.post(PODS, &pod("q")).await.expect(201);
    use http_body_util::BodyExt;
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let frames: Vec<serde_json::Value> =
        body.split(|b| *b == b'\n').filter(|l| !l.is_empty()).map(|l| serde_json::from_slice(l).unwrap()).collect();
    assert_eq!(frames.len(), 2);
    assert_eq!(frames[0]["object"]["kind"], "Table");
    assert_eq!(frames[0]["object"]["columnDefinitions"][0]["name"], "Name");
    assert_eq!(frames[1]["object"]["rows"][0]["cells"][0], "q");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_end_with_the_service() {
    let cluster = Cluster::start().await;
    let mut frames = cluster.client.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    let stopped = tokio::time::timeout(Duration::from_secs(10), cluster.control.stop());
    let (frame, stopped) = tokio::join!(frames.next(), stopped);
    assert!(frame.is_none() && stopped.is_ok());
}
