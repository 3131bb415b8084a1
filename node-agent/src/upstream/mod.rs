//! The connection to the control service, and what goes over it.
//!
//! ```text
//!             ┌► session: Register, again when the node's object is gone
//!             ├► pods: WatchNode ──► Pods               ┐ resumed by revision
//! one channel ┼► dataplane: Watch ──► the dataplane     ┘
//!             ├► lease: RenewLease at a quarter of its duration
//!             ├► reports: ReportPodStatus, newest of each pod
//!             └► events: ReportEvents
//! ```

mod backoff;
mod dataplane_stream;
mod events;
mod lease;
mod pod_stream;
mod reports;
mod session;
mod stream_state;

pub(crate) use backoff::Backoff;
pub use dataplane_stream::{DataplaneSink, watch_dataplane};
pub use events::report_events;
pub use lease::renew_lease;
pub use pod_stream::{PodSink, watch_pods};
pub use reports::{ReportSink, report_pods};
pub(crate) use session::status_text;
pub use session::{Registration, Session};
pub use stream_state::{StreamState, StreamStatus};

use std::time::Duration;

use skep_proto::dataplane::v1::dataplane_service_client::DataplaneServiceClient;
use skep_proto::node::v1::node_service_client::NodeServiceClient;
use tonic::transport::{Channel, Endpoint};

use crate::tls::Pki;

/// A single object may be 1.5 MiB (a Secret of 1 MiB in base64, and its metadata).
const LARGEST_MESSAGE: usize = 4 * 1024 * 1024;
/// Bytes that may be under way unread on one stream. Two streams together stay below the connection's window, so that a
/// stream that is read slowly never holds a lease renewal up.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// How long one request may take.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The control service's address is not usable.
#[derive(Debug, thiserror::Error)]
#[error("--control {control}: {source}")]
pub struct UpstreamError {
    control: String,
    source: tonic::transport::Error,
}

/// The control service, as this node sees it. Connects by itself when something is asked, and again after it was lost.
#[derive(Clone, Debug)]
pub struct Upstream {
    node: String,
    channel: Channel,
}

impl Upstream {
    /// The control service at `control` (`HOST:PORT`) for `node`.
    ///
    /// # Errors
    /// The address or the key material is not usable.
    pub fn new(node: &str, control: &str, pki: &Pki) -> Result<Self, UpstreamError> {
        let failed = |source| UpstreamError { control: control.to_owned(), source };
        let endpoint = Endpoint::from_shared(format!("https://{control}"))
            .map_err(failed)?
            .tls_config(pki.client())
            .map_err(failed)?
            .connect_timeout(Duration::from_secs(5))
            .http2_keep_alive_interval(Duration::from_secs(10))
            .keep_alive_timeout(Duration::from_secs(5))
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .tcp_nodelay(true);
        Ok(Self { node: node.to_owned(), channel: endpoint.connect_lazy() })
    }

    /// Name of this node.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node
    }

    pub(crate) fn node_service(&self) -> NodeServiceClient<Channel> {
        NodeServiceClient::new(self.channel.clone()).max_decoding_message_size(LARGEST_MESSAGE)
    }

    fn dataplane_service(&self) -> DataplaneServiceClient<Channel> {
        DataplaneServiceClient::new(self.channel.clone()).max_decoding_message_size(LARGEST_MESSAGE)
    }
}

/// A request with [`REQUEST_TIMEOUT`].
pub(crate) fn request<T>(message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.set_timeout(REQUEST_TIMEOUT);
    request
}
