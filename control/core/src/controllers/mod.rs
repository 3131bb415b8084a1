//! Controllers: each compares what the API says should be with what is, and asks for writes.
//!
//! Every controller has the same shape ([`Controller`]): keys that a change concerns, and `reconcile(key, &Index, turn) -> Outcome`.
//! [`Engine`] owns the index and the queues; the shell feeds it watch events, executes its [`Work`] and reports back.

mod action;
mod address_pool;
mod api_service;
mod deployment;
mod dns_service;
mod endpoints;
mod engine;
mod garbage;
mod heartbeat;
mod index;
mod kind;
mod load_balancer;
mod namespace;
pub(crate) mod naming;
pub(crate) mod node;
mod object;
mod owner;
pub(crate) mod pods;
mod queue;
mod recorder;
mod replica_set;
pub(crate) mod selector;
pub(crate) mod time;

#[cfg(test)]
mod simulation;
#[cfg(test)]
pub(crate) mod testing;

use std::net::SocketAddr;

use jiff::SignedDuration;

pub use action::{Action, Note, Outcome, Propagation, Severity, Write, reference_to};
pub use address_pool::{AddressPool, AddressPoolCount, AddressPoolSpec, AddressPoolStatus};
pub use engine::{Controller, Engine, Report, Ticket, Turn, Work};
pub use index::{Change, Index, Touched, node_of};
pub use kind::{Key, Kind};
pub use object::{Object, Typed, key_of};
pub use owner::controller_of;
pub use queue::Queue;
pub use recorder::Recorder;

/// What the controllers have to know of this cluster.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A node that was not heard of for this long becomes Unknown.
    pub node_monitor_grace: SignedDuration,
    /// Pods that tolerate a lost node for longer are evicted after this long all the same.
    pub node_eviction: SignedDuration,
    /// First address of each Service range, in order: the addresses of the Service `kubernetes`.
    pub api_service_addresses: Vec<std::net::IpAddr>,
    /// Tenth address of each Service range, in order: the addresses of the Service `kube-dns`.
    pub dns_addresses: Vec<std::net::IpAddr>,
    /// Where nodes and pods reach the API server; `None` leaves the Service `kubernetes` alone.
    pub advertise: Option<SocketAddr>,
    /// The cluster's CA certificate, PEM, published as `kube-root-ca.crt` in every namespace.
    pub root_ca: String,
}

/// Every controller.
#[must_use]
pub fn all(settings: &Settings) -> Vec<Box<dyn Controller>> {
    let mut controllers: Vec<Box<dyn Controller>> = vec![
        Box::new(namespace::Namespaces::new(settings)),
        Box::new(node::Lifecycle::new(settings)),
        Box::new(node::PodCollector),
        Box::new(deployment::Deployments),
        Box::new(replica_set::ReplicaSets),
        Box::new(endpoints::EndpointSlices),
        Box::new(endpoints::LegacyEndpoints),
        Box::new(load_balancer::LoadBalancers),
        Box::new(dns_service::DnsService::new(settings)),
        Box::new(garbage::GarbageCollector),
    ];
    if let Some(advertise) = settings.advertise {
        controllers.push(Box::new(api_service::ApiService::new(settings, advertise)));
    }
    controllers
}
