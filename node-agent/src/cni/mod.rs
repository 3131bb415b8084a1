//! Gives pods their network, when the container runtime asks for it.
//!
//! ```text
//! runtime ──► skep-cni ──► Server ──► Endpoints ──┬─► Journal (addresses; on disk before anything else)
//!                                                 ├─► netlink (interface pair, addresses, routes)
//!                                                 └─► Dataplane (map entries, programs)
//! ```
//!
//! An ADD is answered when packets of the pod pass and obey every policy. A crash in the midst of it leaves an allocation
//! in state `Preparing`, which the next start undoes.

mod cleanup;
mod endpoints;
mod install;
mod journal;
mod plumbing;
mod server;

pub use cleanup::{collect_missed_deletes, keep_clean};
pub use endpoints::{Adopted, CniError, Endpoints, PodFacts, PodLookup};
pub use install::{InstallError, install_configuration, install_plugin};
pub use journal::{Journal, JournalError};
pub use plumbing::{HOST_PREFIX, NodeNetwork, PlumbingError};
pub use server::serve;
