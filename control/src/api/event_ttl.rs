//! Events go by themselves after an hour.

use std::time::{Duration, Instant};

use skep_control_core::api::{Resource, Status};
use skep_store::{LeaseId, Store};
use tokio::sync::Mutex;

use super::{Api, failure};

/// How long an Event is kept at least.
const TTL: Duration = Duration::from_secs(60 * 60);
/// Events of so long share a lease, so that there are few leases however many Events.
const SHARED_FOR: Duration = Duration::from_secs(5 * 60);

/// The lease that new Events are bound to, and since when.
#[derive(Default)]
pub(super) struct EventTtl {
    current: Mutex<Option<(Instant, LeaseId)>>,
}

impl Api {
    /// The lease that an object of the resource lives with; 0 is none.
    pub(super) async fn lease_for(&self, resource: &Resource) -> Result<LeaseId, Status> {
        if resource.storage != "events" {
            return Ok(0);
        }
        let mut current = self.inner.event_ttl.current.lock().await;
        if let Some((since, lease)) = *current
            && since.elapsed() < SHARED_FOR
        {
            return Ok(lease);
        }
        let seconds = u32::try_from((TTL + SHARED_FOR).as_secs()).unwrap_or(u32::MAX);
        let lease = self.inner.store.grant(seconds).await.map_err(failure::status)?;
        *current = Some((Instant::now(), lease));
        Ok(lease)
    }
}
