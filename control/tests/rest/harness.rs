//! A service of one's own, and a client of it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clap::Parser;
use http::header::{ACCEPT, CONTENT_TYPE, HOST};
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::Value;
use skep_control::config::{Cli, Command};
use skep_control::pki::Pki;
use skep_control::serve::Control;
use skep_control::tls;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A running service.
pub(crate) struct Cluster {
    pub(crate) control: Control,
    pub(crate) dir: tempfile::TempDir,
    pub(crate) client: Client,
}

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    /// The body of an answer with this code.
    #[track_caller]
    pub(crate) fn expect(&self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", String::from_utf8_lossy(&self.body));
        self.json()
    }

    /// Code, reason and message of a failure.
    #[track_caller]
    pub(crate) fn failure(&self) -> (u16, String, String) {
        let status = self.json();
        assert_eq!(status["kind"], "Status", "{status}");
        assert_eq!(status["status"], "Failure", "{status}");
        assert_eq!(status["code"], self.code, "{status}");
        let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
        (self.code, text("reason"), text("message"))
    }
}

#[derive(Clone)]
pub(crate) struct Client {
    connector: TlsConnector,
    address: std::net::SocketAddr,
}

impl Client {
    fn new(config: Arc<ClientConfig>, address: std::net::SocketAddr) -> Self {
        Self { connector: TlsConnector::from(config), address }
    }

    /// Sends a request; the answer's body is still to be read.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        let tcp = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::IpAddress(self.address.ip().into());
        let tls = self.connector.connect(name, tcp).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls)).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    }

    pub(crate) async fn request(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header(HOST, "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.send(request.body(Full::new(Bytes::copy_from_slice(body))).unwrap()).await;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer { code: parts.status.as_u16(), headers: parts.headers, body }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.request(Method::GET, path, &[], b"").await
    }

    pub(crate) async fn get_as(&self, path: &str, accept: &str) -> Answer {
        self.request(Method::GET, path, &[(ACCEPT.as_str(), accept)], b"").await
    }

    pub(crate) async fn post(&self, path: &str, object: &Value) -> Answer {
        self.request(Method::POST, path, JSON, object.to_string().as_bytes()).await
    }

    pub(crate) async fn put(&self, path: &str, object: &Value) -> Answer {
        self.request(Method::PUT, path, JSON, object.to_string().as_bytes()).await
    }

    pub(crate) async fn patch(&self, path: &str, kind: &str, patch: &Value) -> Answer {
        let content_type = format!("application/{kind}+json");
        let headers = [(CONTENT_TYPE.as_str(), content_type.as_str())];
        self.request(Method::PATCH, path, &headers, patch.to_string().as_bytes()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.request(Method::DELETE, path, &[], b"").await
    }

    /// As [`Self::post`], but `None` when the service is not there or goes away meanwhile.
    pub(crate) async fn try_post(&self, path: &str, object: &Value) -> Option<Answer> {
        let request = Request::post(path).header(HOST, "localhost").header(CONTENT_TYPE, "application/json");
        let request = request.body(Full::new(Bytes::from(object.to_string()))).ok()?;
        let tcp = TcpStream::connect(self.address).await.ok()?;
        let tls = self.connector.connect(ServerName::IpAddress(self.address.ip().into()), tcp).await.ok()?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls)).await.ok()?;
        tokio::spawn(connection);
        let (parts, body) = sender.send_request(request).await.ok()?.into_parts();
        let body = body.collect().await.ok()?.to_bytes();
        Some(Answer { code: parts.status.as_u16(), headers: parts.headers, body })
    }

    pub(crate) async fn watch(&self, path: &str) -> Frames {
        let request = Request::get(path).header(HOST, "localhost").body(Full::default()).unwrap();
        let response = self.send(request).await;
        assert_eq!(response.status(), 200, "{path}");
        Frames { body: response.into_body(), rest: Vec::new() }
    }
}

pub(crate) const JSON: &[(&str, &str)] = &[("content-type", "application/json")];
pub(crate) const YAML: &[(&str, &str)] = &[("content-type", "application/yaml")];

/// The frames of a watch.
pub(crate) struct Frames {
    body: Incoming,
    rest: Vec<u8>,
}

impl Frames {
    /// The next frame; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = tokio::time::timeout(Duration::from_secs(20), self.body.frame()).await.expect("no frame came");
            let data = frame?.unwrap().into_data().unwrap();
            self.rest.extend_from_slice(&data);
        }
    }

    /// The next frame as `TYPE name`.
    pub(crate) async fn brief(&mut self) -> String {
        match self.next().await {
            Some(frame) => {
                let name = frame["object"]["metadata"]["name"].as_str().unwrap_or_default();
                format!("{} {name}", frame["type"].as_str().unwrap_or_default())
            }
            None => "END".to_owned(),
        }
    }
}

fn connect(dir: &Path, control: &Control) -> Client {
    let pki = Pki::load_or_create(dir, &[], &control.endpoint).unwrap();
    Client::new(tls::client_config(&pki).unwrap(), control.address)
}

impl Cluster {
    /// A service without controllers: what a test writes is changed by nobody else.
    pub(crate) async fn start() -> Self {
        Self::with(tempfile::tempdir().unwrap(), &["--api-only"]).await
    }

    pub(crate) async fn with(dir: tempfile::TempDir, arguments: &[&str]) -> Self {
        let path = dir.path().to_str().unwrap();
        let all = ["skep-control", "serve", "--data-dir", path, "--listen", "127.0.0.1:0"].into_iter();
        let Command::Serve(config) = Cli::try_parse_from(all.chain(arguments.iter().copied())).unwrap().command else {
            panic!("serve was asked for")
        };
        let control = Control::start(config).await.unwrap();
        let client = connect(dir.path(), &control);
        Self { control, dir, client }
    }

    /// A client of a service in another process, once that listens.
    pub(crate) async fn client_of(dir: &Path, address: std::net::SocketAddr) -> Client {
        for _ in 0..200 {
            if TcpStream::connect(address).await.is_ok() && dir.join("admin.kubeconfig").exists() {
                let pki = Pki::load_or_create(dir, &[], &address.to_string()).unwrap();
                return Client::new(tls::client_config(&pki).unwrap(), address);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("nobody listens at {address}")
    }

    /// A client that shows no certificate.
    pub(crate) fn stranger(&self) -> Client {
        let ca = std::fs::read_to_string(self.dir.path().join("pki/ca.crt")).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        use rustls::pki_types::pem::PemObject;
        roots.add(rustls::pki_types::CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Client::new(Arc::new(config), self.control.address)
    }

    /// A client with a node's certificate.
    pub(crate) fn node(&self, name: &str) -> Client {
        let out = self.dir.path().join(name);
        skep_control::pki::issue_node(self.dir.path(), name, &["127.0.0.1".parse().unwrap()], &out).unwrap();
        let read = |file: &str| std::fs::read_to_string(out.join(file)).unwrap();
        let identity = skep_control::pki::Identity { certificate: read("node.crt"), key: read("node.key") };
        let pki = Pki { ca: read("ca.crt"), server: identity.clone(), kubelet_client: identity };
        Client::new(tls::client_config(&pki).unwrap(), self.control.address)
    }

    /// Every key, value and revision that the store holds.
    pub(crate) async fn contents(&self) -> Vec<skep_store::KeyValue> {
        use skep_store::Store;
        let range = skep_store::KeyRange { start: Bytes::new(), end: None };
        self.control.api.store().range(range, None, 0).await.unwrap().kvs
    }
}

pub(crate) fn config_map(name: &str) -> Value {
    serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}})
}

pub(crate) fn pod(name: &str) -> Value {
    serde_json::json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": "i:1"}]},
    })
}

pub(crate) fn deployment(name: &str) -> Value {
    serde_json::json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "i:1"}]},
            },
        },
    })
}

pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
pub(crate) const SERVICES: &str = "/api/v1/namespaces/default/services";
