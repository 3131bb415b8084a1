//! What people and tools on the node can ask: `GET /status`, `GET /flows`, `GET /dns?name=NAME`, `GET /metrics`.

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde::Serialize;
use skep_agent_core::dataplane::MapFill;
use skep_agent_core::ipam::Allocation;
use skep_dataplane::{Swept, XdpState};
use tokio::sync::watch;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::BroadcastStream;
use tracing::warn;

use crate::cni::Journal;
use crate::dataplane::{Dataplane, DataplaneStatus, FlowStream, SweptMaps};
use crate::dns::{Dns, DnsStatus, Lookup};
use crate::http_server::serve_connection;
use crate::metrics::Metrics;
use crate::sockets::bind;
use crate::uplink::XdpStatus;
use crate::upstream::{StreamState, StreamStatus};

/// What is shown.
#[derive(Clone)]
pub struct LocalApi {
    /// Name of the node.
    pub node: String,
    /// The stream of pods.
    pub pods: Arc<StreamState>,
    /// The stream of what the dataplane obeys.
    pub dataplane_stream: Arc<StreamState>,
    /// The dataplane.
    pub dataplane: Dataplane,
    /// Addresses of the pods.
    pub journal: Journal,
    /// Flow records.
    pub flows: FlowStream,
    /// How full the maps are that kernel programs fill.
    pub swept: SweptMaps,
    /// Whether packets are sent on at the uplink's driver.
    pub xdp: watch::Receiver<XdpState>,
    /// Cluster DNS.
    pub dns: Dns,
    /// The maps that are nearly full.
    pub nearly_full: watch::Receiver<Vec<MapFill>>,
    /// What Prometheus is told.
    pub metrics: Metrics,
}

/// Answer to `GET /status`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    node: String,
    version: &'static str,
    pid: u32,
    pod_stream: StreamStatus,
    dataplane_stream: StreamStatus,
    dataplane: DataplaneStatus,
    conntrack: Occupancy,
    nat: Occupancy,
    xdp: XdpStatus,
    maps_nearly_full: Vec<MapFill>,
    dns: DnsStatus,
    endpoints: Vec<Allocation>,
}

/// How full a map is, as of its last sweep.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Occupancy {
    entries: usize,
    capacity: usize,
}

impl Occupancy {
    fn of(swept: &watch::Receiver<Swept>) -> Self {
        let swept = swept.borrow();
        Self { entries: swept.entries, capacity: swept.capacity }
    }
}

/// Listens on `socket` for ever.
///
/// # Errors
/// The socket cannot be made.
pub fn serve(socket: &Path, api: LocalApi) -> io::Result<()> {
    let listener = bind(socket)?;
    let metrics = api.metrics.router();
    let router = Router::new()
        .route("/status", get(status))
        .route("/flows", get(flows))
        .route("/dns", get(explain))
        .with_state(api)
        .merge(metrics);
    tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    tokio::spawn(serve_connection(stream, router.clone()));
                }
                Err(problem) => {
                    warn!(%problem, "local API");
                    // Out of descriptors, as a rule: passes.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    });
    Ok(())
}

async fn status(State(api): State<LocalApi>) -> Response {
    // Before anything is waited for: the borrow may not be held then.
    let xdp = XdpStatus::from(&*api.xdp.borrow());
    let maps_nearly_full = api.nearly_full.borrow().clone();
    let status = Status {
        node: api.node,
        version: env!("CARGO_PKG_VERSION"),
        pid: std::process::id(),
        pod_stream: api.pods.get(),
        dataplane_stream: api.dataplane_stream.get(),
        dataplane: api.dataplane.status(),
        conntrack: Occupancy::of(&api.swept.conntrack),
        nat: Occupancy::of(&api.swept.nat),
        xdp,
        maps_nearly_full,
        dns: api.dns.status(),
        endpoints: api.journal.read(|ipam| ipam.allocations().cloned().collect()).await,
    };
    json(&status)
}

/// What a pod would find when it looks a name up, and where that comes from.
async fn explain(State(api): State<LocalApi>, Query(lookup): Query<Lookup>) -> Response {
    match api.dns.explain(&lookup).await {
        Ok(explanation) => json(&explanation),
        Err(problem) => (StatusCode::BAD_REQUEST, format!("{problem}\n")).into_response(),
    }
}

fn json(value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(json) => response("application/json", Body::from(json)),
        Err(problem) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{problem}\n")).into_response(),
    }
}

/// One JSON object a line, for as long as the client listens. A reader that is too slow misses some, and a line says how
/// many.
async fn flows(State(api): State<LocalApi>) -> Response {
    let lines = BroadcastStream::new(api.flows.subscribe()).map(|line| {
        Ok::<_, Infallible>(line.unwrap_or_else(
            |tokio_stream::wrappers::errors::BroadcastStreamRecvError::Lagged(missed)| {
                format!("{{\"missed\":{missed}}}\n").into()
            },
        ))
    });
    response("application/x-ndjson", Body::from_stream(lines))
}

fn response(content_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}
