//! kubectl, unmodified, oldest and newest at hand: what a person does with a Deployment and a Service.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use skep_tests::kubectl::{self, Kubectl};
use skep_tests::testbed::TestCluster;
use skep_tests::{Spec, image, manifest};

fn contains_all(what: &str, text: &str, needles: &[&str]) -> Result<()> {
    for needle in needles {
        ensure!(text.contains(needle), "{what}: no {needle:?} in:\n{text}");
    }
    Ok(())
}

#[test]
fn as_on_kubernetes() -> Result<()> {
    TestCluster::run(Spec::new("t-workloads", 2), |cluster| {
        for (number, program) in kubectl::programs()?.into_iter().enumerate() {
            let namespace = format!("kubectl-{number}");
            println!("with {}", program.display());
            let kubectl = cluster.kubectl().with_program(&program);
            kubectl.run(&format!("create namespace {namespace}"))?;
            let kubectl = kubectl.with_namespace(&namespace);
            apply_and_look(&kubectl)?;
            change(&kubectl)?;
            delete(&kubectl, &namespace)?;
        }
        Ok(())
    })
}

fn apply_and_look(kubectl: &Kubectl) -> Result<()> {
    let manifests = manifest::join([manifest::deployment("web", 3), manifest::service("web")]);
    contains_all(
        "apply",
        &kubectl.feed("apply -f -", &manifests)?,
        &["deployment.apps/web created", "service/web created"],
    )?;
    contains_all(
        "apply again",
        &kubectl.feed("apply -f -", &manifests)?,
        &["deployment.apps/web unchanged", "service/web unchanged"],
    )?;
    contains_all(
        "rollout status",
        &kubectl.run("rollout status deployment/web --timeout=60s")?,
        &["successfully rolled out"],
    )?;
    kubectl.run("wait --for=condition=Available deployment/web --timeout=30s")?;

    let pods = kubectl.run("get pods -o wide")?;
    contains_all(
        "get pods",
        &pods,
        &["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE", "1/1", "Running", "node-1", "node-2", "10.244."],
    )?;
    ensure!(pods.lines().count() == 4, "{pods}");
    contains_all("get deployment", &kubectl.run("get deployment web")?, &["READY", "UP-TO-DATE", "AVAILABLE", "3/3"])?;
    contains_all(
        "get all",
        &kubectl.run("get all")?,
        &["deployment.apps/web", "replicaset.apps/web-", "service/web", "pod/web-"],
    )?;
    let endpoints = kubectl.run("get endpoints web")?;
    contains_all("get endpoints", &endpoints, &["ENDPOINTS", ":8080"])?;
    ensure!(
        kubectl.json("get endpointslices -l kubernetes.io/service-name=web")?["items"].as_array().map(Vec::len)
            == Some(2)
    );

    let pod = kubectl.run("get pods -o jsonpath={.items[0].metadata.name}")?;
    contains_all(
        "describe pod",
        &kubectl.run(&format!("describe pod {pod}"))?,
        &[
            "Name:",
            "Node:",
            "Status:",
            "Running",
            "Controlled By:",
            "ReplicaSet/web-",
            "Readiness:",
            "Conditions:",
            "QoS Class:",
            "Scheduled",
            "Pulled",
            "Created",
            "Started",
        ],
    )?;
    contains_all(
        "describe node",
        &kubectl.run("describe node node-1")?,
        &[
            "Conditions:",
            "Ready",
            "Addresses:",
            "InternalIP",
            "Capacity:",
            "System Info:",
            "Non-terminated Pods:",
            "PodCIDR",
        ],
    )?;
    contains_all(
        "describe service",
        &kubectl.run("describe service web")?,
        &["Selector:", "app=web", "IP Families:", "Endpoints:", ":8080", "TargetPort:"],
    )?;
    contains_all(
        "describe deployment",
        &kubectl.run("describe deployment web")?,
        &[
            "StrategyType:",
            "RollingUpdate",
            "3 desired | 3 updated | 3 total | 3 available",
            "NewReplicaSet:",
            "ScalingReplicaSet",
        ],
    )?;
    contains_all("logs", &kubectl.run(&format!("logs {pod}"))?, &["serving as web-"])?;
    contains_all("logs by deployment", &kubectl.run("logs deployment/web --tail=1")?, &["serving as web-"])?;
    Ok(())
}

fn change(kubectl: &Kubectl) -> Result<()> {
    let mut watch = kubectl.command("get pods -w --output-watch-events");
    let mut watch = watch.stdout(std::process::Stdio::piped()).spawn()?;
    kubectl.run("scale deployment/web --replicas=4")?;
    kubectl.run("rollout status deployment/web --timeout=60s")?;
    std::thread::sleep(Duration::from_millis(300));
    watch.kill()?;
    let seen = String::from_utf8_lossy(&watch.wait_with_output()?.stdout).into_owned();
    contains_all("get pods -w", &seen, &["ADDED", "MODIFIED", "0/1", "1/1"])?;

    kubectl.run(&format!("set image deployment/web server={}", image::DEMO_V2))?;
    kubectl.run("rollout status deployment/web --timeout=90s")?;
    let image = || kubectl.run("get deployment web -o jsonpath={.spec.template.spec.containers[0].image}");
    ensure!(image()? == image::DEMO_V2);
    contains_all("rollout history", &kubectl.run("rollout history deployment/web")?, &["REVISION", "1", "2"])?;
    kubectl.run("rollout undo deployment/web")?;
    kubectl.run("rollout status deployment/web --timeout=90s")?;
    ensure!(image()? == image::DEMO_V1);
    contains_all("get rs", &kubectl.run("get replicasets")?, &["DESIRED", "CURRENT", "READY"])?;
    kubectl.run("scale deployment/web --replicas=1")?;
    kubectl.run("rollout status deployment/web --timeout=60s")?;
    Ok(())
}

fn delete(kubectl: &Kubectl, namespace: &str) -> Result<()> {
    let pod = kubectl.run("get pods --field-selector=status.phase=Running -o jsonpath={.items[0].metadata.name}")?;
    contains_all(
        "delete",
        &kubectl.run("delete deployment/web service/web")?,
        &["deployment.apps \"web\" deleted", "service \"web\" deleted"],
    )?;
    // What is gone before kubectl asks, old and new ones tell in different words.
    let gone = |error: &anyhow::Error| {
        let text = error.to_string();
        text.contains("NotFound") || text.contains("no matching resources found")
    };
    kubectl
        .run(&format!("wait --for=delete pod/{pod} --timeout=60s"))
        .or_else(|error| if gone(&error) { Ok(String::new()) } else { Err(error) })?;
    kubectl.run(&format!("delete namespace {namespace} --timeout=60s"))?;
    let gone = kubectl.output(&format!("get namespace {namespace}"))?;
    ensure!(String::from_utf8_lossy(&gone.stderr).contains("NotFound"), "the namespace is still there");
    Ok(())
}

/// A pod that cannot be placed says why, in the words that people know.
#[test]
fn unschedulable_says_why() -> Result<()> {
    TestCluster::run(Spec::new("t-pending", 2), |cluster| {
        let kubectl = cluster.kubectl();
        let pod = manifest::client("huge", "node-1", "app: huge")
            .replace("    args: [pause]", "    args: [pause]\n    resources: {requests: {cpu: 1000}}");
        kubectl.feed("apply -f -", &pod)?;
        let message = r#"get pod huge -o jsonpath={.status.conditions[?(@.type=="PodScheduled")].message}"#;
        let mut text = String::new();
        skep_tests::command::wait_until("the reason is there", Duration::from_secs(10), || {
            text = kubectl.run(message)?;
            Ok(!text.is_empty())
        })?;
        contains_all(
            "PodScheduled",
            &text,
            &["0/2 nodes are available", "1 Insufficient cpu", "1 node(s) didn't match Pod's node affinity/selector"],
        )?;
        let events = kubectl.run("get events")?;
        contains_all("events", &events, &["FailedScheduling", "pod/huge"])
    })
}

/// ConfigMap and Secret as environment and files, a command, and how a pod that ends looks.
#[test]
fn pods_that_end() -> Result<()> {
    TestCluster::run(Spec::new("t-ends", 1), |cluster| {
        let kubectl = cluster.kubectl();
        kubectl.feed(
            "apply -f -",
            &format!(
                r#"apiVersion: v1
kind: ConfigMap
metadata: {{name: settings}}
data: {{colour: amber}}
---
apiVersion: v1
kind: Secret
metadata: {{name: keys}}
stringData: {{token: honey}}
---
apiVersion: v1
kind: Pod
metadata: {{name: once}}
spec:
  restartPolicy: Never
  volumes:
  - {{name: settings, configMap: {{name: settings}}}}
  - {{name: scratch, emptyDir: {{}}}}
  containers:
  - name: c
    image: {busybox}
    command: [sh, -c, 'echo $COLOUR $TOKEN $(cat /settings/colour) > /scratch/out; cat /scratch/out; exit 3']
    env:
    - {{name: COLOUR, valueFrom: {{configMapKeyRef: {{name: settings, key: colour}}}}}}
    - {{name: TOKEN, valueFrom: {{secretKeyRef: {{name: keys, key: token}}}}}}
    volumeMounts:
    - {{name: settings, mountPath: /settings}}
    - {{name: scratch, mountPath: /scratch}}
"#,
                busybox = image::BUSYBOX
            ),
        )?;
        cluster.wait_for(&kubectl, "get pod once -o jsonpath={.status.phase}", "Failed", Duration::from_secs(30))?;
        let code = kubectl.run("get pod once -o jsonpath={.status.containerStatuses[0].state.terminated.exitCode}")?;
        ensure!(code == "3", "exit code {code}");
        ensure!(kubectl.run("logs once")?.trim() == "amber honey amber", "{}", kubectl.run("logs once")?);
        contains_all("get pod", &kubectl.run("get pod once")?, &["0/1", "Error"])?;
        let secret = kubectl.json("get secret keys")?;
        ensure!(secret["data"]["token"].as_str().context("data")? == "aG9uZXk=", "{secret}");
        Ok(())
    })
}
