//! The node agent: turns streams, netlink, CRI, maps and files into events for the pure core, and its commands into
//! effects.

pub mod node_api;
pub mod pods;
