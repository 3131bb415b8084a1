//! JSON patch, merge patch, strategic merge patch.

use serde_json::json;

use crate::harness::{CONFIG_MAPS, Cluster, DEPLOYMENTS, config_map, deployment};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_json_patch_applies_whole_or_not() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    let patch = json!([
        {"op": "test", "path": "/data/k", "value": "v"},
        {"op": "add", "path": "/data/l", "value": "w"},
        {"op": "remove", "path": "/data/k"},
    ]);
    assert_eq!(client.patch(&path, "json-patch", &patch).await.expect(200)["data"], json!({"l": "w"}));
    let (code, reason, _) = client.patch(&path, "json-patch", &patch).await.failure();
    assert_eq!((code, reason.as_str()), (422, "Invalid"));
    let nonsense = client.patch(&path, "json-patch", &json!({"op": "add"})).await;
    assert_eq!(nonsense.failure().1, "BadRequest");
    assert_eq!(client.get(&path).await.expect(200)["data"], json!({"l": "w"}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_patch_replaces_lists() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    client.post(DEPLOYMENTS, &deployment("a")).await.expect(201);
    let path = format!("{DEPLOYMENTS}/a");
    let containers = json!([{"name": "d", "image": "i:2"}]);
    let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    let patched = client.patch(&path, "merge-patch", &patch).await.expect(200);
    let containers = patched["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    assert_eq!((containers.len(), &containers[0]["name"]), (1, &json!("d")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strategic_patch_merges_lists_by_key() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    client.post(DEPLOYMENTS, &deployment("a")).await.expect(201);
    let path = format!("{DEPLOYMENTS}/a");
    let patch = |containers| json!({"spec": {"template": {"spec": {"containers": containers}}}});
    let both = client
        .patch(
            &path,
            "strategic-merge-patch",
            &patch(json!([{"name": "d", "image": "i:2"}, {"name": "c", "image": "i:3"}])),
        )
        .await
        .expect(200);
    let images: Vec<_> = both["spec"]["template"]["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| format!("{}={}", c["name"].as_str().unwrap(), c["image"].as_str().unwrap()))
        .collect();
    assert!(images.contains(&"c=i:3".to_owned()) && images.contains(&"d=i:2".to_owned()), "{images:?}");
    let one = client
        .patch(&path, "strategic-merge-patch", &patch(json!([{"name": "d", "$patch": "delete"}])))
        .await
        .expect(200);
    assert_eq!(one["spec"]["template"]["spec"]["containers"].as_array().unwrap().len(), 1);
    assert_eq!(one["metadata"]["generation"], 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_result_of_a_patch_is_checked() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    client.post(DEPLOYMENTS, &deployment("a")).await.expect(201);
    let path = format!("{DEPLOYMENTS}/a");
    let before = cluster.contents().await;
    let answer = client.patch(&path, "merge-patch", &json!({"spec": {"replicas": -1}})).await;
    assert_eq!(answer.failure().1, "Invalid");
    assert_eq!(answer.json()["details"]["causes"][0]["field"], "spec.replicas");
    let answer = client.patch(&path, "merge-patch", &json!({"spec": {"replicas": "three"}})).await;
    assert_eq!(answer.failure().1, "BadRequest");
    let answer = client.patch(&path, "merge-patch", &json!({"metadata": {"name": "b"}})).await;
    assert!(answer.code >= 400, "{answer:?}");
    let warned =
        client.patch(&format!("{path}?fieldValidation=Warn"), "merge-patch", &json!({"spec": {"nope": 1}})).await;
    assert_eq!(warned.headers["warning"], "299 - \"unknown field \\\"spec.nope\\\"\"");
    let strict =
        client.patch(&format!("{path}?fieldValidation=Strict"), "merge-patch", &json!({"spec": {"nope": 1}})).await;
    assert_eq!(strict.failure().1, "BadRequest");
    assert_eq!(client.patch(&format!("{path}x"), "merge-patch", &json!({})).await.failure().0, 404);
    assert_eq!(cluster.contents().await, before);
}
