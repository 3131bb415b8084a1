use std::sync::Arc;
use std::time::Duration;

use skep_proto::node::v1::node_event::Event as Wire;
use skep_proto::node::v1::{NodeEvent, Object, WatchNodeRequest};
use tracing::{error, info, warn};

use super::session::status_text;
use super::{Backoff, Session, StreamState, Upstream};
use crate::pods::{Desired, Pods};

/// Who obeys the stream of pods.
pub trait PodSink: Send + Sync + 'static {
    /// Takes a message; never blocks.
    fn desired(&self, desired: Desired);
}

impl PodSink for Pods {
    fn desired(&self, desired: Desired) {
        self.handle(desired);
    }
}

/// Follows the node's stream of pods for ever; opens it again, where it left off, whenever it ends.
pub async fn watch_pods(upstream: Upstream, session: Session, sink: impl PodSink, state: Arc<StreamState>) {
    // The stream of a node that has no object is refused.
    session.registered().await;
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
    loop {
        let status = follow(&upstream, &sink, &state, &mut backoff).await;
        state.update(|status| status.connected = false);
        if status.code() == tonic::Code::NotFound {
            session.lost();
        }
        let wait = backoff.next_wait();
        warn!(problem = status_text(&status), retry_in = ?wait, "pod stream ended");
        tokio::time::sleep(wait).await;
    }
}

async fn follow(upstream: &Upstream, sink: &impl PodSink, state: &StreamState, backoff: &mut Backoff) -> tonic::Status {
    let resume_revision = state.get().revision;
    let request = WatchNodeRequest { name: upstream.node().to_owned(), resume_revision };
    let mut stream = match upstream.node_service().watch_node(request).await {
        Ok(response) => response.into_inner(),
        Err(status) => return status,
    };
    state.update(|status| {
        status.connected = true;
        status.opened += 1;
    });
    // Until the first `synced` of this stream the revisions of its events are not to be resumed from.
    let mut synced = false;
    loop {
        let event = match stream.message().await {
            Ok(Some(event)) => event,
            Ok(None) => return tonic::Status::unavailable("closed by the control service"),
            Err(status) => return status,
        };
        let revision = event.revision;
        match desired(event) {
            Ok(Some(desired)) => {
                if matches!(desired, Desired::Synced) {
                    synced = true;
                    backoff.reset();
                    info!(revision, resumed_from = resume_revision, "pod stream is complete");
                }
                sink.desired(desired);
            }
            Ok(None) => {}
            // The object's earlier version, if any, stays in force.
            Err(problem) => error!(revision, problem, "unreadable object on the pod stream"),
        }
        if synced {
            state.update(|status| {
                status.synced = true;
                status.revision = revision;
            });
        }
    }
}

/// The event as the pods take it; `None` when it only carries a revision.
fn desired(event: NodeEvent) -> Result<Option<Desired>, String> {
    Ok(Some(match event.event {
        Some(Wire::SnapshotBegin(_)) => Desired::SnapshotBegin,
        Some(Wire::Synced(_)) => Desired::Synced,
        Some(Wire::Changed(object)) => changed(object)?,
        Some(Wire::Deleted(object)) => Desired::Deleted(object),
        Some(Wire::Progress(_)) => return Ok(None),
        None => return Err("an event of an unknown kind".to_owned()),
    }))
}

fn changed(object: Object) -> Result<Desired, String> {
    let reference = object.r#ref.unwrap_or_default();
    let kind = reference.kind.as_str();
    let parsed = match kind {
        "Pod" => serde_json::from_slice(&object.json).map(Desired::Pod),
        "ConfigMap" => serde_json::from_slice(&object.json).map(Desired::ConfigMap),
        "Secret" => serde_json::from_slice(&object.json).map(Desired::Secret),
        other => return Err(format!("kind {other:?} is not one of Pod, ConfigMap, Secret")),
    };
    // serde's message may quote a value; a Secret's must not reach the log.
    parsed.map_err(|error| match kind {
        "Secret" => format!("Secret {}/{}: not valid JSON of its kind", reference.namespace, reference.name),
        _ => format!("{kind} {}/{}: {error}", reference.namespace, reference.name),
    })
}
