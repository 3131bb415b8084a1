//! What Prometheus is told: `GET /metrics`, on the local socket and on the node API.
//!
//! ```text
//! driver ──► ProgrammingLatency ─┐
//! status, maps, counters, drops ─┼─► Registry ──► OpenMetrics text
//! DNS, process ──────────────────┘   (asked when somebody scrapes)
//! ```
//!
//! Nothing here walks through a map: entries are counted where they are written or swept, see
//! [`Occupancy`](crate::dataplane::Occupancy).

mod dataplane;
mod dns;
mod process;
mod programming;
mod rows;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use prometheus_client::encoding::text;
use prometheus_client::registry::{Registry, Unit};

pub use dataplane::DataplaneSources;
pub use programming::{Pending, ProgrammingLatency, Trigger};

use crate::dns::Dns;

/// What the text is; <https://prometheus.io/docs/specs/om/open_metrics_spec/>.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Everything that is measured.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Registry>);

impl Metrics {
    /// The metrics of an agent.
    #[must_use]
    pub fn new(programming: &ProgrammingLatency, dataplane: DataplaneSources, dns: Dns) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(process::Process));
        let own = registry.sub_registry_with_prefix("skep");
        own.register_with_unit(
            "network_programming",
            "From a change of a Service or EndpointSlice, as the control service's store hands it over, to the last of its \
             map writes on this node",
            Unit::Seconds,
            programming.family(),
        );
        own.register_collector(Box::new(dataplane));
        own.register_collector(Box::new(dns::DnsMetrics(dns)));
        Self(Arc::new(registry))
    }

    /// The values now, as OpenMetrics text.
    ///
    /// # Errors
    /// A value has no form in the text.
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        text::encode(&mut text, &self.0)?;
        Ok(text)
    }

    /// Answers `GET /metrics`.
    pub fn router(&self) -> Router {
        Router::new().route("/metrics", get(answer)).with_state(self.clone())
    }
}

async fn answer(State(metrics): State<Metrics>) -> Response {
    match metrics.text() {
        Ok(text) => ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(problem) => (StatusCode::INTERNAL_SERVER_ERROR, format!("metrics: {problem}\n")).into_response(),
    }
}
