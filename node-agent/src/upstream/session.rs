use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use skep_agent_core::dataplane::{Cidr, Problem};
use skep_proto::node::v1::RegisterRequest;
use tokio::sync::{Notify, watch};
use tracing::{info, warn};

use super::{Backoff, Upstream, request};
use crate::dns::ClusterDns;

/// What the control service assigned to this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// `metadata.uid` of the node's object.
    pub uid: String,
    /// Ranges of the node's pods, at most one a family.
    pub pod_ranges: Vec<Cidr>,
    /// Ranges of Service addresses.
    pub service_ranges: Vec<Cidr>,
    /// How long a lease is valid.
    pub lease_duration: Duration,
    /// Where cluster names are resolved; `None` in a cluster that says nothing of it.
    pub cluster_dns: Option<ClusterDns>,
}

/// Keeps the node registered.
#[derive(Clone, Debug)]
pub struct Session {
    registration: watch::Receiver<Option<Registration>>,
    lost: Arc<Notify>,
    reappeared: Arc<Notify>,
}

/// Kubernetes' lease duration, for a control service that says 0.
const DEFAULT_LEASE_SECONDS: u32 = 40;

impl Session {
    /// Registers, for as long as it takes, and again whenever [`Session::lost`] is called. `node` gives the `v1.Node` as
    /// JSON.
    pub fn start<F>(upstream: Upstream, node: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Vec<u8>> + Send,
    {
        let (sender, registration) = watch::channel(None);
        let lost = Arc::new(Notify::new());
        let session = Self { registration, lost: Arc::clone(&lost), reappeared: Arc::default() };
        tokio::spawn(async move {
            loop {
                let registration = register(&upstream, &node).await;
                info!(
                    node = upstream.node(),
                    pod_ranges = ?registration.pod_ranges.iter().map(Cidr::to_string).collect::<Vec<_>>(),
                    "registered"
                );
                if sender.send(Some(registration)).is_err() {
                    return;
                }
                lost.notified().await;
            }
        });
        session
    }

    /// The control service does not know the node any more.
    pub fn lost(&self) {
        self.lost.notify_one();
    }

    /// The lease was renewed again after it had not been for long enough that the node may count as lost.
    pub(super) fn renewed_again(&self) {
        self.reappeared.notify_one();
    }

    /// Waits until the node may have counted as lost, and is back.
    pub async fn reappeared(&self) {
        self.reappeared.notified().await;
    }

    /// The newest registration; `None` until the first.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Option<Registration>> {
        self.registration.clone()
    }

    /// The registration, once there is one.
    pub async fn registered(&self) -> Registration {
        let mut registration = self.registration.clone();
        loop {
            if let Some(registration) = registration.borrow_and_update().clone() {
                return registration;
            }
            if registration.changed().await.is_err() {
                // Only while the runtime shuts down: whoever waits is about to be dropped.
                std::future::pending::<()>().await;
            }
        }
    }
}

async fn register<F>(upstream: &Upstream, node: &impl Fn() -> F) -> Registration
where
    F: Future<Output = Vec<u8>>,
{
    let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));
    loop {
        let message = RegisterRequest { name: upstream.node().to_owned(), node: node().await };
        let problem = match upstream.node_service().register(request(message)).await {
            Ok(response) => match registration(response.into_inner()) {
                Ok(registration) => return registration,
                Err(problem) => problem.to_string(),
            },
            Err(status) => status_text(&status),
        };
        let wait = backoff.next_wait();
        warn!(%problem, retry_in = ?wait, "registration failed");
        tokio::time::sleep(wait).await;
    }
}

/// A status as people read it, with the cause that tonic keeps apart from the message.
pub(crate) fn status_text(status: &tonic::Status) -> String {
    let mut text = format!("{:?}: {}", status.code(), status.message());
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

fn registration(response: skep_proto::node::v1::RegisterResponse) -> Result<Registration, Problem> {
    let ranges = |texts: Vec<String>| texts.iter().map(|text| text.parse()).collect::<Result<Vec<Cidr>, _>>();
    let servers = response.cluster_dns.iter().map(|text| text.parse().map_err(|_| Problem::Address(text.clone())));
    let servers: Vec<IpAddr> = servers.collect::<Result<_, _>>()?;
    let cluster_dns = (!servers.is_empty()).then_some(ClusterDns { servers, domain: response.cluster_domain });
    let seconds = match response.lease_duration_seconds {
        0 => DEFAULT_LEASE_SECONDS,
        seconds => seconds,
    };
    Ok(Registration {
        uid: response.uid,
        pod_ranges: ranges(response.pod_cidrs)?,
        service_ranges: ranges(response.service_cidrs)?,
        lease_duration: Duration::from_secs(seconds.into()),
        cluster_dns,
    })
}
