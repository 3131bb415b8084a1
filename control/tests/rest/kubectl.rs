//! Real kubectl binaries: the one in `SKEP_KUBECTL`, else the one in `PATH`.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncBufReadExt;
use tokio::process::Command;

use crate::harness::Cluster;

const MANIFEST: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 2
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
      - name: c
        image: i:1
        ports:
        - containerPort: 80
---
apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  selector: {app: web}
  ports:
  - port: 80
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: web
data:
  k: v
";

/// Where kubectl is; `None`, with the reason printed, when there is none.
fn kubectl() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("SKEP_KUBECTL") {
        return Some(path.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join("kubectl")).find(|file| file.is_file());
    if found.is_none() {
        println!("skipped: kubectl is not in PATH, and SKEP_KUBECTL is not set");
    }
    found
}

struct Kubectl {
    binary: PathBuf,
    cluster: Cluster,
    home: tempfile::TempDir,
}

impl Kubectl {
    async fn start(arguments: &[&str]) -> Option<Self> {
        let binary = kubectl()?;
        let cluster = Cluster::with(tempfile::tempdir().unwrap(), arguments).await;
        Some(Self { binary, cluster, home: tempfile::tempdir().unwrap() })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .args(arguments)
            .env("KUBECONFIG", self.cluster.dir.path().join("admin.kubeconfig"))
            .env("HOME", self.home.path())
            .current_dir(self.home.path())
            .kill_on_drop(true);
        command
    }

    async fn run(&self, arguments: &[&str]) -> (bool, String) {
        let output = self.command(arguments).stdin(Stdio::null()).output();
        let output = tokio::time::timeout(Duration::from_secs(60), output).await.expect("kubectl hangs").unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    #[track_caller]
    fn ok(&self, arguments: &str) -> impl Future<Output = String> {
        let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
        async move {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let (success, text) = self.run(&arguments).await;
            assert!(success, "kubectl {arguments:?}: {text}");
            text
        }
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.home.path().join(name), text).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn apply_change_and_delete() {
    let Some(kubectl) = Kubectl::start(&["--api-only"]).await else { return };
    kubectl.write("web.yaml", MANIFEST);
    let created = kubectl.ok("apply -f web.yaml").await;
    assert_eq!(created, "deployment.apps/web created\nservice/web created\nconfigmap/web created\n");
    let unchanged = kubectl.ok("apply -f web.yaml").await;
    assert_eq!(unchanged, "deployment.apps/web unchanged\nservice/web unchanged\nconfigmap/web unchanged\n");
    kubectl.write("web.yaml", &MANIFEST.replace("image: i:1", "image: i:2").replace("k: v", "l: w"));
    let changed = kubectl.ok("apply -f web.yaml").await;
    assert_eq!(changed, "deployment.apps/web configured\nservice/web unchanged\nconfigmap/web configured\n");
    assert_eq!(kubectl.ok("get configmap web -o jsonpath={.data}").await, r#"{"l":"w"}"#);
    assert_eq!(kubectl.ok("get deployment web -o jsonpath={.spec.template.spec.containers[*].image}").await, "i:2");

    let wide = kubectl.ok("get deployments -o wide").await;
    let mut lines = wide.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let headings = ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE", "CONTAINERS", "IMAGES", "SELECTOR"];
    assert_eq!(lines.next().unwrap(), headings);
    let row = lines.next().unwrap();
    assert_eq!((row[0], row[1], row[5], row[6], row[7]), ("web", "0/2", "c", "i:2", "app=web"));
    assert!(kubectl.ok("get svc web -o yaml").await.contains("clusterIP: 10.96."));
    assert!(kubectl.ok("get svc,cm -o json").await.contains("\"kind\": \"List\""));
    let described = kubectl.ok("describe deployment web").await;
    assert!(described.contains("Replicas:") && described.contains("Image:"), "{described}");
    assert!(kubectl.ok("describe service web").await.contains("IP:"));

    assert_eq!(kubectl.ok("scale deployment web --replicas=5").await, "deployment.apps/web scaled\n");
    assert_eq!(kubectl.ok("set image deployment/web c=i:3").await, "deployment.apps/web image updated\n");
    assert_eq!(kubectl.ok("label configmap web a=b").await, "configmap/web labeled\n");
    // Some versions say "annotate".
    assert!(kubectl.ok("annotate configmap web a=b").await.starts_with("configmap/web annotate"));
    assert_eq!(kubectl.ok("patch configmap web -p {\"data\":{\"m\":\"n\"}}").await, "configmap/web patched\n");
    let spec =
        kubectl.ok("get deployment web -o jsonpath={.spec.replicas}/{.spec.template.spec.containers[0].image}").await;
    assert_eq!(spec, "5/i:3");
    assert_eq!(kubectl.ok("get cm -l a=b -o name").await, "configmap/web\n");
    let (success, text) = kubectl.run(&["get", "configmap", "nope"]).await;
    assert!(!success);
    assert_eq!(text, "Error from server (NotFound): configmaps \"nope\" not found\n");
    assert_eq!(
        kubectl.ok("delete -f web.yaml").await.replace(" from default namespace", ""),
        "deployment.apps \"web\" deleted\nservice \"web\" deleted\nconfigmap \"web\" deleted\n"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edit_is_a_patch() {
    let Some(kubectl) = Kubectl::start(&["--api-only"]).await else { return };
    kubectl.write("web.yaml", MANIFEST);
    kubectl.ok("apply -f web.yaml").await;
    let mut edit = kubectl.command(&["edit", "configmap", "web"]);
    let output = edit.env("KUBE_EDITOR", "sed -i s/k:.v/k:\\ edited/").output().await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text, "configmap/web edited\n", "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(kubectl.ok("get configmap web -o jsonpath={.data.k}").await, "edited");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn create_without_a_file() {
    let Some(kubectl) = Kubectl::start(&["--api-only"]).await else { return };
    assert_eq!(kubectl.ok("create namespace n").await, "namespace/n created\n");
    assert_eq!(kubectl.ok("create configmap a --from-literal=k=v").await, "configmap/a created\n");
    assert_eq!(kubectl.ok("create secret generic s --from-literal=k=v").await, "secret/s created\n");
    assert_eq!(kubectl.ok("create serviceaccount r").await, "serviceaccount/r created\n");
    assert_eq!(
        kubectl.ok("create deployment d --image=i:1 --replicas=2 --port=80").await,
        "deployment.apps/d created\n"
    );
    assert_eq!(kubectl.ok("create service clusterip c --tcp=80:8080").await, "service/c created\n");
    assert_eq!(kubectl.ok("run p --image=i:1").await, "pod/p created\n");
    assert_eq!(kubectl.ok("expose deployment d").await, "service/d exposed\n");
    let deployment =
        "get deployment d -o jsonpath={.spec.replicas}/{.spec.template.spec.containers[0].ports[0].containerPort}";
    assert_eq!(kubectl.ok(deployment).await, "2/80");
    assert_eq!(kubectl.ok("get service c -o jsonpath={.spec.ports[0].targetPort}").await, "8080");
    assert_eq!(kubectl.ok("get secret s -o jsonpath={.data.k}").await, "dg==");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_wait_and_explain() {
    let Some(kubectl) = Kubectl::start(&["--api-only"]).await else { return };
    kubectl.write("web.yaml", MANIFEST);
    kubectl.ok("apply -f web.yaml").await;
    let mut watch = kubectl.command(&["get", "configmaps", "-w"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = tokio::io::BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut line = async || {
        let line = tokio::time::timeout(Duration::from_secs(20), lines.next_line()).await.unwrap().unwrap().unwrap();
        line.split_whitespace().take(2).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(line().await, ["NAME", "DATA"]);
    assert_eq!(line().await, ["web", "1"]);
    kubectl.ok("patch configmap web -p {\"data\":{\"m\":\"n\"}}").await;
    assert_eq!(line().await, ["web", "2"]);
    let wait = kubectl.command(&["wait", "--for=delete", "configmap/web", "--timeout=20s"]).spawn().unwrap();
    kubectl.ok("delete configmap web").await;
    assert!(wait.wait_with_output().await.unwrap().status.success());
    let explained = kubectl.ok("explain deployment.spec.replicas").await;
    assert!(explained.contains("integer"), "{explained}");
    let resources = kubectl.ok("api-resources --no-headers -o name").await;
    for name in ["pods", "services", "deployments.apps", "networkpolicies.networking.k8s.io"] {
        assert!(resources.lines().any(|line| line == name), "{name} of {resources}");
    }
    assert!(kubectl.ok("version").await.contains("v1.33.0"));
    assert!(kubectl.ok("get --raw /readyz").await.starts_with("ok"));
    let (success, text) = kubectl.run(&["logs", "nope"]).await;
    assert!(!success && text.contains("pods \"nope\" not found"), "{text}");
}

const POOL: &str = "\
apiVersion: skep.io/v1alpha1
kind: AddressPool
metadata:
  name: outside
spec:
  addresses: [192.0.2.0/28, 192.0.2.100-192.0.2.103]
---
apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  type: LoadBalancer
  selector: {app: web}
  ports:
  - port: 80
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn address_pools_are_resources_like_others() {
    let Some(kubectl) = Kubectl::start(&[]).await else { return };
    kubectl.write("pool.yaml", POOL);
    let created = kubectl.ok("apply -f pool.yaml").await;
    assert_eq!(created, "addresspool.skep.io/outside created\nservice/web created\n");
    let unchanged = kubectl.ok("apply -f pool.yaml").await;
    assert_eq!(unchanged, "addresspool.skep.io/outside unchanged\nservice/web unchanged\n");
    kubectl.ok("wait --for=jsonpath={.status.loadBalancer.ingress[0].ip}=192.0.2.0 service/web --timeout=20s").await;
    kubectl.ok("wait --for=jsonpath={.status.ipv4.assigned}=1 addresspool/outside --timeout=20s").await;
    let table = kubectl.ok("get ap").await;
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "AUTO-ASSIGN", "IPV4", "IPV6", "AGE"]);
    assert_eq!(rows[1][..4], ["outside", "true", "1/20", "0/0"]);
    assert!(kubectl.ok("get service web").await.contains("192.0.2.0"));
    let resources = kubectl.ok("api-resources --no-headers -o name").await;
    assert!(resources.lines().any(|line| line == "addresspools.skep.io"), "{resources}");
    let explained = kubectl.ok("explain addresspool.spec.autoAssign").await;
    assert!(explained.contains("boolean"), "{explained}");
    assert_eq!(
        kubectl.ok("patch ap outside --type=merge -p {\"spec\":{\"autoAssign\":false}}").await,
        "addresspool.skep.io/outside patched\n"
    );
    kubectl.write("pool.yaml", &POOL.replace("192.0.2.0/28", "192.0.2.0"));
    let (success, text) = kubectl.run(&["apply", "-f", "pool.yaml"]).await;
    assert!(!success && text.contains("spec.addresses[0]: Invalid value: \"192.0.2.0\": must be a CIDR"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_manifests_are_refused_in_words() {
    let Some(kubectl) = Kubectl::start(&["--api-only"]).await else { return };
    kubectl.write("web.yaml", &MANIFEST.replace("labels: {app: web}", "labels: {app: bew}"));
    let (success, text) = kubectl.run(&["apply", "-f", "web.yaml"]).await;
    assert!(!success);
    assert!(text.contains("The Deployment \"web\" is invalid"), "{text}");
    assert!(text.contains("`selector` does not match template `labels`"), "{text}");
    kubectl.write("web.yaml", &MANIFEST.replace("replicas: 2", "replicas: two"));
    let (success, text) = kubectl.run(&["create", "-f", "web.yaml"]).await;
    assert!(!success && text.contains("replicas"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_controllers_a_deployment_rolls_out_as_far_as_there_are_nodes() {
    let Some(kubectl) = Kubectl::start(&[]).await else { return };
    kubectl.write("web.yaml", MANIFEST);
    kubectl.ok("apply -f web.yaml").await;
    for _ in 0..100 {
        if kubectl.ok("get pods -o name").await.lines().count() == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let pods = kubectl.ok("get pods").await;
    assert_eq!(pods.lines().count(), 3, "{pods}");
    assert!(pods.contains("Pending"), "{pods}");
    assert!(kubectl.ok("get replicasets").await.contains("web-"));
    assert_eq!(
        kubectl.ok("delete deployment web --wait=true").await.replace(" from default namespace", ""),
        "deployment.apps \"web\" deleted\n"
    );
    for _ in 0..100 {
        if kubectl.ok("get pods -o name").await.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("pods stay: {}", kubectl.ok("get pods").await);
}
