use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::base::iana::Rcode;

use super::{Reply, Topic};

/// The longest that an answer is kept.
const LONGEST: Duration = Duration::from_secs(3600);
/// The longest that an absence is kept (RFC 2308, 5 has 1 to 3 hours; new names should be seen sooner).
const LONGEST_ABSENCE: Duration = Duration::from_secs(300);
/// How long is kept that nobody could answer (RFC 9520, 3.2: at least 1 s).
const FAILURE: Duration = Duration::from_secs(1);

/// What other servers answered, for as long as they allow.
///
/// When it is full, the entry that would end soonest goes.
#[derive(Debug)]
pub struct Cache {
    entries: HashMap<Topic, Entry>,
    /// By end, and a number that makes the ends different.
    ends: BTreeMap<(Instant, u64), Topic>,
    next: u64,
    capacity: usize,
}

#[derive(Debug)]
struct Entry {
    reply: Arc<Reply>,
    since: Instant,
    end: (Instant, u64),
}

/// A kept answer.
#[derive(Clone, Debug)]
pub struct Cached {
    /// The answer as it came.
    pub reply: Arc<Reply>,
    /// How long ago it came, seconds.
    pub age: u32,
}

impl Cache {
    /// An empty cache of at most so many answers.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { entries: HashMap::new(), ends: BTreeMap::new(), next: 0, capacity }
    }

    /// How many answers it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The answer, when one is kept.
    #[must_use]
    pub fn get(&self, topic: &Topic, now: Instant) -> Option<Cached> {
        let entry = self.entries.get(topic).filter(|entry| now < entry.end.0)?;
        let age = now.saturating_duration_since(entry.since).as_secs();
        Some(Cached { reply: Arc::clone(&entry.reply), age: u32::try_from(age).unwrap_or(u32::MAX) })
    }

    /// Keeps an answer, as far as it allows.
    pub fn insert(&mut self, topic: Topic, reply: Arc<Reply>, now: Instant) {
        self.remove(&topic);
        let Some(lifetime) = lifetime(&reply).filter(|_| self.capacity > 0) else { return };
        self.expire(now);
        while self.entries.len() >= self.capacity {
            let Some((_, soonest)) = self.ends.pop_first() else { break };
            self.entries.remove(&soonest);
        }
        let end = (now + lifetime, self.next);
        self.next += 1;
        self.ends.insert(end, topic.clone());
        self.entries.insert(topic, Entry { reply, since: now, end });
    }

    /// Forgets everything: other servers answer now.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.ends.clear();
    }

    fn expire(&mut self, now: Instant) {
        while let Some(first) = self.ends.first_entry().filter(|first| first.key().0 <= now) {
            self.entries.remove(&first.remove());
        }
    }

    fn remove(&mut self, topic: &Topic) {
        if let Some(entry) = self.entries.remove(topic) {
            self.ends.remove(&entry.end);
        }
    }
}

fn lifetime(reply: &Reply) -> Option<Duration> {
    let allowed = reply.lifetime().map(|seconds| Duration::from_secs(seconds.into()));
    let lifetime = match reply.rcode {
        Rcode::NOERROR if !reply.answers.is_empty() => allowed?.min(LONGEST),
        Rcode::NOERROR | Rcode::NXDOMAIN => allowed?.min(LONGEST_ABSENCE),
        _ => FAILURE,
    };
    (!lifetime.is_zero()).then_some(lifetime)
}
