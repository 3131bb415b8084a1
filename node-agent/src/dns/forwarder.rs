use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use skep_agent_core::dns::{Cache, Cached, Name, Query, Rcode, Reply, Rtype, Topic};
use tokio::sync::watch;
use tracing::{debug, error, warn};

use super::PORT;
use super::counters::Counters;
use super::exchange::{ExchangeError, exchange, random};

/// Answers that are kept at most.
const CACHE: usize = 4096;
/// Questions that may be under way to other servers.
const FLIGHTS: usize = 2048;
/// How often a question may go round all servers.
const ROUNDS: usize = 2;

/// How long other servers are waited for.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For one message to one server.
    pub attempt: Duration,
    /// For one question in all: less than the 5 s after which resolvers ask again (resolv.conf(5)).
    pub total: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { attempt: Duration::from_secs(1), total: Duration::from_secs(4) }
    }
}

/// Asks other servers, keeps what they answer, and asks a question only once at a time.
#[derive(Debug)]
pub(super) struct Forwarder {
    servers: Mutex<Arc<[SocketAddr]>>,
    /// The one that answered last: asked first.
    preferred: AtomicUsize,
    cache: Mutex<Cache>,
    flights: Mutex<HashMap<Topic, watch::Receiver<Option<Arc<Reply>>>>>,
    probes: Mutex<HashMap<Name, SocketAddr>>,
    patience: Patience,
    counters: Arc<Counters>,
}

impl Forwarder {
    pub(super) fn new(patience: Patience, counters: Arc<Counters>) -> Self {
        Self {
            servers: Mutex::new(Arc::new([])),
            preferred: AtomicUsize::new(0),
            cache: Mutex::new(Cache::new(CACHE)),
            flights: Mutex::default(),
            probes: Mutex::default(),
            patience,
            counters,
        }
    }

    /// Takes the servers to ask, less `own` addresses: whoever asks himself asks for ever. What others said is forgotten.
    pub(super) fn set_servers(&self, servers: &[SocketAddr], own: &[IpAddr]) {
        let (refused, servers): (Vec<SocketAddr>, Vec<SocketAddr>) =
            servers.iter().partition(|server| server.port() == PORT && own.contains(&server.ip()));
        for server in refused {
            warn!(%server, "a name server for names outside of the cluster is this one; it is left out");
        }
        if servers.is_empty() {
            warn!("no name servers for names outside of the cluster");
        }
        *lock(&self.servers) = servers.into();
        self.preferred.store(0, Ordering::Relaxed);
        lock(&self.cache).clear();
    }

    /// The servers that are asked, in this order.
    pub(super) fn servers(&self) -> Arc<[SocketAddr]> {
        Arc::clone(&lock(&self.servers))
    }

    /// How many answers are kept.
    pub(super) fn cached(&self) -> usize {
        lock(&self.cache).len()
    }

    /// A kept answer.
    pub(super) fn recall(&self, topic: &Topic) -> Option<Cached> {
        let found = lock(&self.cache).get(topic, Instant::now());
        if found.is_some() {
            self.counters.cache_hits.add();
        }
        found
    }

    /// The answer, from wherever it comes. Never fails: the reply says so.
    pub(super) async fn ask(self: &Arc<Self>, topic: Topic) -> Cached {
        let fresh = |reply| Cached { reply, age: 0 };
        let mut landing = match self.board(topic) {
            Ok(landing) => landing,
            Err(cached) => return cached,
        };
        let landed = landing.wait_for(Option::is_some).await.map(|reply| reply.clone());
        match landed {
            Ok(Some(reply)) => fresh(reply),
            // The task was ended, with the process.
            Ok(None) | Err(_) => fresh(Arc::new(Reply::error(Rcode::SERVFAIL))),
        }
    }

    /// The question under way, or an answer that came meanwhile.
    fn board(self: &Arc<Self>, topic: Topic) -> Result<watch::Receiver<Option<Arc<Reply>>>, Cached> {
        let mut flights = lock(&self.flights);
        if let Some(flight) = flights.get(&topic) {
            self.counters.cache_misses.add();
            self.counters.shared.add();
            return Ok(flight.clone());
        }
        // Under the lock of the flights: one that has just landed is kept by now.
        if let Some(cached) = self.recall(&topic) {
            return Err(cached);
        }
        self.counters.cache_misses.add();
        if flights.len() >= FLIGHTS {
            self.counters.overload.add();
            return Err(Cached { reply: Arc::new(Reply::error(Rcode::SERVFAIL)), age: 0 });
        }
        let (landed, landing) = watch::channel(None);
        flights.insert(topic.clone(), landing.clone());
        let own = Arc::clone(self);
        // A task of its own: it does not end when the client goes away, for others may wait too.
        tokio::spawn(async move {
            let asked = own.servers();
            let reply = Arc::new(own.fly(&topic, &asked).await);
            let mut flights = lock(&own.flights);
            // What servers say that are not asked any more is answered, and not kept.
            if Arc::ptr_eq(&asked, &lock(&own.servers)) {
                lock(&own.cache).insert(topic.clone(), Arc::clone(&reply), Instant::now());
            }
            flights.remove(&topic);
            // That nobody waits any more is no matter.
            landed.send_replace(Some(reply));
        });
        Ok(landing)
    }

    /// Asks one server after the other until one answers.
    async fn fly(&self, topic: &Topic, servers: &[SocketAddr]) -> Reply {
        let deadline = Instant::now() + self.patience.total;
        let first = self.preferred.load(Ordering::Relaxed);
        let mut refusal = None;
        for _ in 0..ROUNDS {
            for step in 0..servers.len() {
                let at = (first + step) % servers.len();
                let left = deadline.saturating_duration_since(Instant::now()).min(self.patience.attempt);
                if left.is_zero() {
                    break;
                }
                match self.attempt(servers[at], topic, left).await {
                    Ok(reply) if matches!(reply.rcode, Rcode::NOERROR | Rcode::NXDOMAIN) => {
                        self.preferred.store(at, Ordering::Relaxed);
                        return reply;
                    }
                    // The next one may know.
                    Ok(reply) => refusal = Some(reply),
                    Err(problem) => debug!(server = %servers[at], name = %topic.name, %problem, "name server"),
                }
            }
            // Whoever refuses once refuses twice.
            if let Some(refusal) = refusal {
                return refusal;
            }
        }
        self.counters.upstream_failures.add();
        Reply::error(Rcode::SERVFAIL)
    }

    /// Asks one server; one that does not know EDNS once more without (RFC 6891, 7).
    async fn attempt(&self, server: SocketAddr, topic: &Topic, patience: Duration) -> Result<Reply, ExchangeError> {
        let counted = async |edns| {
            self.counters.upstream_queries.add();
            let result = exchange(server, topic, edns, patience).await;
            match &result {
                Err(ExchangeError::Timeout(_)) => self.counters.upstream_timeouts.add(),
                Err(_) => self.counters.upstream_errors.add(),
                Ok(_) => {}
            }
            result
        };
        let result = counted(true).await;
        let unknown = |reply: &Reply| matches!(reply.rcode, Rcode::FORMERR | Rcode::NOTIMP);
        if result.as_ref().is_ok_and(unknown) && !topic.dnssec_ok { counted(false).await } else { result }
    }

    /// Asks each server for a name that nobody else can think of. One that, through others, hands it back to this server
    /// is not to be asked: see [`Forwarder::comes_back`].
    pub(super) async fn probe(&self) {
        for &server in &*self.servers() {
            let Ok(number) = random::<8>() else { return };
            let text = format!("{:016x}.skep-loop", u64::from_ne_bytes(number));
            let Ok(name) = Name::bytes_from_str(&text) else { return };
            lock(&self.probes).insert(name.clone(), server);
            let topic = Topic::new(&Query::new(name.clone(), Rtype::HINFO), name.clone());
            if let Err(problem) = exchange(server, &topic, true, self.patience.attempt).await {
                warn!(%server, %problem, "a name server for names outside of the cluster does not answer");
            }
            lock(&self.probes).remove(&name);
        }
    }

    /// Whether the question is one of [`Forwarder::probe`]; then its server is left out from now on.
    pub(super) fn comes_back(&self, name: &Name) -> bool {
        let Some(looping) = lock(&self.probes).get(name).copied() else { return false };
        error!(server = %looping, "questions to this name server come back to this node; it is not asked any more");
        let mut servers = lock(&self.servers);
        *servers = servers.iter().copied().filter(|server| *server != looping).collect();
        true
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
