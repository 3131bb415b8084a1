//! The node's HTTP API: what the control service asks a node for on behalf of users.

mod error;
mod log_file;
mod logs;
mod options;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use k8s_openapi::List;
use k8s_openapi::api::core::v1::Pod;

use crate::pods::Pods;

/// The routes: `GET /containerLogs/{namespace}/{pod}/{container}`, `GET /pods`, `GET /healthz`. Who may ask is decided
/// by the listener in front of it.
pub fn router(pods: Pods) -> Router {
    Router::new()
        .route("/containerLogs/{namespace}/{pod}/{container}", get(logs::get))
        .route("/pods", get(list))
        .route("/healthz", get(async || "ok"))
        .with_state(pods)
}

/// The pods of this node with the status that it sees.
async fn list(State(pods): State<Pods>) -> Json<List<Pod>> {
    let with_status = |pod: std::sync::Arc<Pod>| {
        let mut pod = Pod::clone(&pod);
        let status = pod.metadata.uid.as_deref().and_then(|uid| pods.status(uid));
        if let Some(status) = status {
            pod.status = Some((*status).clone());
        }
        pod
    };
    let mut items: Vec<Pod> = pods.pods().into_iter().map(with_status).collect();
    items.sort_by(|a, b| (&a.metadata.namespace, &a.metadata.name).cmp(&(&b.metadata.namespace, &b.metadata.name)));
    Json(List { items, ..List::default() })
}
