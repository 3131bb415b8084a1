//! Create, read, update.

use http::Method;
use serde_json::json;

use crate::harness::{CONFIG_MAPS, Cluster, DEPLOYMENTS, JSON, PODS, YAML, config_map, deployment, pod};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_lives() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    let made = client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    assert_eq!(made["metadata"]["namespace"], "default");
    assert!(made["metadata"]["uid"].as_str().is_some_and(|uid| uid.len() == 36));
    assert!(made["metadata"]["creationTimestamp"].is_string());
    let path = format!("{CONFIG_MAPS}/a");
    assert_eq!(client.get(&path).await.expect(200), made);

    let mut changed = made.clone();
    changed["data"]["k"] = "w".into();
    let changed = client.put(&path, &changed).await.expect(200);
    assert_ne!(changed["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    assert_eq!(changed["metadata"]["uid"], made["metadata"]["uid"]);
    // Writing what is there writes nothing.
    let again = client.put(&path, &changed).await.expect(200);
    assert_eq!(again["metadata"]["resourceVersion"], changed["metadata"]["resourceVersion"]);

    let status = client.delete(&path).await.expect(200);
    assert_eq!(status["status"], "Success");
    assert_eq!(status["details"], json!({"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}));
    let gone = client.get(&path).await;
    assert_eq!(gone.failure(), (404, "NotFound".into(), "configmaps \"a\" not found".into()));
    assert_eq!(gone.json()["details"], json!({"name": "a", "kind": "configmaps"}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_are_generated_and_unique() {
    let cluster = Cluster::start().await;
    let mut object = config_map("");
    object["metadata"] = json!({"generateName": "a-"});
    let mut names = std::collections::HashSet::new();
    for _ in 0..20 {
        let made = cluster.client.post(CONFIG_MAPS, &object).await.expect(201);
        let name = made["metadata"]["name"].as_str().unwrap().to_owned();
        assert!(name.starts_with("a-") && name.len() == 7, "{name}");
        assert!(names.insert(name));
    }
    let taken = cluster.client.post(CONFIG_MAPS, &config_map(names.iter().next().unwrap())).await;
    let (code, reason, message) = taken.failure();
    assert_eq!((code, reason.as_str()), (409, "AlreadyExists"));
    assert!(message.ends_with("already exists"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_writer_is_refused() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    let first = client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    let mut second = first.clone();
    second["data"]["k"] = "second".into();
    client.put(&path, &second).await.expect(200);
    let mut stale = first.clone();
    stale["data"]["k"] = "stale".into();
    let text = "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again";
    assert_eq!(client.put(&path, &stale).await.failure(), (409, "Conflict".into(), text.into()));
    let patch = json!({"metadata": {"resourceVersion": first["metadata"]["resourceVersion"]}, "data": {"k": "stale"}});
    assert_eq!(client.patch(&path, "merge-patch", &patch).await.failure(), (409, "Conflict".into(), text.into()));
    assert_eq!(client.get(&path).await.expect(200)["data"]["k"], "second");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_writers_lose_nothing() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    let writers = (0..8).map(|writer| {
        let (client, path) = (client.clone(), path.clone());
        tokio::spawn(async move {
            for n in 0..10 {
                let mut data = serde_json::Map::new();
                data.insert(format!("w{writer}-{n}"), "x".into());
                client.patch(&path, "merge-patch", &json!({ "data": data })).await.expect(200);
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let object = client.get(&path).await.expect(200);
    assert_eq!(object["data"].as_object().unwrap().len(), 81);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_writes_nothing() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let before = cluster.contents().await;
    let made = client.post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("b")).await.expect(201);
    assert!(made["metadata"]["uid"].is_string());
    assert_eq!(client.post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("a")).await.failure().0, 409);
    let patch = json!({"data": {"k": "w"}});
    let patched = client.patch(&format!("{CONFIG_MAPS}/a?dryRun=All"), "merge-patch", &patch).await.expect(200);
    assert_eq!(patched["data"]["k"], "w");
    client.delete(&format!("{CONFIG_MAPS}/a?dryRun=All")).await.expect(200);
    let answer = client.post(&format!("{CONFIG_MAPS}?dryRun=Some"), &config_map("c")).await;
    assert_eq!(answer.failure().0, 422);
    assert_eq!(cluster.contents().await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn yaml_goes_in_and_comes_out() {
    let cluster = Cluster::start().await;
    let text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: \"1\"\n";
    let answer = cluster.client.request(Method::POST, CONFIG_MAPS, YAML, text).await;
    assert_eq!(answer.expect(201)["data"]["k"], "1");
    let answer = cluster.client.get_as(&format!("{CONFIG_MAPS}/a"), "application/yaml").await;
    assert_eq!(answer.headers["content-type"], "application/yaml");
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(text.contains("kind: ConfigMap\n") && text.contains("  name: a\n"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_and_scale_are_doors_of_their_own() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    let path = format!("{DEPLOYMENTS}/a");
    let made = client.post(DEPLOYMENTS, &deployment("a")).await.expect(201);
    assert_eq!(made["metadata"]["generation"], 1);

    let mut changed = made.clone();
    changed["spec"]["replicas"] = 9.into();
    changed["status"] = json!({"replicas": 2, "observedGeneration": 1});
    let by_status = client.put(&format!("{path}/status"), &changed).await.expect(200);
    assert_eq!((&by_status["spec"]["replicas"], &by_status["status"]["replicas"]), (&json!(2), &json!(2)));
    assert_eq!(by_status["metadata"]["generation"], 1);

    let mut changed = by_status.clone();
    changed["spec"]["replicas"] = 3.into();
    changed["status"] = json!({"replicas": 7});
    let by_spec = client.put(&path, &changed).await.expect(200);
    assert_eq!((&by_spec["spec"]["replicas"], &by_spec["status"]["replicas"]), (&json!(3), &json!(2)));
    assert_eq!(by_spec["metadata"]["generation"], 2);

    let scale = client.get(&format!("{path}/scale")).await.expect(200);
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(3)));
    assert_eq!(scale["status"]["selector"], "app=a");
    let patch = json!({"spec": {"replicas": 5}});
    let scale = client.patch(&format!("{path}/scale"), "merge-patch", &patch).await.expect(200);
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(5)));
    let mut put = scale.clone();
    put["spec"]["replicas"] = 0.into();
    client.put(&format!("{path}/scale"), &put).await.expect(200);
    assert_eq!(client.put(&format!("{path}/scale"), &put).await.failure().0, 409);
    assert_eq!(client.get(&path).await.expect(200)["spec"]["replicas"], 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_is_bound_once() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    client.post(PODS, &pod("p")).await.expect(201);
    let binding = |node: &str| json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": node}});
    let status = client.post(&format!("{PODS}/p/binding"), &binding("n1")).await.expect(201);
    assert_eq!(status["status"], "Success");
    let again = client.post(&format!("{PODS}/p/binding"), &binding("n2")).await;
    let text = "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n1\"";
    let (code, reason, message) = again.failure();
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert!(message.ends_with("pod p is already assigned to node \"n1\""), "{message} (Kubernetes: {text})");
    assert_eq!(client.get(&format!("{PODS}/p")).await.expect(200)["spec"]["nodeName"], "n1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn methods_and_media_types_that_are_not_served() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    assert_eq!(client.request(Method::PUT, CONFIG_MAPS, JSON, b"{}").await.failure().0, 405);
    assert_eq!(client.request(Method::OPTIONS, CONFIG_MAPS, &[], b"").await.failure().0, 405);
    let protobuf = [("content-type", "application/nonsense")];
    let answer = client.request(Method::POST, CONFIG_MAPS, &protobuf, b"k8s\0").await;
    assert_eq!(answer.failure().1, "UnsupportedMediaType");
    let answer = client.request(Method::PATCH, &format!("{CONFIG_MAPS}/a"), JSON, b"{}").await;
    assert_eq!(answer.failure().0, 415);
    assert_eq!(client.get_as(CONFIG_MAPS, "text/html").await.failure().1, "NotAcceptable");
    assert_eq!(client.get_as(CONFIG_MAPS, "text/html, application/json").await.code, 200);
}
