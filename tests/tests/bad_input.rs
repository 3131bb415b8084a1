//! Bad input: the answers that Kubernetes gives, and nothing else happens.
#![allow(clippy::print_stdout, reason = "figures for whoever reads the test's output")]

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use skep_tests::proxy::Proxy;
use skep_tests::testbed::TestCluster;
use skep_tests::{Member, Spec, manifest};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// Checks a Status: code, reason, and the causes as `field reason` lines.
fn expect(what: &str, answer: &skep_tests::proxy::Answer, code: u16, reason: &str, causes: &[&str]) -> Result<()> {
    let status = answer.json();
    ensure!(answer.code == code, "{what}: {} {}", answer.code, String::from_utf8_lossy(&answer.body));
    ensure!(status["kind"] == "Status" && status["status"] == "Failure" && status["code"] == code, "{what}: {status}");
    ensure!(status["reason"] == reason, "{what}: {status}");
    let found: Vec<String> = (status["details"]["causes"].as_array().into_iter().flatten())
        .map(|cause| format!("{} {}", cause["field"].as_str().unwrap_or(""), cause["reason"].as_str().unwrap_or("")))
        .collect();
    for cause in causes {
        ensure!(found.iter().any(|known| known == cause), "{what}: no cause {cause:?} in {found:?}");
    }
    println!("{what}: {code} {reason} {found:?}");
    Ok(())
}

fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "docker.io/skep/demo:1"}]},
            },
        },
    })
}

fn service(ports: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "bad"}, "spec": {"selector": {"app": "x"}, "ports": ports}})
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}})
}

/// Everything that can be listed, as it is stored.
fn everything(proxy: &Proxy) -> Result<Vec<Value>> {
    ["/api/v1/services", "/api/v1/configmaps", "/apis/apps/v1/deployments", "/apis/apps/v1/replicasets", "/api/v1/pods"]
        .iter()
        .map(|path| Ok(proxy.get(path)?.json()["items"].take()))
        .collect()
}

#[test]
fn is_refused_and_changes_nothing() -> Result<()> {
    TestCluster::run(Spec::new("t-bad", 1), |cluster| {
        let kubectl = cluster.kubectl();
        kubectl.feed("apply -f -", &manifest::join([manifest::deployment("web", 1), manifest::service("web")]))?;
        kubectl.run("rollout status deployment/web --timeout=60s")?;
        let proxy = Proxy::start(&kubectl)?;
        let created = proxy.post(CONFIG_MAPS, &config_map("stale"))?.json();
        let mut newer = created.clone();
        newer["data"]["k"] = json!("newer");
        ensure!(proxy.put(&format!("{CONFIG_MAPS}/stale"), &newer)?.code == 200);
        let before = everything(&proxy)?;
        all_bad_input(&proxy, &created)?;
        ensure!(everything(&proxy)? == before, "bad input changed something");

        // The same a hundred times over: memory stays where it is.
        let resident = cluster.resident(Member::Control)?;
        for _ in 0..20 {
            big_bodies(&proxy)?;
        }
        let growth = cluster.resident(Member::Control)?.saturating_sub(resident);
        println!("resident memory grew by {} KiB over 20 big bodies", growth / 1024);
        ensure!(growth < 32 << 20, "memory grew by {growth} bytes");

        // And as kubectl shows it.
        let output = kubectl.feed_output("apply -f -", "apiVersion: v1\nkind: ConfigMap\n  metadata: [")?;
        ensure!(!output.status.success());
        let output =
            kubectl.feed_output("apply -f -", &manifest::service("web").replace("port: 80,", "port: eighty,"))?;
        ensure!(!output.status.success(), "a port that is no number was taken");
        Ok(())
    })
}

fn big_bodies(proxy: &Proxy) -> Result<()> {
    let mut big = config_map("big");
    big["data"]["k"] = json!("x".repeat(10 << 20));
    expect("a 10 MB body", &proxy.post(CONFIG_MAPS, &big)?, 413, "RequestEntityTooLarge", &[])?;
    let deep = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{}1{}}}"#,
        r#"{"a":"#.repeat(10_000),
        "}".repeat(10_000)
    );
    expect(
        "JSON 10,000 deep",
        &proxy.request("POST", CONFIG_MAPS, "application/json", deep.as_bytes())?,
        400,
        "BadRequest",
        &[],
    )
}

fn all_bad_input(proxy: &Proxy, created: &Value) -> Result<()> {
    let post = |path: &str, kind: &str, body: &[u8]| proxy.request("POST", path, kind, body);
    expect(
        "malformed JSON",
        &post(CONFIG_MAPS, "application/json", b"{\"apiVersion\": \"v1\",")?,
        400,
        "BadRequest",
        &[],
    )?;
    expect("malformed YAML", &post(CONFIG_MAPS, "application/yaml", b"a: [b\nc: : d")?, 400, "BadRequest", &[])?;
    let mut wrong = deployment("wrong");
    wrong["spec"]["replicas"] = json!("three");
    expect("a wrong type", &proxy.post(DEPLOYMENTS, &wrong)?, 400, "BadRequest", &[])?;
    // A missing kind is the path's; what remains missing is the name.
    let nameless = proxy.post(CONFIG_MAPS, &json!({"apiVersion": "v1"}))?;
    expect("no name", &nameless, 422, "Invalid", &["metadata.name FieldValueRequired"])?;

    let ports = json!([{"name": "a", "port": 80}, {"name": "a", "port": 80}]);
    expect(
        "duplicate ports",
        &proxy.post(SERVICES, &service(ports))?,
        422,
        "Invalid",
        &["spec.ports[1].name FieldValueDuplicate", "spec.ports[1] FieldValueDuplicate"],
    )?;
    expect(
        "a port out of range",
        &proxy.post(SERVICES, &service(json!([{"port": 70000}])))?,
        422,
        "Invalid",
        &["spec.ports[0].port FieldValueInvalid"],
    )?;

    let mut mismatch = deployment("mismatch");
    mismatch["spec"]["template"]["metadata"]["labels"] = json!({"app": "other"});
    expect(
        "a selector that does not match",
        &proxy.post(DEPLOYMENTS, &mismatch)?,
        422,
        "Invalid",
        &["spec.template.metadata.labels FieldValueInvalid"],
    )?;

    let path = format!("{DEPLOYMENTS}/web");
    let mut changed = proxy.get(&path)?.json();
    changed["spec"]["selector"] = json!({"matchLabels": {"app": "other"}});
    changed["spec"]["template"]["metadata"]["labels"] = json!({"app": "other"});
    if let Some(metadata) = changed["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    expect(
        "an immutable selector",
        &proxy.put(&path, &changed)?,
        422,
        "Invalid",
        &["spec.selector FieldValueInvalid"],
    )?;

    let path = format!("{SERVICES}/web");
    let mut moved = proxy.get(&path)?.json();
    moved["spec"]["clusterIP"] = json!("10.96.200.200");
    moved["spec"]["clusterIPs"][0] = json!("10.96.200.200");
    expect(
        "an immutable cluster IP",
        &proxy.put(&path, &moved)?,
        422,
        "Invalid",
        &["spec.clusterIPs[0] FieldValueInvalid"],
    )?;

    let long = "x".repeat(254);
    expect(
        "an overlong name",
        &proxy.post(CONFIG_MAPS, &config_map(&long))?,
        422,
        "Invalid",
        &["metadata.name FieldValueInvalid"],
    )?;
    big_bodies(proxy)?;

    expect("a stale resourceVersion", &proxy.put(&format!("{CONFIG_MAPS}/stale"), created)?, 409, "Conflict", &[])?;
    expect("a name that is taken", &proxy.post(CONFIG_MAPS, &config_map("stale"))?, 409, "AlreadyExists", &[])?;
    expect("a name that is not there", &proxy.get(&format!("{CONFIG_MAPS}/nobody"))?, 404, "NotFound", &[])?;

    let watch = proxy.get(&format!("{CONFIG_MAPS}?watch=1&resourceVersion=1&timeoutSeconds=5"))?;
    let first = watch.body.split(|byte| *byte == b'\n').next().context("an event")?;
    let event: Value = serde_json::from_slice(first)?;
    // Revision 1 may still be retained; asking for the future never is an answer. Compaction is forced in the server's own tests.
    ensure!(event["type"] == "ADDED" || event["object"]["code"] == 410, "{event}");
    Ok(())
}
