//! A containerd of the test's own, and the pods that run on it.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use serde_json::{Value, json};
use skep_agent::pods::{Desired, PodReport, Pods, PodsConfig};
use skep_proto::node::v1::{Event, ObjectRef};
use tempfile::TempDir;
use tokio::sync::mpsc;

use crate::image;

/// How long the slowest step of a test may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why the tests cannot run here.
fn obstacle() -> Option<String> {
    if !nix::unistd::Uid::effective().is_root() {
        return Some("containers need root".to_owned());
    }
    let missing = |program: &&&str| Command::new(program).arg("--version").output().is_err();
    if let Some(program) = ["containerd", "ctr", "runc"].iter().find(missing) {
        return Some(format!("{program} is not installed"));
    }
    (!Path::new(image::STATIC_BUSYBOX).exists()).then(|| "busybox-static is not installed".to_owned())
}

/// Stopped and removed when it is dropped, with everything that runs on it.
pub(crate) struct Containerd {
    process: Child,
    pub(crate) dir: TempDir,
    cgroup: String,
}

impl Containerd {
    /// `None`, with the reason printed, where containers cannot run.
    pub(crate) fn start() -> Option<Self> {
        if let Some(reason) = obstacle() {
            eprintln!("skipped: {reason}");
            return None;
        }
        let dir = TempDir::new().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let cgroup = format!(
            "/skep-pods-test-{}-{}",
            std::process::id(),
            dir.path().file_name()?.to_str()?.trim_start_matches('.')
        );
        fs::create_dir_all(path("cni")).unwrap();
        let config = format!(
            r#"
version = 2
root = "{root}"
state = "{state}"
oom_score = 0
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
    "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
restrict_oom_score_adj = true
disable_apparmor = true
sandbox_image = "{pause}"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{cni}"
conf_dir = "{cni}"
"#,
            root = path("root"),
            state = path("state"),
            socket = path("containerd.sock"),
            pause = image::PAUSE,
            cni = path("cni"),
        );
        fs::write(path("config.toml"), config).unwrap();
        let log = File::create(path("containerd.log")).unwrap();
        let process = Command::new("containerd")
            .args(["--config", &path("config.toml")])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let containerd = Self { process, dir, cgroup };
        image::write(&containerd.path("images.tar"));
        let archive = containerd.path("images.tar").display().to_string();
        let began = Instant::now();
        while !containerd.ctr(&["version"]).0 {
            assert!(began.elapsed() < PATIENCE, "containerd does not start; see {}", containerd.keep());
            std::thread::sleep(Duration::from_millis(50));
        }
        let (imported, output) = containerd.ctr(&["images", "import", &archive]);
        assert!(imported, "{output}");
        Some(containerd)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The log, for whoever looks into a failure.
    fn keep(&self) -> String {
        fs::read_to_string(self.path("containerd.log")).unwrap_or_default()
    }

    /// Runs `ctr` in CRI's namespace.
    pub(crate) fn ctr(&self, arguments: &[&str]) -> (bool, String) {
        let socket = self.path("containerd.sock").display().to_string();
        let output =
            Command::new("ctr").args(["--address", &socket, "--namespace", "k8s.io"]).args(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.success(), text)
    }

    pub(crate) fn config(&self) -> PodsConfig {
        PodsConfig {
            node_name: "n1".to_owned(),
            node_addresses: vec!["192.0.2.1".parse().unwrap()],
            cri_socket: self.path("containerd.sock"),
            state_dir: self.path("agent"),
            pod_log_dir: self.path("logs"),
            cgroup_parent: Some(self.cgroup.clone()),
            cluster_dns: None,
            sandbox_parallelism: 4,
        }
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let (_, tasks) = self.ctr(&["tasks", "ls", "-q"]);
        for id in tasks.lines() {
            self.ctr(&["tasks", "kill", "-s", "SIGKILL", id]);
            self.ctr(&["tasks", "rm", "-f", id]);
        }
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.process.id()).unwrap());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        drop(self.process.wait());
        let dir = self.dir.path().to_owned();
        end_shims(&dir);
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let points: Vec<&str> = table.lines().filter_map(|line| line.split(' ').nth(4)).collect();
        for point in points.into_iter().rev().filter(|point| Path::new(point).starts_with(&dir)) {
            let _ = nix::mount::umount2(point, nix::mount::MntFlags::MNT_DETACH);
        }
        remove_cgroups(&self.cgroup);
    }
}

/// Ends the shims whose socket or state is below the directory: only those of this containerd.
fn end_shims(dir: &Path) {
    let socket = dir.join("containerd.sock").display().to_string();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words: Vec<String> =
            command.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        if words.first().is_some_and(|program| program.contains("containerd-shim")) && words.contains(&socket) {
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
        }
    }
}

fn remove_cgroups(cgroup: &str) {
    let name = cgroup.trim_start_matches('/');
    let roots = fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten().map(|entry| entry.path());
    for root in roots.chain([PathBuf::from("/sys/fs/cgroup")]) {
        let dir = root.join(name);
        if dir.is_dir() {
            for entry in fs::read_dir(&dir).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir()) {
                drop(fs::remove_dir(entry.path()));
            }
            drop(fs::remove_dir(dir));
        }
    }
}

/// What pods have reported.
#[derive(Default)]
struct Seen {
    reports: HashMap<String, Vec<PodReport>>,
    events: Vec<Event>,
}

/// Pods on a containerd, and what they report.
pub(crate) struct World {
    pub(crate) pods: Pods,
    seen: Arc<Mutex<Seen>>,
}

impl World {
    pub(crate) fn start(containerd: &Containerd) -> Self {
        // RUST_LOG shows what a failing test did.
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        drop(tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init());
        let (reports, mut report) = mpsc::channel::<PodReport>(16);
        let (events, mut event) = mpsc::channel(16);
        let seen = Arc::new(Mutex::new(Seen::default()));
        tokio::spawn({
            let seen = Arc::clone(&seen);
            async move {
                while let Some(report) = report.recv().await {
                    seen.lock().unwrap().reports.entry(report.name.clone()).or_default().push(report);
                }
            }
        });
        tokio::spawn({
            let seen = Arc::clone(&seen);
            async move {
                while let Some(event) = event.recv().await {
                    seen.lock().unwrap().events.push(event);
                }
            }
        });
        Self { pods: Pods::start(containerd.config(), reports, events), seen }
    }

    /// Waits until the pod's reports fulfil the condition, and gives what it makes of them.
    pub(crate) async fn wait<T>(&self, pod: &str, what: &str, condition: impl Fn(&PodReport) -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Some(found) = self.last(pod).as_ref().and_then(&condition) {
                return found;
            }
            if began.elapsed() > PATIENCE {
                let last = self.last(pod).map(|report| serde_json::to_string_pretty(&report.status).unwrap());
                panic!("{pod} is not {what}: {}\n{:#?}", last.unwrap_or_default(), self.events(pod));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) async fn ready(&self, pod: &str) -> PodStatus {
        self.wait(pod, "ready", |report| (condition(&report.status, "Ready") == "True").then(|| report.status.clone()))
            .await
    }

    pub(crate) async fn phase(&self, pod: &str, phase: &str) -> PodStatus {
        self.wait(pod, phase, |report| (report.status.phase.as_deref() == Some(phase)).then(|| report.status.clone()))
            .await
    }

    pub(crate) async fn terminated(&self, pod: &str) -> PodStatus {
        self.wait(pod, "terminated", |report| report.terminated.then(|| report.status.clone())).await
    }

    pub(crate) fn last(&self, pod: &str) -> Option<PodReport> {
        self.seen.lock().unwrap().reports.get(pod)?.last().cloned()
    }

    pub(crate) fn reports(&self, pod: &str) -> Vec<PodReport> {
        self.seen.lock().unwrap().reports.get(pod).cloned().unwrap_or_default()
    }

    /// Reasons and messages of the pod's events.
    pub(crate) fn events(&self, pod: &str) -> Vec<(String, String)> {
        let seen = self.seen.lock().unwrap();
        let of_pod = seen.events.iter().filter(|event| event.name == pod);
        of_pod.map(|event| (event.reason.clone(), event.message.clone())).collect()
    }

    pub(crate) fn run(&self, pod: &Pod) {
        self.pods.handle(Desired::Pod(Box::new(pod.clone())));
    }

    /// As the API does for `kubectl delete --grace-period`.
    pub(crate) fn delete(&self, pod: &Pod, grace: i64) {
        let mut pod = pod.clone();
        pod.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
        pod.metadata.deletion_grace_period_seconds = Some(grace);
        self.run(&pod);
    }

    pub(crate) fn forget(&self, pod: &Pod) {
        let metadata = pod.metadata.clone();
        self.pods.handle(Desired::Deleted(ObjectRef {
            kind: "Pod".to_owned(),
            namespace: metadata.namespace.unwrap(),
            name: metadata.name.unwrap(),
            uid: metadata.uid.unwrap(),
        }));
    }

    /// A piece of the node API.
    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        use http_body_util::BodyExt as _;
        use tower::ServiceExt as _;
        let router = skep_agent::node_api::router(self.pods.clone());
        let request = http::Request::get(path).body(axum::body::Body::empty()).unwrap();
        let response = router.oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    /// Waits until the log of the container shows the text.
    pub(crate) async fn log_shows(&self, pod: &str, text: &str) -> String {
        let began = Instant::now();
        loop {
            let (_, log) = self.get(&format!("/containerLogs/test/{pod}/app")).await;
            if log.contains(text) {
                return log;
            }
            assert!(began.elapsed() < PATIENCE, "the log of {pod} does not show {text:?}: {log}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The status of a condition, or "" when there is none.
pub(crate) fn condition<'a>(status: &'a PodStatus, type_: &str) -> &'a str {
    let conditions = status.conditions.iter().flatten();
    conditions.into_iter().find(|condition| condition.type_ == type_).map_or("", |condition| condition.status.as_str())
}

/// The first container's status.
pub(crate) fn container(status: &PodStatus) -> &ContainerStatus {
    &status.container_statuses.as_ref().unwrap()[0]
}

/// A pod in the node's network with one container `app`, which runs a shell script.
pub(crate) fn pod(name: &str, script: &str, container: Value, spec: Value) -> Pod {
    let mut app = json!({"name": "app", "image": image::BUSYBOX, "command": ["sh", "-c", script]});
    merge(&mut app, container);
    let mut all = json!({"hostNetwork": true, "nodeName": "n1", "containers": [app]});
    merge(&mut all, spec);
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "test", "uid": format!("{name}-uid"), "labels": {"app": name}},
        "spec": all,
    }))
    .unwrap()
}

fn merge(into: &mut Value, from: Value) {
    if let (Some(into), Value::Object(from)) = (into.as_object_mut(), from) {
        into.extend(from);
    }
}
