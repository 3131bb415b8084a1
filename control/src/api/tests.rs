use serde_json::{Value, json};
use skep_control_core::api::service_ip::NodePorts;
use skep_store::Store;

use super::*;

async fn api(dir: &std::path::Path) -> Api {
    let store = Backend::open(&dir.join("store.redb"), skep_store::Options::default()).unwrap();
    let config = ApiConfig {
        service_cidrs: vec!["10.9.0.0/28".parse().unwrap()],
        cluster_cidrs: vec!["10.244.0.0/16".parse().unwrap()],
        node_ports: NodePorts::default(),
        cluster_domain: "cluster.local".to_owned(),
        lease_duration_seconds: 40,
    };
    Api::start(store, config).await.unwrap()
}

fn caller() -> Caller {
    Caller::system("test")
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}})
}

async fn create(api: &Api, resource: &str, object: Value) -> Result<Object, Status> {
    api.create(&caller(), resource, "default", object, &WriteOptions::default()).await
}

#[tokio::test]
async fn what_is_spliced_is_what_is_parsed() {
    let dir = tempfile::tempdir().unwrap();
    let api = api(dir.path()).await;
    let made = create(&api, "configmaps", config_map("a")).await.unwrap();
    let read = api.get("configmaps", "default", "a").await.unwrap();
    assert_eq!(made.json(), read.json());
    let value: Value = serde_json::from_slice(&read.json()).unwrap();
    assert_eq!(value, read.value().unwrap());
    assert_eq!(value["metadata"]["resourceVersion"], read.revision.to_string());
    assert_eq!((read.namespace(), read.name()), ("default", "a"));
    assert!(read.json().starts_with(br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"resourceVersion":"#));
    let typed: k8s_openapi::api::core::v1::ConfigMap = api.read("default", "a").await.unwrap();
    assert_eq!(typed.metadata.resource_version, Some(read.revision.to_string()));
}

#[tokio::test]
async fn an_event_is_seen_in_both_versions_and_has_a_lease() {
    let dir = tempfile::tempdir().unwrap();
    let api = api(dir.path()).await;
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}, "reason": "Started",
        "message": "said", "type": "Normal", "count": 2,
    });
    create(&api, "events", event).await.unwrap();
    let (_, kv) = api.store().get(b"/registry/events/default/e").await.unwrap();
    assert_ne!(kv.unwrap().lease, 0);
    let newer = skep_control_core::api::registry().find("events.k8s.io", "v1", "events").unwrap();
    let seen = api.get(newer, "default", "e").await.unwrap();
    let seen: Value = serde_json::from_slice(&seen.json()).unwrap();
    assert_eq!((&seen["apiVersion"], &seen["note"]), (&json!("events.k8s.io/v1"), &json!("said")));
    assert_eq!(seen["regarding"]["name"], "p");
}

#[tokio::test]
async fn everything_is_watched_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let api = api(dir.path()).await;
    let mut watch = api.watch_all(api.revision()).await.unwrap();
    create(&api, "configmaps", config_map("a")).await.unwrap();
    let service =
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]}});
    create(&api, "services", service).await.unwrap();
    api.delete(&caller(), "configmaps", "default", "a", &DeleteOptions::default()).await.unwrap();
    let mut seen = Vec::new();
    let mut last = 0;
    while seen.len() < 3 {
        if let WatchItem::Events(revision, events) = watch.next().await.unwrap() {
            assert!(revision > last);
            last = revision;
            seen.extend(events.into_iter().map(|e| (e.kind, e.object.resource().plural, e.object.name().to_owned())));
        }
    }
    let expected = [
        (WatchKind::Added, "configmaps", "a".to_owned()),
        (WatchKind::Added, "services", "s".to_owned()),
        (WatchKind::Deleted, "configmaps", "a".to_owned()),
    ];
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn addresses_stay_taken_over_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let service = |name: &str, ip: Option<&str>| {
        let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": 1}]}});
        if let Some(ip) = ip {
            service["spec"]["clusterIP"] = ip.into();
        }
        service
    };
    let ip = {
        let api = api(dir.path()).await;
        let made = create(&api, "services", service("s", None)).await.unwrap().value().unwrap();
        made["spec"]["clusterIP"].as_str().unwrap().to_owned()
    };
    let api = api(dir.path()).await;
    assert_eq!(create(&api, "services", service("t", Some(&ip))).await.unwrap_err().code, 422);
    api.delete(&caller(), "services", "default", "s", &DeleteOptions::default()).await.unwrap();
    create(&api, "services", service("t", Some(&ip))).await.unwrap();
}

#[tokio::test]
async fn modify_goes_on_after_conflicts() {
    let dir = tempfile::tempdir().unwrap();
    let api = api(dir.path()).await;
    create(&api, "configmaps", config_map("a")).await.unwrap();
    let writers = (0..10).map(|_| {
        let api = api.clone();
        tokio::spawn(async move {
            let count = |value: &mut Value| {
                let count = value["data"]["count"].as_str().unwrap_or("0").parse::<u32>().unwrap();
                value["data"]["count"] = (count + 1).to_string().into();
                Ok(true)
            };
            api.modify(&caller(), "configmaps", None, "default", "a", count).await.unwrap();
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let object = api.get("configmaps", "default", "a").await.unwrap().value().unwrap();
    assert_eq!(object["data"]["count"], "10");
    let unchanged = api.modify(&caller(), "configmaps", None, "default", "a", |_| Ok(false)).await.unwrap();
    assert_eq!(unchanged.value().unwrap(), object);
}
