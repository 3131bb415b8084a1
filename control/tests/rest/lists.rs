//! Lists: order, selectors, pages, revisions.

use serde_json::{Value, json};

use crate::harness::{CONFIG_MAPS, Cluster, PODS, config_map, pod};

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_come_in_order_and_bare() {
    let cluster = Cluster::start().await;
    for name in ["b", "a", "c"] {
        cluster.client.post(CONFIG_MAPS, &config_map(name)).await.expect(201);
    }
    let list = cluster.client.get(CONFIG_MAPS).await.expect(200);
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("ConfigMapList"), &json!("v1")));
    assert_eq!(names(&list), ["a", "b", "c"]);
    for item in list["items"].as_array().unwrap() {
        assert!(item.get("kind").is_none() && item["metadata"]["resourceVersion"].is_string(), "{item}");
    }
    let everywhere = cluster.client.get("/api/v1/configmaps").await.expect(200);
    assert_eq!(names(&everywhere), ["a", "b", "c"]);
    assert_eq!(names(&cluster.client.get("/api/v1/namespaces/other/configmaps").await.expect(200)), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn selectors_select() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    for name in ["a", "b", "c"] {
        let mut object = pod(name);
        object["metadata"]["labels"]["even"] = (name == "b").to_string().into();
        if name != "c" {
            object["spec"]["nodeName"] = format!("node-{name}").into();
        }
        client.post(PODS, &object).await.expect(201);
    }
    let select = async |query: &str| {
        let list = client.get(&format!("{PODS}?{query}")).await.expect(200);
        names(&list).iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(select("labelSelector=even%3Dtrue").await, ["b"]);
    assert_eq!(select("labelSelector=app+in+(a,c)").await, ["a", "c"]);
    assert_eq!(select("labelSelector=app!%3Da,even").await, ["b", "c"]);
    assert_eq!(select("fieldSelector=spec.nodeName%3Dnode-a").await, ["a"]);
    assert_eq!(select("fieldSelector=spec.nodeName%3D").await, ["c"]);
    assert_eq!(select("fieldSelector=metadata.name%3Db").await, ["b"]);
    assert_eq!(select("fieldSelector=metadata.name%3Db&labelSelector=app%3Da").await, [""; 0]);
    let bad = client.get(&format!("{PODS}?labelSelector=a+b+c")).await;
    assert_eq!(bad.failure().1, "BadRequest");
    let bad = client.get(&format!("{PODS}?fieldSelector=spec.nope%3D1")).await;
    assert_eq!(bad.failure().1, "BadRequest");
    assert!(bad.failure().2.contains("spec.nope"), "{bad:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_are_of_one_revision() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    for n in 0..10 {
        client.post(CONFIG_MAPS, &config_map(&format!("c{n}"))).await.expect(201);
    }
    let first = client.get(&format!("{CONFIG_MAPS}?limit=4")).await.expect(200);
    assert_eq!(names(&first), ["c0", "c1", "c2", "c3"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 6);
    let token = first["metadata"]["continue"].as_str().unwrap();
    client.delete(&format!("{CONFIG_MAPS}/c5")).await.expect(200);
    client.post(CONFIG_MAPS, &config_map("c4a")).await.expect(201);
    let second = client.get(&format!("{CONFIG_MAPS}?limit=4&continue={token}")).await.expect(200);
    assert_eq!(names(&second), ["c4", "c5", "c6", "c7"]);
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    let last = second["metadata"]["continue"].as_str().unwrap();
    let third = client.get(&format!("{CONFIG_MAPS}?limit=4&continue={last}")).await.expect(200);
    assert_eq!(names(&third), ["c8", "c9"]);
    assert!(third["metadata"].get("continue").is_none() && third["metadata"].get("remainingItemCount").is_none());

    let bad = client.get(&format!("{CONFIG_MAPS}?limit=4&continue=x")).await;
    assert_eq!(bad.failure().1, "BadRequest");
    use skep_store::Store;
    let store = cluster.control.api.store();
    store.compact(store.revision()).await.unwrap();
    let expired = client.get(&format!("{CONFIG_MAPS}?limit=4&continue={token}")).await;
    let (code, reason, message) = expired.failure();
    assert_eq!((code, reason.as_str()), (410, "Expired"));
    assert!(message.starts_with("The provided continue parameter is too old"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_with_selectors_are_full() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    for n in 0..9 {
        let mut object = config_map(&format!("c{n}"));
        object["metadata"]["labels"] = json!({"third": (n % 3 == 0).to_string()});
        client.post(CONFIG_MAPS, &object).await.expect(201);
    }
    let query = "labelSelector=third%3Dtrue&limit=2";
    let first = client.get(&format!("{CONFIG_MAPS}?{query}")).await.expect(200);
    assert_eq!(names(&first), ["c0", "c3"]);
    assert!(first["metadata"].get("remainingItemCount").is_none());
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = client.get(&format!("{CONFIG_MAPS}?{query}&continue={token}")).await.expect(200);
    assert_eq!(names(&second), ["c6"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revisions_are_what_they_say() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    let made = client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let revision: u64 = made["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    client.post(CONFIG_MAPS, &config_map("b")).await.expect(201);
    let exact = format!("{CONFIG_MAPS}?resourceVersion={revision}&resourceVersionMatch=Exact");
    let then = client.get(&exact).await.expect(200);
    assert_eq!(names(&then), ["a"]);
    assert_eq!(then["metadata"]["resourceVersion"], revision.to_string());
    for query in [format!("resourceVersion={revision}"), "resourceVersion=0".to_owned()] {
        assert_eq!(names(&client.get(&format!("{CONFIG_MAPS}?{query}")).await.expect(200)), ["a", "b"]);
    }
    let future = client.get(&format!("{CONFIG_MAPS}?resourceVersion=999999")).await;
    let (code, reason, message) = future.failure();
    assert_eq!((code, reason.as_str()), (504, "Timeout"));
    assert!(message.starts_with("Too large resource version: 999999, current: "), "{message}");
    assert_eq!(future.json()["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    assert_eq!(client.get(&format!("{CONFIG_MAPS}?resourceVersion=x")).await.failure().1, "BadRequest");
    let answer = client.get(&format!("{CONFIG_MAPS}?resourceVersionMatch=Exact")).await;
    assert_eq!(answer.failure().1, "Invalid");

    use skep_store::Store;
    let store = cluster.control.api.store();
    store.compact(store.revision()).await.unwrap();
    assert_eq!(client.get(&exact).await.failure().1, "Expired");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_list_is_whole() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    for n in 0..30 {
        let mut object = config_map(&format!("c{n:02}"));
        // Some are passed on shared, some are gathered.
        let size = if n % 5 == 0 { 20_000 } else { 3000 };
        object["data"]["k"] = "x".repeat(size).into();
        client.post(CONFIG_MAPS, &object).await.expect(201);
    }
    let list = client.get(CONFIG_MAPS).await.expect(200);
    assert_eq!(list["items"].as_array().unwrap().len(), 30);
    for (n, item) in list["items"].as_array().unwrap().iter().enumerate() {
        let size = if n % 5 == 0 { 20_000 } else { 3000 };
        assert_eq!(item["data"]["k"].as_str().unwrap().len(), size);
    }
}
