//! A node: namespaces that the test has for itself, and the agent in them.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;
use tokio::net::{TcpStream, UnixStream};

use super::pods;
use crate::support::peer::Peer;
use crate::support::pki::{Authority, Credentials};

const INSIDE: &str = "SKEP_TEST_INSIDE_NAMESPACES";

/// Whether the test runs inside of its own namespaces. Outside it is run again inside, and this gives false.
pub fn enter(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: needs root");
        return false;
    }
    let command = |program: &str| {
        let found = std::env::var_os("PATH")
            .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).exists()));
        if !found {
            println!("skipped: needs {program}");
        }
        found
    };
    if !(command("unshare") && command("ip") && command("mount")) {
        return false;
    }
    build_plugin();
    let status = Command::new("unshare")
        .args(["--net", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .status()
        .unwrap();
    assert!(status.success(), "inside of the namespaces: {status}");
    false
}

/// The plugin is another package's program, which testing this one does not build.
fn build_plugin() {
    let agent = PathBuf::from(env!("CARGO_BIN_EXE_skep-agent"));
    let profile_dir = agent.parent().unwrap();
    let profile = match profile_dir.file_name().unwrap().to_str().unwrap() {
        "debug" => "dev",
        other => other,
    };
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", "skep-cni", "--profile", profile, "--target-dir"])
        .arg(profile_dir.parent().unwrap())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .unwrap();
    assert!(status.success(), "building skep-cni: {status}");
}

fn run(command: &str) -> String {
    let words: Vec<&str> = command.split_whitespace().collect();
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub struct World {
    pub peer: Peer,
    authority: Authority,
    dir: tempfile::TempDir,
    cgroup: PathBuf,
}

impl World {
    pub async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        run("ip link set lo up");
        run("ip link add uplink0 type veth peer name beyond0");
        run("ip link set beyond0 up");
        run("ip addr add 192.0.2.2/24 dev uplink0");
        run("ip addr add 2001:db8::2/64 dev uplink0 nodad");
        run("ip link set uplink0 up");
        run("mount -t sysfs sysfs /sys");
        let bpf = dir.path().join("bpf");
        fs::create_dir(&bpf).unwrap();
        run(&format!("mount -t bpf bpf {}", bpf.display()));
        let cgroup2 = dir.path().join("cgroup2");
        fs::create_dir(&cgroup2).unwrap();
        run(&format!("mount -t cgroup2 cgroup2 {}", cgroup2.display()));
        // Not by the number of this process: in a namespace of its own every test has the same.
        let unique = dir.path().file_name().unwrap().to_string_lossy();
        let cgroup = cgroup2.join(format!("skep-agent-test-{}", unique.trim_start_matches('.')));
        fs::create_dir(&cgroup).unwrap();
        let authority = Authority::new();
        authority.write_node(&dir.path().join("pki"), "n1", &["192.0.2.2".parse().unwrap()]);
        let ranges = ["10.244.1.0/24", "fd00:244:1::/64"];
        let peer = Peer::start(&authority, "127.0.0.1:0".parse().unwrap(), 2, &ranges).await;
        Self { peer, authority, dir, cgroup }
    }

    pub fn run_dir(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    pub fn state_dir(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    pub fn cni_bin_dir(&self) -> PathBuf {
        self.dir.path().join("cni-bin")
    }

    pub fn conflist(&self) -> PathBuf {
        self.dir.path().join("net.d/10-skep.conflist")
    }

    pub fn start_agent(&self, more: &[&str]) -> Agent {
        let dir = self.dir.path();
        // As an installation has them: side by side.
        let agent = PathBuf::from(env!("CARGO_BIN_EXE_skep-agent"));
        let mut command = Command::new(agent);
        command
            .args(["--node-name", "n1", "--control", &self.peer.addr.to_string()])
            .args(["--node-address", "192.0.2.2", "2001:db8::2"])
            .arg("--pki-dir")
            .arg(dir.join("pki"))
            .arg("--state-dir")
            .arg(self.state_dir())
            .arg("--run-dir")
            .arg(self.run_dir())
            .arg("--bpf-dir")
            .arg(dir.join("bpf"))
            .arg("--cgroup")
            .arg(&self.cgroup)
            .arg("--cri-socket")
            .arg(dir.join("no-runtime.sock"))
            .arg("--cni-conf-dir")
            .arg(dir.join("net.d"))
            .arg("--cni-bin-dir")
            .arg(self.cni_bin_dir())
            .arg("--pod-log-dir")
            .arg(dir.join("logs"))
            .args(more);
        Agent(command.spawn().unwrap())
    }

    pub fn routes(&self) -> String {
        run("ip route")
    }

    pub fn links(&self) -> String {
        run("ip -brief link")
    }

    pub fn pinned_links(&self) -> Vec<String> {
        let dir = self.dir.path().join(format!("bpf/v{}/links", skep_abi::VERSION));
        let names =
            fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("pod-")).collect()
    }

    /// What a pod says to the node, and the node's address as the pod sees it.
    pub fn connect_from_node(&self, addr: IpAddr, port: u16) -> (String, IpAddr) {
        pods::greeting(addr, port).unwrap_or_else(|| panic!("the node does not reach {addr} port {port}"))
    }

    pub fn serve_on_node(&self) -> u16 {
        pods::serve("192.0.2.2:0".parse().unwrap(), "node".to_owned())
    }

    async fn local(&self, path: &str) -> Option<hyper::Response<hyper::body::Incoming>> {
        let stream = UnixStream::connect(self.run_dir().join("agent.sock")).await.ok()?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
        tokio::spawn(connection);
        let request = hyper::Request::get(path).header("host", "agent").body(axum::body::Body::empty()).unwrap();
        sender.send_request(request).await.ok()
    }

    pub async fn status(&self) -> Option<Value> {
        let body = self.local("/status").await?.into_body().collect().await.ok()?.to_bytes();
        Some(serde_json::from_slice(&body).unwrap())
    }

    /// The metrics by the local socket.
    pub async fn metrics(&self) -> Option<String> {
        let response = self.local("/metrics").await?;
        let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
        assert_eq!((response.status().as_u16(), kind.split(';').next()), (200, Some("application/openmetrics-text")));
        Some(String::from_utf8(response.into_body().collect().await.ok()?.to_bytes().to_vec()).unwrap())
    }

    pub async fn flows(&self) -> Flows {
        Flows(self.local("/flows").await.unwrap().into_body())
    }

    /// The status code of `GET /healthz` for a client with that certificate.
    pub async fn node_api(&self, name: &str, organization: &str) -> Option<u16> {
        let credentials = self.authority.issue(name, organization, &[]);
        self.ask("/healthz", Some(credentials)).await.map(|(code, _)| code)
    }

    pub async fn node_api_without_certificate(&self) -> Option<u16> {
        self.ask("/healthz", None).await.map(|(code, _)| code)
    }

    /// What `GET path` of the node API answers to a client with that certificate.
    pub async fn node_api_get(&self, path: &str, name: &str, organization: &str) -> Option<(u16, String)> {
        self.ask(path, Some(self.authority.issue(name, organization, &[]))).await
    }

    async fn ask(&self, path: &str, credentials: Option<Credentials>) -> Option<(u16, String)> {
        use rustls::pki_types::{CertificateDer, PrivateKeyDer};
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.certificate.as_bytes()).unwrap()).unwrap();
        let builder = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match credentials {
            Some(own) => {
                let certificate = CertificateDer::from_pem_slice(own.certificate.as_bytes()).unwrap();
                builder
                    .with_client_auth_cert(
                        vec![certificate],
                        PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap(),
                    )
                    .unwrap()
            }
            None => builder.with_no_client_auth(),
        };
        let addr: SocketAddr = "192.0.2.2:10250".parse().unwrap();
        let stream = TcpStream::connect(addr).await.unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let stream = connector.connect(IpAddr::from([192, 0, 2, 2]).into(), stream).await.ok()?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
        tokio::spawn(connection);
        let request = hyper::Request::get(path).header("host", "n1").body(axum::body::Body::empty()).unwrap();
        let response = sender.send_request(request).await.ok()?;
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.ok()?.to_bytes();
        Some((code, String::from_utf8_lossy(&body).into_owned()))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Mounts and interfaces go with the namespaces; a cgroup does not.
        if let Err(error) = fs::remove_dir(&self.cgroup) {
            println!("{}: {error}", self.cgroup.display());
        }
        for mount in ["bpf", "cgroup2"] {
            run(&format!("umount {}", self.dir.path().join(mount).display()));
        }
    }
}

/// Flow records.
pub struct Flows(hyper::body::Incoming);

impl Flows {
    pub async fn try_next(&mut self) -> Option<Value> {
        let data = self.0.frame().await?.ok()?.into_data().ok()?;
        serde_json::from_slice(&data).ok()
    }

    pub async fn next(&mut self) -> Value {
        let frame = tokio::time::timeout(Duration::from_secs(5), self.0.frame()).await.expect("no flow record");
        serde_json::from_slice(&frame.unwrap().unwrap().into_data().unwrap()).unwrap()
    }
}

/// A running agent; killed when dropped.
pub struct Agent(Child);

impl Agent {
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    pub fn stop_cleanly(mut self) {
        let pid = nix::unistd::Pid::from_raw(self.0.id().try_into().unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        assert!(self.0.wait().unwrap().success());
    }

    /// Memory: all that is resident, and what of it is the process's own.
    pub fn memory(&self) -> String {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
        format!("{} resident, {} of it anonymous", field("VmRSS:"), field("RssAnon:"))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It has ended already, as a rule.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
