use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use skep_agent_core::dataplane::{self, ObjectName};
use tokio::sync::watch;
use tracing::warn;

use super::Dataplane;
use crate::cni::Journal;
use crate::health_check::{self, HealthCheck, HealthChecks};
use crate::stale_sockets;
use crate::uplink::{self, Announcer};

/// What the objects ask of this node beside map entries. Complete when `synced`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Duties {
    /// The state has been complete once.
    pub synced: bool,
    /// Load balancer addresses that this node answers for.
    pub announced: BTreeSet<IpAddr>,
    /// Addresses at which the agent answers as the cluster's DNS.
    pub cluster_dns: Vec<IpAddr>,
    /// Health check ports to answer at.
    pub health_checks: Vec<dataplane::HealthCheck>,
}

/// Answers at health check node ports as the objects ask for, for ever.
pub async fn keep_health_checks(dataplane: Dataplane) {
    let mut duties = dataplane.watch_duties();
    let (wanted, watched) = watch::channel(HealthChecks::new());
    let keeper = tokio::spawn(health_check::keep(watched));
    loop {
        let checks = duties.borrow_and_update().health_checks.clone();
        let checks = checks.into_iter().map(|check| {
            let service = ObjectName { namespace: check.namespace, name: check.name };
            (check.port, HealthCheck { service, local_endpoints: check.local_endpoints })
        });
        wanted.send_replace(checks.collect());
        if duties.changed().await.is_err() {
            keeper.abort();
            return;
        }
    }
}

/// Tells everybody on the uplink of the load balancer addresses that this node begins to answer for, for ever.
pub async fn keep_announced(dataplane: Dataplane, announcer: Announcer) {
    let mut duties = dataplane.watch_duties();
    let (wanted, watched) = watch::channel(BTreeSet::new());
    let keeper = tokio::spawn(uplink::keep_announced(announcer, watched));
    loop {
        let announced = duties.borrow_and_update().announced.clone();
        wanted.send_if_modified(|known| {
            let news = *known != announced;
            *known = announced;
            news
        });
        if duties.changed().await.is_err() {
            keeper.abort();
            return;
        }
    }
}

/// Ends the sockets of programs on this node that are connected to backends that are gone, for ever.
pub async fn end_stale_sockets(dataplane: Dataplane, programs: Arc<skep_dataplane::Dataplane>, journal: Journal) {
    let Some(mut batches) = dataplane.gone_backends() else { return };
    while let Some(mut gone) = batches.recv().await {
        // What has come meanwhile is done in the same walk through the sockets.
        while let Ok(more) = batches.try_recv() {
            gone.extend(more);
        }
        let gone: BTreeSet<_> =
            gone.into_iter().map(|gone| (SocketAddr::new(gone.addr, gone.port), gone.proto)).collect();
        let namespaces: Vec<PathBuf> =
            journal.read(|ipam| ipam.allocations().map(|pod| PathBuf::from(&pod.owner.netns)).collect()).await;
        let programs = Arc::clone(&programs);
        let work = tokio::task::spawn_blocking(move || match programs.maps().origins.iter() {
            Ok(origins) => drop(stale_sockets::end(&gone, &origins, || namespaces)),
            Err(problem) => warn!(%problem, "sockets of backends that are gone are not ended"),
        });
        if let Err(problem) = work.await {
            warn!(%problem, "sockets of backends that are gone");
        }
    }
}
