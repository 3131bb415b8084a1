//! Bad input: the Status that Kubernetes gives, and nothing changed.

use http::Method;
use serde_json::{Value, json};

use crate::harness::{
    Answer, CONFIG_MAPS, Cluster, DEPLOYMENTS, JSON, PODS, SERVICES, YAML, config_map, deployment, pod,
};

type Headers<'a> = &'a [(&'a str, &'a str)];

/// Causes as `field reason`.
fn causes(answer: &Answer) -> Vec<String> {
    let status = answer.json();
    let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
    causes
        .iter()
        .map(|c| format!("{} {}", c["field"].as_str().unwrap_or_default(), c["reason"].as_str().unwrap()))
        .collect()
}

/// Posts, and finds the answer to be a 422 with these causes.
async fn invalid(cluster: &Cluster, path: &str, object: &Value, expected: &[&str]) -> String {
    let before = cluster.contents().await;
    let answer = cluster.client.post(path, object).await;
    let (code, reason, message) = answer.failure();
    assert_eq!((code, reason.as_str()), (422, "Invalid"), "{message}");
    assert_eq!(causes(&answer), expected, "{message}");
    let details = &answer.json()["details"];
    assert_eq!(details["kind"], object["kind"], "{details}");
    assert_eq!(cluster.contents().await, before);
    message
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_do_not_parse() {
    let cluster = Cluster::start().await;
    let before = cluster.contents().await;
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
    let deep_yaml = format!("a: {}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let cases: [(Headers<'_>, &[u8]); _] = [
        (JSON, b""),
        (JSON, b"{"),
        (JSON, b"nonsense"),
        (JSON, b"[]"),
        (JSON, b"null"),
        (JSON, b"{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"a\"},}"),
        (JSON, b"\xff\xfe"),
        (JSON, deep.as_bytes()),
        (YAML, b"a: [1"),
        (YAML, b"a: b: c"),
        (YAML, deep_yaml.as_bytes()),
    ];
    for (headers, body) in cases {
        let answer = cluster.client.request(Method::POST, CONFIG_MAPS, headers, body).await;
        let (code, reason, message) = answer.failure();
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        assert_eq!((code, reason.as_str()), (400, "BadRequest"), "{shown}: {message}");
        assert!(message.len() < 600, "{shown}: {message}");
    }
    assert_eq!(cluster.contents().await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_of_10_mb() {
    let cluster = Cluster::start().await;
    let before = cluster.contents().await;
    let mut object = config_map("a");
    object["data"]["k"] = "x".repeat(10 << 20).into();
    for method in [Method::POST, Method::PUT] {
        let path = if method == Method::POST { CONFIG_MAPS.to_owned() } else { format!("{CONFIG_MAPS}/a") };
        let answer = cluster.client.request(method, &path, JSON, object.to_string().as_bytes()).await;
        let text = "Request entity too large: limit is 3145728";
        assert_eq!(answer.failure(), (413, "RequestEntityTooLarge".into(), text.into()));
    }
    assert_eq!(cluster.contents().await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_kind_or_another_type() {
    let cluster = Cluster::start().await;
    let before = cluster.contents().await;
    let answer = cluster.client.post(CONFIG_MAPS, &pod("a")).await;
    let (code, reason, message) = answer.failure();
    assert_eq!((code, reason.as_str()), (400, "BadRequest"));
    assert!(message.contains("does not match the expected") || message.contains("ConfigMap"), "{message}");
    let mut wrong = deployment("a");
    wrong["spec"]["replicas"] = "three".into();
    let answer = cluster.client.post(DEPLOYMENTS, &wrong).await;
    let (code, reason, message) = answer.failure();
    assert_eq!((code, reason.as_str()), (400, "BadRequest"));
    assert!(message.starts_with("Deployment in version \"v1\" cannot be handled as a Deployment: "), "{message}");
    assert!(message.contains("spec.replicas"), "{message}");
    let mut elsewhere = config_map("a");
    elsewhere["metadata"]["namespace"] = "kube-system".into();
    let answer = cluster.client.post(CONFIG_MAPS, &elsewhere).await;
    let text = "the namespace of the provided object does not match the namespace sent on the request";
    assert_eq!(answer.failure(), (400, "BadRequest".into(), text.into()));
    let answer = cluster.client.post(CONFIG_MAPS, &json!({"apiVersion": "v1", "kind": "ConfigMap"})).await;
    assert_eq!(answer.failure().1, "Invalid");
    assert_eq!(causes(&answer), ["metadata.name FieldValueRequired"]);
    assert_eq!(cluster.contents().await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_that_are_wrong() {
    let cluster = Cluster::start().await;
    let ports = json!([{"name": "a", "port": 80}, {"name": "b", "port": 80}]);
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": ports}});
    let message = invalid(&cluster, SERVICES, &service, &["spec.ports[1] FieldValueDuplicate"]).await;
    assert!(message.starts_with("Service \"s\" is invalid: spec.ports[1]: Duplicate value: "), "{message}");

    let mut mismatch = deployment("d");
    mismatch["spec"]["template"]["metadata"]["labels"] = json!({"app": "other"});
    let message = invalid(&cluster, DEPLOYMENTS, &mismatch, &["spec.template.metadata.labels FieldValueInvalid"]).await;
    let text = "Deployment.apps \"d\" is invalid: spec.template.metadata.labels: Invalid value: {\"app\":\"other\"}: `selector` does not match template `labels`";
    assert_eq!(message, text);

    let long = "a".repeat(254);
    let message = invalid(&cluster, CONFIG_MAPS, &config_map(&long), &["metadata.name FieldValueInvalid"]).await;
    assert!(message.ends_with("must be no more than 253 bytes"), "{message}");
    let message = invalid(
        &cluster,
        SERVICES,
        &{
            let mut service = service.clone();
            service["metadata"]["name"] = "a".repeat(64).into();
            service["spec"]["ports"] = json!([{"port": 80}]);
            service
        },
        &["metadata.name FieldValueInvalid"],
    )
    .await;
    assert!(message.ends_with("must be no more than 63 bytes"), "{message}");

    let mut containers = pod("p");
    containers["spec"]["containers"] =
        json!([{"name": "c", "image": "i"}, {"name": "c", "image": "i"}, {"image": "i"}]);
    let expected = ["spec.containers[1].name FieldValueDuplicate", "spec.containers[2].name FieldValueRequired"];
    invalid(&cluster, PODS, &containers, &expected).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_that_may_not_change() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    let made = client.post(DEPLOYMENTS, &deployment("d")).await.expect(201);
    let mut pods = client.post(PODS, &pod("p")).await.expect(201);
    let before = cluster.contents().await;
    let mut changed = made.clone();
    changed["spec"]["selector"]["matchLabels"] = json!({"app": "e"});
    changed["spec"]["template"]["metadata"]["labels"] = json!({"app": "e"});
    let answer = client.put(&format!("{DEPLOYMENTS}/d"), &changed).await;
    let (code, reason, message) = answer.failure();
    assert_eq!((code, reason.as_str()), (422, "Invalid"));
    assert_eq!(causes(&answer), ["spec.selector FieldValueInvalid"]);
    assert!(message.ends_with("field is immutable"), "{message}");
    pods["spec"]["containers"][0]["name"] = "d".into();
    let answer = client.put(&format!("{PODS}/p"), &pods).await;
    assert_eq!(answer.failure().1, "Invalid");
    assert!(answer.failure().2.contains("pod updates may not change fields other than"), "{answer:?}");
    assert_eq!(cluster.contents().await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_fields() {
    let cluster = Cluster::start().await;
    let client = &cluster.client;
    let mut object = deployment("d");
    object["spec"]["nope"] = 1.into();
    let before = cluster.contents().await;
    let answer = client.post(&format!("{DEPLOYMENTS}?fieldValidation=Strict"), &object).await;
    let text = "Deployment in version \"v1\" cannot be handled as a Deployment: strict decoding error: unknown field \"spec.nope\"";
    assert_eq!(answer.failure(), (400, "BadRequest".into(), text.into()));
    assert_eq!(cluster.contents().await, before);
    let answer = client.post(DEPLOYMENTS, &object).await;
    assert_eq!(answer.expect(201)["spec"].get("nope"), None);
    assert_eq!(answer.headers["warning"], "299 - \"unknown field \\\"spec.nope\\\"\"");
    object["metadata"]["name"] = "e".into();
    let answer = client.post(&format!("{DEPLOYMENTS}?fieldValidation=Ignore"), &object).await;
    assert!(answer.code == 201 && !answer.headers.contains_key("warning"), "{answer:?}");
    assert_eq!(client.post(&format!("{DEPLOYMENTS}?fieldValidation=Maybe"), &object).await.code / 100, 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paths_and_parameters_that_are_nonsense() {
    let cluster = Cluster::start().await;
    let before = cluster.contents().await;
    for path in ["/api/v1/namespaces/default/pods/%2e%2e", "/api/v1/namespaces/default/pods/a%2Fb", "/api/v1/nodes/%00"]
    {
        assert_eq!(cluster.client.get(path).await.failure().0, 404, "{path}");
    }
    for query in ["limit=x", "limit=-1", "timeoutSeconds=x&watch=1", "resourceVersion=-1", "labelSelector=%3D%3D"] {
        let code = cluster.client.get(&format!("{PODS}?{query}")).await.failure().0;
        assert!(code == 400 || code == 422, "{query}: {code}");
    }
    assert_eq!(cluster.contents().await, before);
}
