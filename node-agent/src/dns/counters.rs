use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use skep_agent_core::dns::{Rcode, Rtype};

const TYPES: [(&str, Option<Rtype>); 9] = [
    ("A", Some(Rtype::A)),
    ("AAAA", Some(Rtype::AAAA)),
    ("SRV", Some(Rtype::SRV)),
    ("PTR", Some(Rtype::PTR)),
    ("CNAME", Some(Rtype::CNAME)),
    ("TXT", Some(Rtype::TXT)),
    ("SOA", Some(Rtype::SOA)),
    ("HTTPS", Some(Rtype::HTTPS)),
    ("other", None),
];

const CODES: [(&str, Option<Rcode>); 7] = [
    ("NOERROR", Some(Rcode::NOERROR)),
    ("FORMERR", Some(Rcode::FORMERR)),
    ("SERVFAIL", Some(Rcode::SERVFAIL)),
    ("NXDOMAIN", Some(Rcode::NXDOMAIN)),
    ("NOTIMP", Some(Rcode::NOTIMP)),
    ("REFUSED", Some(Rcode::REFUSED)),
    ("other", None),
];

/// One count.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What was asked, and what was answered, since the agent started.
#[derive(Debug, Default)]
pub(super) struct Counters {
    types: [Counter; TYPES.len()],
    codes: [Counter; CODES.len()],
    /// Questions that came over TCP.
    pub(super) tcp: Counter,
    /// Messages that cannot be answered.
    pub(super) noise: Counter,
    /// Answers that were cut.
    pub(super) truncated: Counter,
    /// Answers of other servers that were still kept.
    pub(super) cache_hits: Counter,
    /// Questions to which none was.
    pub(super) cache_misses: Counter,
    /// Of these, those that were under way already.
    pub(super) shared: Counter,
    /// Messages to other servers.
    pub(super) upstream_queries: Counter,
    /// Of these, those that brought nothing in time.
    pub(super) upstream_timeouts: Counter,
    /// Of these, those that failed otherwise.
    pub(super) upstream_errors: Counter,
    /// Questions that no server answered.
    pub(super) upstream_failures: Counter,
    /// Questions that were too many.
    pub(super) overload: Counter,
}

/// [`Counters`] at a moment, by name.
pub(super) type Counts = BTreeMap<&'static str, u64>;

/// All counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DnsCounts {
    /// Questions by type.
    pub queries: Counts,
    /// Answers by code.
    pub answers: Counts,
    /// Questions that came over TCP.
    pub tcp_queries: u64,
    /// Messages that cannot be answered.
    pub noise: u64,
    /// Answers that were cut because they are too long for UDP.
    pub truncated: u64,
    /// Questions to which a kept answer of another server was given.
    pub cache_hits: u64,
    /// Questions to which there was none.
    pub cache_misses: u64,
    /// Of these, those that waited for the answer to an identical one.
    pub shared_queries: u64,
    /// Messages to other servers.
    pub upstream_queries: u64,
    /// Of these, those that were not answered in time.
    pub upstream_timeouts: u64,
    /// Of these, those that failed otherwise.
    pub upstream_errors: u64,
    /// Questions that no server answered.
    pub upstream_failures: u64,
    /// Questions that were refused because too many wait for other servers.
    pub overload: u64,
}

impl Counters {
    pub(super) fn asked(&self, rtype: Rtype) {
        let at = TYPES.iter().position(|&(_, known)| known == Some(rtype)).unwrap_or(TYPES.len() - 1);
        self.types[at].add();
    }

    pub(super) fn answered(&self, rcode: Rcode) {
        let at = CODES.iter().position(|&(_, known)| known == Some(rcode)).unwrap_or(CODES.len() - 1);
        self.codes[at].add();
    }

    pub(super) fn counts(&self) -> DnsCounts {
        let named = |names: &mut dyn Iterator<Item = &'static str>, counters: &[Counter]| {
            let pairs = names.zip(counters).map(|(name, counter)| (name, counter.get()));
            pairs.filter(|&(_, count)| count > 0).collect()
        };
        DnsCounts {
            queries: named(&mut TYPES.iter().map(|&(name, _)| name), &self.types),
            answers: named(&mut CODES.iter().map(|&(name, _)| name), &self.codes),
            tcp_queries: self.tcp.get(),
            noise: self.noise.get(),
            truncated: self.truncated.get(),
            cache_hits: self.cache_hits.get(),
            cache_misses: self.cache_misses.get(),
            shared_queries: self.shared.get(),
            upstream_queries: self.upstream_queries.get(),
            upstream_timeouts: self.upstream_timeouts.get(),
            upstream_errors: self.upstream_errors.get(),
            upstream_failures: self.upstream_failures.get(),
            overload: self.overload.get(),
        }
    }
}
