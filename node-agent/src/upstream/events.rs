use std::time::Duration;

use skep_proto::node::v1::{Event, ReportEventsRequest};
use tokio::sync::mpsc;
use tracing::warn;

use super::session::status_text;
use super::{Backoff, Upstream, request};

/// Events in one request at most.
const BATCH: usize = 100;
/// How often a batch is tried. Events tell people what happened lately; old ones are not worth more.
const ATTEMPTS: u32 = 6;

/// Sends Events. Those that cannot be delivered are named in the log. Ends when all senders of `events` are gone.
pub async fn report_events(upstream: Upstream, mut events: mpsc::Receiver<Event>) {
    let mut batch = Vec::with_capacity(BATCH);
    while events.recv_many(&mut batch, BATCH).await > 0 {
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
        for attempt in 1..=ATTEMPTS {
            let message = ReportEventsRequest { events: batch.clone() };
            let Err(status) = upstream.node_service().report_events(request(message)).await else { break };
            if attempt < ATTEMPTS {
                tokio::time::sleep(backoff.next_wait()).await;
                continue;
            }
            for event in &batch {
                warn!(
                    kind = event.kind,
                    namespace = event.namespace,
                    name = event.name,
                    reason = event.reason,
                    message = event.message,
                    problem = status_text(&status),
                    "event lost"
                );
            }
        }
        batch.clear();
    }
}
