//! Tables, partial objects, discovery.

use serde_json::{Value, json};

use crate::harness::{CONFIG_MAPS, Cluster, PODS, config_map, pod};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json";
const PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json";

fn headings(table: &Value) -> Vec<&str> {
    let columns = table["columnDefinitions"].as_array().unwrap();
    columns.iter().filter(|c| c["priority"] == 0).map(|c| c["name"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_as_a_table() {
    let cluster = Cluster::start().await;
    cluster.client.post(PODS, &pod("p")).await.expect(201);
    let table = cluster.client.get_as(PODS, TABLE).await.expect(200);
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    assert_eq!(headings(&table), ["Name", "Ready", "Status", "Restarts", "Age"]);
    assert_eq!(table["rows"][0]["cells"][0], "p");
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let whole = cluster.client.get_as(&format!("{PODS}?includeObject=Object"), TABLE).await.expect(200);
    assert_eq!(whole["rows"][0]["object"]["kind"], "Pod");
    let one = cluster.client.get_as(&format!("{PODS}/p"), TABLE).await.expect(200);
    assert_eq!(one["rows"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metadata_alone() {
    let cluster = Cluster::start().await;
    cluster.client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let one = cluster.client.get_as(&format!("{CONFIG_MAPS}/a"), PARTIAL).await.expect(200);
    assert_eq!((&one["kind"], one.get("data")), (&json!("PartialObjectMetadata"), None));
    assert!(one["metadata"]["resourceVersion"].is_string());
    let many = cluster.client.get_as(CONFIG_MAPS, PARTIAL_LIST).await.expect(200);
    assert_eq!(many["kind"], "PartialObjectMetadataList");
    assert_eq!(many["items"][0]["metadata"]["name"], "a");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn discovery_and_openapi_answer() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    for path in [
        "/api",
        "/api/v1",
        "/apis",
        "/apis/apps",
        "/apis/apps/v1",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/api/v1",
        "/openapi/v3/apis/apps/v1",
    ] {
        client.get(path).await.expect(200);
    }
    assert_eq!(client.get("/apis/nope.example/v1").await.failure().0, 404);
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let answer = client.get_as("/apis", aggregated).await;
    assert_eq!(answer.headers["content-type"], "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    assert_eq!(answer.expect(200)["kind"], "APIGroupDiscoveryList");
    let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let answer = client.get_as("/openapi/v2", protobuf).await;
    assert!(answer.code == 200 && answer.body.len() > 1000);
}
