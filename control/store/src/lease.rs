//! Leases: which keys live with them, and when they run out. Pure: the time is an argument.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::model::LeaseId;

#[derive(Debug, Default)]
struct Lease {
    ttl: u32,
    keys: BTreeSet<Bytes>,
}

/// Every lease with its keys. Part of the replicated state; says nothing about time.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    leases: BTreeMap<LeaseId, Lease>,
}

impl Leases {
    /// Adds a lease of `ttl` seconds. False if the number is taken or 0.
    pub(crate) fn grant(&mut self, id: LeaseId, ttl: u32) -> bool {
        if id == 0 || self.leases.contains_key(&id) {
            return false;
        }
        self.leases.insert(id, Lease { ttl, keys: BTreeSet::new() });
        true
    }

    /// Removes a lease and gives its keys.
    pub(crate) fn remove(&mut self, id: LeaseId) -> Option<BTreeSet<Bytes>> {
        self.leases.remove(&id).map(|lease| lease.keys)
    }

    /// Whether the lease exists.
    pub(crate) fn contains(&self, id: LeaseId) -> bool {
        self.leases.contains_key(&id)
    }

    /// Seconds of the lease.
    pub(crate) fn ttl(&self, id: LeaseId) -> Option<u32> {
        self.leases.get(&id).map(|lease| lease.ttl)
    }

    /// Every lease with its seconds.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (LeaseId, u32)> {
        self.leases.iter().map(|(id, lease)| (*id, lease.ttl))
    }

    /// Ties a key to a lease; nothing if the lease is 0.
    pub(crate) fn attach(&mut self, id: LeaseId, key: Bytes) {
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.keys.insert(key);
        }
    }

    /// Unties a key from a lease.
    pub(crate) fn detach(&mut self, id: LeaseId, key: &[u8]) {
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.keys.remove(key);
        }
    }
}

/// When leases run out. Not durable: after a restart every lease starts anew with its full time, as in etcd, because
/// nobody could renew it meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    by_time: BTreeSet<(Instant, LeaseId)>,
    by_lease: HashMap<LeaseId, Instant>,
}

impl Deadlines {
    /// Starts or restarts a lease's time.
    pub(crate) fn set(&mut self, id: LeaseId, ttl: u32, now: Instant) {
        self.remove(id);
        let at = now + Duration::from_secs(u64::from(ttl));
        self.by_time.insert((at, id));
        self.by_lease.insert(id, at);
    }

    /// Forgets a lease.
    pub(crate) fn remove(&mut self, id: LeaseId) {
        if let Some(at) = self.by_lease.remove(&id) {
            self.by_time.remove(&(at, id));
        }
    }

    /// When the next lease runs out.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Takes the leases that have run out.
    pub(crate) fn expired(&mut self, now: Instant) -> Vec<LeaseId> {
        let mut expired = Vec::new();
        while let Some(&(at, id)) = self.by_time.first().filter(|(at, _)| *at <= now) {
            self.by_time.remove(&(at, id));
            self.by_lease.remove(&id);
            expired.push(id);
        }
        expired
    }
}

/// Changes of leases that must be durable: `Some` seconds for a grant, `None` for an end.
pub(crate) type LeaseChanges = BTreeMap<LeaseId, Option<u32>>;
