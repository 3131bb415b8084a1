//! The served resources, one file each.

mod address_pool;
mod config_map;
mod deployment;
mod endpoint_slice;
mod endpoints;
mod event;
mod lease;
mod namespace;
mod network_policy;
mod node;
mod pod;
mod replica_set;
mod secret;
mod service;
mod service_account;

use super::resource::Registry;

pub use address_pool::{Reserved, overlaps};
pub(crate) use pod::POD;
pub(crate) use service::needs_health_check;

static REGISTRY: Registry = Registry::new(&[
    &config_map::CONFIG_MAP,
    &endpoints::ENDPOINTS,
    &event::EVENT,
    &namespace::NAMESPACE,
    &node::NODE,
    &pod::POD,
    &secret::SECRET,
    &service_account::SERVICE_ACCOUNT,
    &service::SERVICE,
    &deployment::DEPLOYMENT,
    &replica_set::REPLICA_SET,
    &lease::LEASE,
    &endpoint_slice::ENDPOINT_SLICE,
    &event::EVENTS_EVENT,
    &network_policy::NETWORK_POLICY,
    &address_pool::ADDRESS_POOL,
]);

/// Everything that this server serves.
pub fn registry() -> &'static Registry {
    &REGISTRY
}

#[cfg(test)]
mod tests;
