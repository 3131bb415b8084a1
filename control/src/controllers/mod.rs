//! The shell around the controllers and the scheduler: one stream of changes in, their writes executed through the API.
//!
//! What to do is decided in [`skep_control_core::controllers`]; here is only the doing.

mod driver;
mod execute;
mod feed;
mod notes;
#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::SignedDuration;
use skep_control_core::controllers::{self as core, Engine, Settings};
use skep_control_core::scheduler::Scheduler;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::api::Api;
use crate::cidr::{Cidr, DNS_ADDRESS};

/// What the controllers have to know of this cluster.
#[derive(Clone, Debug)]
pub struct ControllersConfig {
    /// Silence after which a node is not ready.
    pub node_monitor_grace: Duration,
    /// Longest stay of a pod on a node that is not ready.
    pub node_eviction: Duration,
    /// Ranges of Service addresses: the first address of one is that of the Service `kubernetes`, the tenth of each that of
    /// cluster DNS.
    pub service_cidrs: Vec<Cidr>,
    /// `HOST:PORT` of this API server for nodes and pods; a name is resolved once, at the start.
    pub advertise: String,
    /// The cluster's CA certificate, PEM.
    pub root_ca: String,
}

/// Starts the controllers and the scheduler. They end when `shutdown` becomes true.
#[must_use]
pub fn spawn(api: Api, config: ControllersConfig, shutdown: watch::Receiver<bool>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let settings = settings(&config).await;
        let seed = u64::from_le_bytes(uuid::Uuid::new_v4().as_bytes()[..8].try_into().unwrap_or_default());
        let engine = Engine::new(core::all(&settings), Scheduler::default(), seed);
        driver::run(api, engine, shutdown).await;
    })
}

async fn settings(config: &ControllersConfig) -> Settings {
    let advertise = match tokio::net::lookup_host(&config.advertise).await {
        Ok(mut addresses) => addresses.next(),
        Err(error) => {
            tracing::warn!(advertise = config.advertise, %error, "the Service kubernetes is not kept: no address");
            None
        }
    };
    let signed = |duration: Duration| SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    Settings {
        node_monitor_grace: signed(config.node_monitor_grace),
        node_eviction: signed(config.node_eviction),
        api_service_addresses: config.service_cidrs.iter().filter_map(|range| range.nth(1)).collect(),
        dns_addresses: config.service_cidrs.iter().filter_map(|range| range.nth(DNS_ADDRESS)).collect(),
        advertise,
        root_ca: config.root_ca.clone(),
    }
}
