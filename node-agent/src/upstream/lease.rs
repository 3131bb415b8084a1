use std::time::Duration;

use skep_proto::node::v1::RenewLeaseRequest;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::session::status_text;
use super::{Session, Upstream};

/// Renews the node's lease at a quarter of its duration, for ever. Its own task: whatever else is slow, a node that lives
/// says so.
pub async fn renew_lease(upstream: Upstream, session: Session) {
    session.registered().await;
    let registration = session.watch();
    let mut due = Instant::now();
    let mut renewed = Instant::now();
    loop {
        tokio::time::sleep_until(due).await;
        let duration = registration.borrow().as_ref().map_or(Duration::from_secs(40), |known| known.lease_duration);
        let period = duration / 4;
        let mut request = tonic::Request::new(RenewLeaseRequest { name: upstream.node().to_owned() });
        request.set_timeout(period);
        let started = Instant::now();
        due = started + period;
        match upstream.node_service().renew_lease(request).await {
            Ok(_) => {
                debug!(took = ?started.elapsed(), "lease renewed");
                if renewed.elapsed() > duration / 2 {
                    session.renewed_again();
                }
                renewed = Instant::now();
            }
            Err(status) => {
                warn!(problem = status_text(&status), "lease not renewed");
                if status.code() == tonic::Code::NotFound {
                    session.lost();
                }
                // Sooner than usual: a node counts as lost after a few missed renewals.
                due = Instant::now() + period / 4;
            }
        }
    }
}
