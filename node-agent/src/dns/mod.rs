//! Serves cluster DNS: every node answers the questions of its own pods, from memory.
//!
//! ```text
//! registration, flags, file ─► settings ─┬─► pods' resolv.conf
//!                                        └─► keeper ─► interface skep-dns, sockets
//! dataplane driver ─► Feed ─► Zone ─┐
//! clients ─► server ─► Responder ◄──┴─► Forwarder (cache) ─► the node's name servers
//! ```
//!
//! It has threads of its own: an answer never waits for a pod that is being started.

mod args;
mod counters;
mod exchange;
mod explain;
mod feed;
mod forwarder;
mod interface;
mod keeper;
mod responder;
mod server;
mod servers;
mod settings;

pub use args::{DnsArgs, PORT};
pub use counters::DnsCounts;
pub use explain::{Explanation, Lookup, LookupError, Outcome, ShownRecord, Step};
pub use feed::{Feed, SharedZone};
pub use forwarder::Patience;
pub use interface::INTERFACE;
pub use keeper::{Dns, DnsStatus, Place};
pub use settings::{ClusterDns, Settings, SettingsKeeper, SettingsWatch, settled};
