//! The API in this process: what REST, gRPC, the controllers and the scheduler all go through.
//!
//! ```text
//! create/update/patch/delete --prepare (skep_control_core::api)--> Txn{compares, ops} --> store
//!                                       ^ read again                        | conflict
//!                                       +-----------------------------------+
//! ```
//!
//! An object is stored as JSON under `/registry/STORAGE/[NAMESPACE/]NAME`, without its resourceVersion: that is the
//! revision at which the store wrote it, and [`Object`] puts it in by splicing bytes.

mod addresses;
mod caller;
mod delete;
mod event_ttl;
mod failure;
mod key;
mod list;
mod object;
mod patch;
mod pools;
mod read;
mod start;
mod typed;
mod watch;
mod write;

use std::sync::Arc;

use skep_control_core::api::service_ip::NodePorts;
use skep_store::Store;

pub use caller::Caller;
pub use delete::Deleted;
pub use key::ResourceRef;
pub use list::{At, List, ListOptions};
pub use object::Object;
pub use skep_control_core::api::{DeleteOptions, FieldValidation, PatchType, Reason, Resource, Status, Subresource};
pub use typed::ApiObject;
pub use watch::{Watch, WatchEvent, WatchItem, WatchKind};
pub use write::WriteOptions;

use crate::Backend;
use crate::cidr::Cidr;

/// What the API needs to know of the cluster.
#[derive(Clone, Debug)]
pub struct ApiConfig {
    /// Ranges of Service addresses, the default family first.
    pub service_cidrs: Vec<Cidr>,
    /// Ranges that nodes get their pod addresses from.
    pub cluster_cidrs: Vec<Cidr>,
    /// Ports that nodes listen on for Services.
    pub node_ports: NodePorts,
    /// Domain of the cluster's names, without dots at its ends.
    pub cluster_domain: String,
    /// How long a node's Lease is valid.
    pub lease_duration_seconds: u32,
}

/// The API. Clones share everything.
#[derive(Clone)]
pub struct Api {
    inner: Arc<Inner>,
}

struct Inner {
    store: Backend,
    config: ApiConfig,
    addresses: addresses::Addresses,
    event_ttl: event_ttl::EventTtl,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").field("revision", &self.revision()).finish_non_exhaustive()
    }
}

impl Api {
    /// Opens the API over a store: learns which Service addresses are taken, and makes the namespaces that every
    /// cluster has.
    pub async fn start(store: Backend, config: ApiConfig) -> Result<Self, Status> {
        let addresses = addresses::Addresses::load(&store, &config.service_cidrs, config.node_ports).await?;
        let inner = Inner { store, config, addresses, event_ttl: event_ttl::EventTtl::default() };
        let api = Self { inner: Arc::new(inner) };
        api.make_first_objects().await?;
        Ok(api)
    }

    /// The revision of the last write.
    pub fn revision(&self) -> u64 {
        self.inner.store.revision()
    }

    /// The cluster's settings.
    pub fn config(&self) -> &ApiConfig {
        &self.inner.config
    }

    /// The store below, for keys that are no objects (`/registry/ranges/...`).
    pub fn store(&self) -> &Backend {
        &self.inner.store
    }
}

#[cfg(test)]
mod tests;
