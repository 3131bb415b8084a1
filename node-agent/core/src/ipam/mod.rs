//! Which pod has which addresses.
//!
//! ```text
//!            allocate            ready
//!  (nothing) ────────► Preparing ─────► Ready
//!      ▲                   │              │
//!      └──────release──────┴──────────────┘   the address goes to the end of its range's queue
//! ```
//!
//! [`Ipam`] is a value: the shell writes it to disk before an allocation has effects, so that after a crash everything
//! that may exist in the kernel is named in it.

mod pool;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use crate::dataplane::Cidr;
use pool::Pool;

/// Why no address could be given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IpamError {
    /// The node has not been told its ranges yet.
    #[error("the node has no pod address range yet: it has not been registered")]
    NoRange,
    /// Every address of a range is in use.
    #[error("no free address in {0}")]
    Exhausted(String),
    /// Two ranges of one family.
    #[error("two pod address ranges of one family: {0} and {1}")]
    SameFamily(String, String),
    /// Every endpoint number was given once.
    #[error("endpoint numbers are used up")]
    Endpoints,
}

/// How far an allocation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Progress {
    /// Interface, routes or map entries may or may not exist.
    Preparing,
    /// The pod uses it.
    Ready,
}

/// A port of a container that has a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedPort {
    /// Name of the port.
    pub name: String,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// Port number.
    pub port: u16,
}

/// A port of the node that leads to a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPort {
    /// The node's address that it is at; absent: every one.
    pub host_ip: Option<IpAddr>,
    /// Port of the node.
    pub host_port: u16,
    /// Port of the container.
    pub container_port: u16,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
}

/// The sandbox that asks for addresses, and the pod it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The runtime's id of the sandbox.
    pub container: String,
    /// Path of the sandbox's network namespace.
    pub netns: String,
    /// The pod's Namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The pod's UID.
    pub uid: String,
    /// The pod's labels when the sandbox was made.
    pub labels: BTreeMap<String, String>,
    /// The pod's named ports when the sandbox was made.
    pub named_ports: Vec<NamedPort>,
    /// The pod's host ports when the sandbox was made. Journals of earlier versions have none.
    #[serde(default)]
    pub host_ports: Vec<HostPort>,
}

/// Addresses in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    /// Who uses them.
    pub owner: Owner,
    /// Number of the endpoint: from 1, never given twice.
    pub endpoint: u32,
    /// IPv4 address, when the node has an IPv4 range.
    pub addr4: Option<Ipv4Addr>,
    /// IPv6 address, when the node has an IPv6 range.
    pub addr6: Option<Ipv6Addr>,
    /// How far it has come.
    pub progress: Progress,
    /// When it was made, seconds since the epoch.
    pub created: i64,
}

impl Allocation {
    /// The addresses, IPv4 first.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + use<> {
        self.addr4.map(IpAddr::V4).into_iter().chain(self.addr6.map(IpAddr::V6))
    }
}

/// The addresses of a node's pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ipam {
    pools: Vec<Pool>,
    allocations: BTreeMap<String, Allocation>,
    last_endpoint: u32,
}

impl Ipam {
    /// Sets the ranges that addresses are taken from, at most one a family. Allocations outside of them stay valid until
    /// they are released.
    ///
    /// # Errors
    /// [`IpamError::NoRange`] without a range, [`IpamError::SameFamily`] with two of one family; nothing is changed.
    pub fn set_ranges(&mut self, ranges: &[Cidr]) -> Result<(), IpamError> {
        let mut pools: Vec<Pool> = Vec::with_capacity(ranges.len());
        for range in ranges {
            if let Some(other) = pools.iter().find(|pool| pool.is_ipv4() == range.addr().is_ipv4()) {
                return Err(IpamError::SameFamily(other.range().to_owned(), range.to_string()));
            }
            let name = range.to_string();
            // A range that stays keeps its queue, and so the order of reuse.
            let kept = self.pools.iter().find(|pool| pool.range() == name).cloned();
            pools.push(kept.unwrap_or_else(|| Pool::new(range)));
        }
        if pools.is_empty() {
            return Err(IpamError::NoRange);
        }
        self.pools = pools;
        Ok(())
    }

    /// Whether [`Ipam::allocate`] has ranges to take from.
    #[must_use]
    pub fn has_ranges(&self) -> bool {
        !self.pools.is_empty()
    }

    /// One address of each family and an endpoint number for `owner`, in state [`Progress::Preparing`]. A container that
    /// has an allocation keeps it, with its owner's data renewed.
    ///
    /// # Errors
    /// [`IpamError`]; nothing is allocated then.
    pub fn allocate(&mut self, owner: Owner, now: jiff::Timestamp) -> Result<Allocation, IpamError> {
        if let Some(allocation) = self.allocations.get_mut(&owner.container) {
            allocation.owner = owner;
            allocation.progress = Progress::Preparing;
            return Ok(allocation.clone());
        }
        if self.pools.is_empty() {
            return Err(IpamError::NoRange);
        }
        let endpoint = self.last_endpoint.checked_add(1).ok_or(IpamError::Endpoints)?;
        let used: BTreeSet<IpAddr> = self.allocations.values().flat_map(Allocation::addresses).collect();
        // Into copies, so that a full second family gives the first one's address back.
        let mut pools = self.pools.clone();
        let (mut addr4, mut addr6) = (None, None);
        for pool in &mut pools {
            match pool.take(&used).ok_or_else(|| IpamError::Exhausted(pool.range().to_owned()))? {
                IpAddr::V4(addr) => addr4 = Some(addr),
                IpAddr::V6(addr) => addr6 = Some(addr),
            }
        }
        self.pools = pools;
        self.last_endpoint = endpoint;
        let allocation =
            Allocation { endpoint, addr4, addr6, progress: Progress::Preparing, created: now.as_second(), owner };
        self.allocations.insert(allocation.owner.container.clone(), allocation.clone());
        Ok(allocation)
    }

    /// The container's interface, routes and map entries are all there. Nothing happens when it has no allocation.
    pub fn ready(&mut self, container: &str) {
        if let Some(allocation) = self.allocations.get_mut(container) {
            allocation.progress = Progress::Ready;
        }
    }

    /// Gives the container's addresses back. They are reused after all others of their range.
    pub fn release(&mut self, container: &str) -> Option<Allocation> {
        let allocation = self.allocations.remove(container)?;
        for addr in allocation.addresses() {
            for pool in &mut self.pools {
                pool.give_back(addr);
            }
        }
        Some(allocation)
    }

    /// The allocation of a container.
    #[must_use]
    pub fn get(&self, container: &str) -> Option<&Allocation> {
        self.allocations.get(container)
    }

    /// All allocations, by container id.
    pub fn allocations(&self) -> impl Iterator<Item = &Allocation> {
        self.allocations.values()
    }

    /// Containers whose addresses leaked: the runtime holds no such sandbox (`live` has the ids of those it holds), and
    /// either its network namespace is gone or it is older than `grace_seconds`. A younger one may be a sandbox that is
    /// being made: the runtime asks for its network before it lists it.
    pub fn leaked(
        &self,
        live: &BTreeSet<String>,
        netns_exists: impl Fn(&str) -> bool,
        now: jiff::Timestamp,
        grace_seconds: i64,
    ) -> Vec<String> {
        let orphan = |allocation: &Allocation| {
            let age = now.as_second().saturating_sub(allocation.created);
            !live.contains(&allocation.owner.container)
                && (age >= grace_seconds || !netns_exists(&allocation.owner.netns))
        };
        self.allocations.values().filter(|&a| orphan(a)).map(|a| a.owner.container.clone()).collect()
    }
}
