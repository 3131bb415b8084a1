use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use skep_agent_core::dns::Domain;
use tokio::runtime::Runtime;
use tracing::{info, warn};

use super::counters::{Counters, DnsCounts};
use super::feed::SharedZone;
use super::forwarder::{Forwarder, Patience};
use super::interface;
use super::responder::Responder;
use super::server::Server;
use super::servers::Source;
use super::settings::{ClusterDns, SettingsWatch};
use super::{DnsArgs, PORT};
use crate::netlink::Netlink;
use crate::upstream::Backoff;

/// Threads that answer.
const WORKERS: usize = 2;
/// The node's own name servers.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Where DNS is served, and whom it asks. What the agent does not tell from its command line, for tests and measurements.
#[derive(Clone, Debug)]
pub struct Place {
    /// Port to listen on.
    pub port: u16,
    /// File with the node's name servers.
    pub resolv_conf: PathBuf,
    /// How long these are waited for.
    pub patience: Patience,
    /// How soon is noticed that the file changed, or that somebody took the interface away.
    pub review: Duration,
}

impl Default for Place {
    fn default() -> Self {
        Self {
            port: PORT,
            resolv_conf: RESOLV_CONF.into(),
            patience: Patience::default(),
            review: Duration::from_secs(5),
        }
    }
}

/// Cluster DNS of this node, as others see it.
#[derive(Clone)]
pub struct Dns {
    shared: Arc<Shared>,
}

/// What it has done, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DnsStatus {
    /// Where it listens; empty when it does not.
    pub listening: Vec<SocketAddr>,
    /// Domain of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The names are complete; until then those of the cluster are answered with SERVFAIL.
    pub synced: bool,
    /// The store revision that the names are at.
    pub revision: u64,
    /// Services that have names.
    pub services: usize,
    /// Name servers for names outside of the cluster.
    pub upstream: Vec<SocketAddr>,
    /// Answers of these that are kept.
    pub cached: usize,
    /// Counts since the agent started.
    #[serde(flatten)]
    pub counts: DnsCounts,
    /// Why it does not listen; absent when it does, or is not to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

pub(super) struct Shared {
    pub(super) zone: SharedZone,
    pub(super) forwarder: Arc<Forwarder>,
    pub(super) place: Place,
    counters: Arc<Counters>,
    serving: Mutex<Serving>,
    /// Ends with the last handle.
    runtime: Option<Runtime>,
}

#[derive(Default)]
struct Serving {
    listening: Vec<SocketAddr>,
    domain: Option<Domain>,
    problem: Option<String>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Where this is dropped must not wait.
            runtime.shutdown_background();
        }
    }
}

impl Dns {
    /// Serves as the settings say, and answers from `zone`. `netlink` acts where the calling thread is.
    ///
    /// # Errors
    /// No threads can be started. Whatever can pass (an address in use, say) is tried again, and shown in the status.
    pub fn start(args: &DnsArgs, zone: SharedZone, netlink: Netlink, settings: SettingsWatch) -> io::Result<Self> {
        Self::start_at(Place::default(), args, zone, netlink, settings)
    }

    /// As [`Dns::start`], at another place.
    ///
    /// # Errors
    /// See there.
    pub fn start_at(
        place: Place,
        args: &DnsArgs,
        zone: SharedZone,
        netlink: Netlink,
        settings: SettingsWatch,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .max_blocking_threads(1)
            .thread_name("dns")
            .enable_all()
            .build()?;
        let counters = Arc::new(Counters::default());
        let forwarder = Arc::new(Forwarder::new(place.patience, Arc::clone(&counters)));
        let source = if args.dns_upstream.is_empty() {
            Source::File(place.resolv_conf.clone())
        } else {
            Source::Fixed(args.dns_upstream.clone())
        };
        let handle = runtime.handle().clone();
        let serving = Mutex::default();
        let shared = Arc::new(Shared { zone, forwarder, place, counters, serving, runtime: Some(runtime) });
        let mut keeper = Keeper { shared: Arc::downgrade(&shared), netlink, source, servers: Vec::new(), server: None };
        handle.spawn(async move { keeper.run(settings).await });
        Ok(Self { shared })
    }

    /// What it has done.
    #[must_use]
    pub fn status(&self) -> DnsStatus {
        let shared = &self.shared;
        let (synced, revision, services) =
            shared.zone.read(|zone| (zone.is_synced(), zone.revision(), zone.services()));
        let serving = shared.serving();
        DnsStatus {
            listening: serving.listening.clone(),
            domain: serving.domain.as_ref().map(|domain| domain.apex().to_string()),
            synced,
            revision,
            services,
            upstream: shared.forwarder.servers().to_vec(),
            cached: shared.forwarder.cached(),
            counts: shared.counters.counts(),
            problem: serving.problem.clone(),
        }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Shared {
    fn serving(&self) -> MutexGuard<'_, Serving> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The domain that is served.
    pub(super) fn domain(&self) -> Option<Domain> {
        self.serving().domain.clone()
    }

    /// Where tasks of DNS run.
    pub(super) fn handle(&self) -> Option<tokio::runtime::Handle> {
        self.runtime.as_ref().map(|runtime| runtime.handle().clone())
    }
}

/// Brings interface and sockets to what the settings say, and keeps them there.
struct Keeper {
    shared: std::sync::Weak<Shared>,
    netlink: Netlink,
    source: Source,
    /// The servers as they were last read.
    servers: Vec<SocketAddr>,
    server: Option<(ClusterDns, Server)>,
}

impl Keeper {
    async fn run(&mut self, mut settings: SettingsWatch) {
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));
        loop {
            let now = settings.borrow_and_update().clone();
            let Some(shared) = self.shared.upgrade() else { return };
            let result = match &now.dns {
                Some(dns) => self.serve(&shared, dns).await,
                // Unless it is known, what an earlier agent made stays.
                None if now.settled => self.stop(&shared).await,
                None => Ok(()),
            };
            let review = shared.place.review;
            let wait = match &result {
                Ok(()) => {
                    backoff.reset();
                    review
                }
                Err(problem) => {
                    let wait = backoff.next_wait();
                    warn!(problem, retry_in = ?wait, "cluster DNS");
                    wait
                }
            };
            shared.serving().problem = result.err();
            drop(shared);
            // The time being up and a change call for the same.
            if let Ok(Err(_ended)) = tokio::time::timeout(wait, settings.changed()).await {
                // They do not change any more.
                tokio::time::sleep(review).await;
            }
        }
    }

    async fn serve(&mut self, shared: &Arc<Shared>, dns: &ClusterDns) -> Result<(), String> {
        interface::ensure(&self.netlink, &dns.servers).await.map_err(|error| error.to_string())?;
        let moved = self.server.as_ref().is_none_or(|(served, _)| served != dns);
        if let Some(servers) = self.source.read().filter(|servers| moved || *servers != self.servers) {
            shared.forwarder.set_servers(&servers, &dns.servers);
            self.servers = servers;
            if !moved {
                self.probe(shared);
            }
        }
        if !moved {
            return Ok(());
        }
        // First the old one's sockets: their addresses may be the same.
        self.server = None;
        let domain = Domain::new(&dns.domain, dns.servers.clone()).map_err(|error| error.to_string())?;
        *shared.serving() = Serving::default();
        let (zone, forwarder) = (shared.zone.clone(), Arc::clone(&shared.forwarder));
        let responder = Arc::new(Responder::new(domain.clone(), zone, forwarder, Arc::clone(&shared.counters)));
        let addrs: Vec<SocketAddr> =
            dns.servers.iter().map(|&server: &IpAddr| SocketAddr::new(server, shared.place.port)).collect();
        let server = Server::start(&responder, &addrs).map_err(|error| format!("listen on {addrs:?}: {error}"))?;
        self.server = Some((dns.clone(), server));
        info!(?addrs, domain = dns.domain, upstream = ?self.servers, "cluster DNS is served");
        *shared.serving() = Serving { listening: addrs, domain: Some(domain), problem: None };
        self.probe(shared);
        Ok(())
    }

    /// Looks for servers that ask this one; answers go on meanwhile.
    fn probe(&self, shared: &Arc<Shared>) {
        let forwarder = Arc::clone(&shared.forwarder);
        tokio::spawn(async move { forwarder.probe().await });
    }

    async fn stop(&mut self, shared: &Arc<Shared>) -> Result<(), String> {
        if self.server.take().is_some() {
            info!("cluster DNS is served no more");
            *shared.serving() = Serving::default();
        }
        interface::remove(&self.netlink).await.map_err(|error| error.to_string())
    }
}
