use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use skep_agent_core::dns::{Cached, Domain, Name, Query, Rcode, Record, Reply, Request, Resolution, Topic, read};

use super::counters::Counters;
use super::feed::SharedZone;
use super::forwarder::Forwarder;

/// Clients that may wait for other servers.
const WAITING: usize = 8192;

/// How a question came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Udp,
    Tcp,
}

/// What becomes of a message.
pub(super) enum Handled {
    /// This is sent back.
    Reply(Vec<u8>),
    /// Others are to be asked first.
    Later(Later),
    /// Nothing.
    Silence,
}

/// A question that others are asked.
pub(super) struct Later {
    query: Query,
    transport: Transport,
    /// What led there.
    records: Vec<Record>,
    topic: Topic,
    _place: Place,
}

/// Answers messages.
pub(super) struct Responder {
    pub(super) domain: Domain,
    pub(super) zone: SharedZone,
    pub(super) forwarder: Arc<Forwarder>,
    pub(super) counters: Arc<Counters>,
    turn: AtomicU64,
    waiting: Arc<AtomicUsize>,
}

impl Responder {
    pub(super) fn new(domain: Domain, zone: SharedZone, forwarder: Arc<Forwarder>, counters: Arc<Counters>) -> Self {
        Self { domain, zone, forwarder, counters, turn: AtomicU64::new(0), waiting: Arc::default() }
    }

    /// Answers at once whatever can be answered from memory.
    pub(super) fn handle(&self, message: &[u8], transport: Transport) -> Handled {
        let query = match read(message) {
            Request::Query(query) => query,
            Request::Refused(rcode, reply) => {
                self.counters.answered(rcode);
                return Handled::Reply(reply);
            }
            Request::Noise => {
                self.counters.noise.add();
                return Handled::Silence;
            }
        };
        self.counters.asked(query.rtype());
        if transport == Transport::Tcp {
            self.counters.tcp.add();
        }
        let resolution = self.zone.read(|zone| zone.resolve(&self.domain, query.name(), query.rtype()));
        match resolution {
            Resolution::Reply(reply) => Handled::Reply(self.write(reply, &query, transport)),
            Resolution::NotReady => Handled::Reply(self.write(Reply::error(Rcode::SERVFAIL), &query, transport)),
            Resolution::Elsewhere { records, name } => self.elsewhere(query, transport, records, name),
        }
    }

    fn elsewhere(&self, query: Query, transport: Transport, records: Vec<Record>, name: Name) -> Handled {
        // Whoever does not want others to be asked is told what is known here: the alias, or nothing.
        if !query.recursion_desired() {
            let rcode = if records.is_empty() { Rcode::REFUSED } else { Rcode::NOERROR };
            let reply = Reply { answers: records, ..Reply::error(rcode) };
            return Handled::Reply(self.write(reply, &query, transport));
        }
        let topic = Topic::new(&query, name);
        if let Some(cached) = self.forwarder.recall(&topic) {
            return Handled::Reply(self.write_cached(records, &cached, &query, transport));
        }
        if self.forwarder.comes_back(&topic.name) {
            return Handled::Reply(self.write(Reply::error(Rcode::REFUSED), &query, transport));
        }
        let Some(place) = Place::take(&self.waiting) else {
            self.counters.overload.add();
            return Handled::Reply(self.write(Reply::error(Rcode::SERVFAIL), &query, transport));
        };
        Handled::Later(Later { query, transport, records, topic, _place: place })
    }

    /// Asks others.
    pub(super) async fn finish(&self, later: Later) -> Vec<u8> {
        let cached = self.forwarder.ask(later.topic).await;
        self.write_cached(later.records, &cached, &later.query, later.transport)
    }

    fn write_cached(&self, before: Vec<Record>, cached: &Cached, query: &Query, transport: Transport) -> Vec<u8> {
        let reply = cached.reply.behind(before, cached.age);
        self.write(reply, query, transport)
    }

    fn write(&self, mut reply: Reply, query: &Query, transport: Transport) -> Vec<u8> {
        self.counters.answered(reply.rcode);
        if reply.answers.len() > 1 {
            // Questions for A and AAAA come in turns: a mere count would give each kind every other number.
            let turn = self.turn.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
            reply.rotate(usize::try_from(turn).unwrap_or(0));
        }
        let limit = match transport {
            Transport::Udp => query.udp_limit(),
            Transport::Tcp => u16::MAX.into(),
        };
        let message = reply.write(query, limit);
        // The flag TC is in the third byte.
        if message.get(2).is_some_and(|flags| flags & 2 != 0) {
            self.counters.truncated.add();
        }
        message
    }
}

/// One of the places to wait in.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(taken: &Arc<AtomicUsize>) -> Option<Self> {
        let place = Self(Arc::clone(taken));
        (taken.fetch_add(1, Ordering::Relaxed) < WAITING).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
