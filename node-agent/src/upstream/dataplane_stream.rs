use std::sync::Arc;
use std::time::Duration;

use skep_proto::dataplane::v1::{WatchEvent, WatchRequest, watch_event};
use tracing::{info, warn};

use super::session::status_text;
use super::{Backoff, StreamState, Upstream};

/// Who obeys the dataplane stream.
pub trait DataplaneSink: Send + Sync + 'static {
    /// A stream is about to be opened: gives the revision to resume from, 0 for everything.
    fn begin_stream(&self) -> impl Future<Output = u64> + Send;
    /// Takes an event; waits while too many are not handled yet.
    fn event(&self, event: WatchEvent) -> impl Future<Output = ()> + Send;
}

/// Follows the dataplane stream for ever; opens it again, where it left off, whenever it ends.
pub async fn watch_dataplane(upstream: Upstream, sink: impl DataplaneSink, state: Arc<StreamState>) {
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
    loop {
        let problem = follow(&upstream, &sink, &state, &mut backoff).await;
        state.update(|status| status.connected = false);
        let wait = backoff.next_wait();
        warn!(problem, retry_in = ?wait, "dataplane stream ended");
        tokio::time::sleep(wait).await;
    }
}

async fn follow(upstream: &Upstream, sink: &impl DataplaneSink, state: &StreamState, backoff: &mut Backoff) -> String {
    let resume_revision = sink.begin_stream().await;
    let request = WatchRequest { node: upstream.node().to_owned(), resume_revision };
    let mut stream = match upstream.dataplane_service().watch(request).await {
        Ok(response) => response.into_inner(),
        Err(status) => return status_text(&status),
    };
    state.update(|status| {
        status.connected = true;
        status.opened += 1;
    });
    let mut synced = false;
    loop {
        match stream.message().await {
            Ok(Some(event)) => {
                let revision = event.revision;
                if matches!(event.event, Some(watch_event::Event::Synced(_))) {
                    synced = true;
                    backoff.reset();
                    info!(revision, resumed_from = resume_revision, "dataplane stream is complete");
                }
                sink.event(event).await;
                state.update(|status| {
                    status.synced |= synced;
                    if synced {
                        status.revision = revision;
                    }
                });
            }
            Ok(None) => return "closed by the control service".to_owned(),
            Err(status) => return status_text(&status),
        }
    }
}
