//! The control service's side of the wire: real gRPC over real TLS, and what comes over it under the test's control.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use skep_proto::dataplane::v1 as dp;
use skep_proto::dataplane::v1::dataplane_service_server::{DataplaneService, DataplaneServiceServer};
use skep_proto::node::v1::node_service_server::{NodeService, NodeServiceServer};
use skep_proto::node::v1::pod_status_result::Outcome;
use skep_proto::node::v1::*;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status};

use super::pki::{Authority, Credentials};

/// What the agent has said, and what it is answered.
#[derive(Default)]
pub struct Record {
    pub registrations: Vec<RegisterRequest>,
    pub statuses: Vec<PodStatus>,
    pub node_statuses: Vec<serde_json::Value>,
    pub events: Vec<Event>,
    pub renewals: usize,
    /// Answers to status reports, [`Outcome::Ok`] when there is none left.
    pub outcomes: VecDeque<Result<Outcome, Status>>,
    /// Answers to lease renewals that fail.
    pub lease_failures: VecDeque<Status>,
    /// Failures of event reports.
    pub event_failures: VecDeque<Status>,
}

/// An opened stream: where the agent resumes from, and where to send.
pub struct Opened<T> {
    pub resume_revision: u64,
    pub events: mpsc::Sender<Result<T, Status>>,
}

impl<T> Opened<T> {
    pub async fn send(&self, event: T) {
        self.events.send(Ok(event)).await.unwrap_or_else(|_| panic!("the stream was closed by the agent"));
    }
}

struct Shared {
    record: Mutex<Record>,
    pods: mpsc::UnboundedSender<Opened<NodeEvent>>,
    dataplane: mpsc::UnboundedSender<Opened<dp::WatchEvent>>,
    lease_seconds: u32,
    pod_cidrs: Vec<String>,
}

/// A control service.
pub struct Peer {
    shared: Arc<Shared>,
    pub addr: SocketAddr,
    pub pods: mpsc::UnboundedReceiver<Opened<NodeEvent>>,
    pub dataplane: mpsc::UnboundedReceiver<Opened<dp::WatchEvent>>,
    credentials: Arc<(String, Credentials)>,
    /// A runtime of its own: connections end with it.
    server: Option<tokio::runtime::Runtime>,
}

impl Peer {
    /// Serves on `addr`; port 0 takes any.
    pub async fn start(authority: &Authority, addr: SocketAddr, lease_seconds: u32, pod_cidrs: &[&str]) -> Self {
        let (pods_sender, pods) = mpsc::unbounded_channel();
        let (dataplane_sender, dataplane) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            record: Mutex::default(),
            pods: pods_sender,
            dataplane: dataplane_sender,
            lease_seconds,
            pod_cidrs: pod_cidrs.iter().map(|&cidr| cidr.to_owned()).collect(),
        });
        let credentials = authority.issue("control", "skep", &[addr.ip()]);
        let credentials = Arc::new((authority.certificate.clone(), credentials));
        let mut peer = Self { shared, addr, pods, dataplane, credentials, server: None };
        peer.listen().await;
        peer
    }

    async fn listen(&mut self) {
        let listener = loop {
            match std::net::TcpListener::bind(self.addr) {
                Ok(listener) => break listener,
                // The connections of the server before may take a moment to go.
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && self.addr.port() != 0 => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => panic!("{}: {error}", self.addr),
            }
        };
        listener.set_nonblocking(true).unwrap();
        self.addr = listener.local_addr().unwrap();
        let (ca, own) = &*self.credentials;
        let tls = ServerTlsConfig::new()
            .identity(Identity::from_pem(&own.certificate, &own.key))
            .client_ca_root(Certificate::from_pem(ca));
        let service = Service(Arc::clone(&self.shared));
        let server = Server::builder()
            .tls_config(tls)
            .unwrap()
            .add_service(NodeServiceServer::new(service.clone()))
            .add_service(DataplaneServiceServer::new(service));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            server.serve_with_incoming(TcpIncoming::from(listener)).await.unwrap();
        });
        self.server = Some(runtime);
    }

    /// Ends all connections and refuses new ones.
    pub fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.shutdown_background();
        }
    }

    /// Serves again, on the same address.
    pub async fn resume(&mut self) {
        self.listen().await;
    }

    /// What was said so far.
    pub fn record<T>(&self, look: impl FnOnce(&mut Record) -> T) -> T {
        look(&mut self.shared.record.lock().unwrap())
    }

    /// The next stream of pods that the agent opens.
    pub async fn next_pods(&mut self) -> Opened<NodeEvent> {
        tokio::time::timeout(super::PATIENCE, self.pods.recv()).await.expect("no pod stream").unwrap()
    }

    /// The next dataplane stream that the agent opens.
    pub async fn next_dataplane(&mut self) -> Opened<dp::WatchEvent> {
        tokio::time::timeout(super::PATIENCE, self.dataplane.recv()).await.expect("no dataplane stream").unwrap()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stop();
    }
}

#[derive(Clone)]
struct Service(Arc<Shared>);

impl Service {
    fn record(&self) -> std::sync::MutexGuard<'_, Record> {
        self.0.record.lock().unwrap()
    }
}

#[tonic::async_trait]
impl NodeService for Service {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<RegisterResponse>, Status> {
        self.record().registrations.push(request.into_inner());
        Ok(Response::new(RegisterResponse {
            uid: "node-uid".to_owned(),
            pod_cidrs: self.0.pod_cidrs.clone(),
            service_cidrs: vec!["10.96.0.0/16".to_owned()],
            lease_duration_seconds: self.0.lease_seconds,
            ..RegisterResponse::default()
        }))
    }

    type WatchNodeStream = ReceiverStream<Result<NodeEvent, Status>>;

    async fn watch_node(&self, request: Request<WatchNodeRequest>) -> Result<Response<Self::WatchNodeStream>, Status> {
        let (events, receiver) = mpsc::channel(16);
        let opened = Opened { resume_revision: request.into_inner().resume_revision, events };
        self.0.pods.send(opened).map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn report_pod_status(
        &self,
        request: Request<ReportPodStatusRequest>,
    ) -> Result<Response<ReportPodStatusResponse>, Status> {
        let mut record = self.record();
        let mut results = Vec::new();
        for status in request.into_inner().statuses {
            let outcome = record.outcomes.pop_front().unwrap_or(Ok(Outcome::Ok))?;
            record.statuses.push(status);
            results.push(PodStatusResult { outcome: outcome.into(), message: String::new() });
        }
        Ok(Response::new(ReportPodStatusResponse { results }))
    }

    async fn report_node_status(
        &self,
        request: Request<ReportNodeStatusRequest>,
    ) -> Result<Response<ReportNodeStatusResponse>, Status> {
        let status = serde_json::from_slice(&request.into_inner().status)
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        self.record().node_statuses.push(status);
        Ok(Response::new(ReportNodeStatusResponse {}))
    }

    async fn renew_lease(&self, _: Request<RenewLeaseRequest>) -> Result<Response<RenewLeaseResponse>, Status> {
        let mut record = self.record();
        if let Some(failure) = record.lease_failures.pop_front() {
            return Err(failure);
        }
        record.renewals += 1;
        Ok(Response::new(RenewLeaseResponse {}))
    }

    async fn report_events(
        &self,
        request: Request<ReportEventsRequest>,
    ) -> Result<Response<ReportEventsResponse>, Status> {
        let mut record = self.record();
        if let Some(failure) = record.event_failures.pop_front() {
            return Err(failure);
        }
        record.events.extend(request.into_inner().events);
        Ok(Response::new(ReportEventsResponse {}))
    }
}

#[tonic::async_trait]
impl DataplaneService for Service {
    type WatchStream = ReceiverStream<Result<dp::WatchEvent, Status>>;

    async fn watch(&self, request: Request<dp::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let (events, receiver) = mpsc::channel(16);
        let opened = Opened { resume_revision: request.into_inner().resume_revision, events };
        self.0.dataplane.send(opened).map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}
