//! The gRPC door: what node agents speak.
//!
//! ```text
//!                   store --one watch--> feed (task) --> boards: dataplane journal, one state a node
//!   DataplaneService.Watch, NodeService.WatchNode <--------- positions in them
//!   NodeService.{Register, Report*, RenewLease} ---> Api
//! ```
//!
//! Every event is decoded and projected once, whatever the number of nodes. Only the node that a certificate names may
//! ask for, and report about, that node.

mod authority;
mod dataplane;
mod failure;
mod feed;
mod node;
mod project;

use std::sync::Arc;
use std::time::Duration;

use skep_proto::node::v1::node_service_server::NodeServiceServer;
use tokio::sync::watch;
use tonic::service::Routes;

use crate::api::Api;
use crate::cidr::Cidr;

/// A stream without other news says this often how far it is.
const PROGRESS: Duration = Duration::from_secs(5);

/// What the gRPC services need to know of the cluster.
#[derive(Clone, Debug)]
pub struct GrpcConfig {
    /// Ranges that nodes get their pod addresses from, at most one of each family.
    pub cluster_cidrs: Vec<Cidr>,
    /// Ranges of Service addresses.
    pub service_cidrs: Vec<Cidr>,
    /// Domain of the cluster's names.
    pub cluster_domain: String,
    /// How long a node's Lease is valid, in seconds.
    pub lease_duration_seconds: u32,
    /// Becomes true when streams shall end, so that their connections can.
    pub shutdown: Option<watch::Receiver<bool>>,
}

impl GrpcConfig {
    /// As the API is configured.
    pub fn of(api: &Api) -> Self {
        let config = api.config();
        Self {
            cluster_cidrs: config.cluster_cidrs.clone(),
            service_cidrs: config.service_cidrs.clone(),
            cluster_domain: config.cluster_domain.clone(),
            lease_duration_seconds: config.lease_duration_seconds,
            shutdown: None,
        }
    }

    /// The same, with streams that end when `shutdown` becomes true.
    pub fn until(self, shutdown: watch::Receiver<bool>) -> Self {
        Self { shutdown: Some(shutdown), ..self }
    }
}

/// The services, to be merged into the server's routes. Requests must carry the authenticated
/// [`Caller`](crate::api::Caller) as an extension. Must be called inside of the runtime; the task behind the services
/// ends with them.
pub fn services(api: Api, config: GrpcConfig) -> Routes {
    let feed = Arc::new(feed::Feed::start(api.clone(), config.shutdown.clone()));
    let node = NodeServiceServer::new(node::NodeDoor::new(api, config, Arc::clone(&feed)));
    Routes::new(node).add_service(dataplane::DataplaneDoor::new(feed))
}

#[cfg(test)]
mod tests;
