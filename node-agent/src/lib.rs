//! The node agent: turns streams, netlink, CRI, maps and files into events for the pure core, and its commands into
//! effects.

pub mod agent;
pub mod cni;
pub mod config;
pub mod dataplane;
pub mod dns;
pub mod health_check;
mod http_server;
pub mod local_api;
pub mod memory;
pub mod metrics;
pub mod netlink;
pub mod node_api;
pub mod node_server;
pub mod node_status;
pub mod pods;
pub mod sockets;
pub mod stale_sockets;
pub mod tls;
pub mod uplink;
pub mod upstream;
