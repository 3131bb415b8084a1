//! Cluster DNS: what names of the cluster mean, and what is known of other names. Pure; the shell listens, asks other
//! servers and passes the time in.
//!
//! ```text
//! dataplane stream ─► Change ─► Zone ──┐
//!                     query ─► Query ──┼─► Resolution ─► reply, or a question to the node's name servers
//!             other servers ─► Reply ─► Cache ──────────► reply
//! ```
//!
//! Records follow "Kubernetes DNS-Based Service Discovery" 1.1.0 (docs/specification.md of kubernetes/dns). Where it says
//! nothing, the kubernetes plugin of `CoreDNS` as kubeadm configures it is followed, and each such place says so.

mod cache;
mod change;
mod domain;
mod message;
mod place;
mod reply;
mod resolv_conf;
mod resolve;
mod reverse;
mod search;
mod topic;
mod zone;

pub use cache::{Cache, Cached};
pub use change::{Change, Kind, Refused};
pub use domain::{Domain, DomainError};
pub use message::{Edns, Query, Request, SMALLEST_UDP, read};
pub use place::Origin;
pub use reply::{BadReply, Reply};
pub use resolv_conf::ResolvConf;
pub use resolve::{Resolution, TTL};
pub use reverse::address_of;
pub use search::{NDOTS, candidates};
pub use topic::Topic;
pub use zone::Zone;

/// Code of a reply; see [`Reply::rcode`].
pub use ::domain::base::iana::Rcode;
/// Type of a record.
pub use ::domain::base::iana::Rtype;

/// A fully qualified name. Compares without regard to case, and keeps it.
pub type Name = ::domain::base::Name<bytes::Bytes>;
/// What a record says.
pub type Data = ::domain::rdata::ZoneRecordData<bytes::Bytes, Name>;
/// A record.
pub type Record = ::domain::base::Record<Name, Data>;

#[cfg(test)]
mod tests;
