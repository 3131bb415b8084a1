//! What the CNI plugin and the node agent say to each other: one JSON line each way over the agent's Unix socket.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// CNI error code: an environment variable is missing or bad (CNI specification, "Error").
pub const INVALID_ENVIRONMENT: u32 = 4;
/// CNI error code: what was sent could not be decoded.
pub const UNDECODABLE: u32 = 6;
/// CNI error code: the network configuration is invalid.
pub const INVALID_CONFIG: u32 = 7;
/// CNI error code: a passing condition, worth another try.
pub const TRY_AGAIN: u32 = 11;
/// CNI error code of this plugin's own: the agent could not do it.
pub const FAILED: u32 = 100;

/// What a pod takes for its IPv4 gateway; a permanent neighbour entry of the pod answers for it.
pub const GATEWAY4: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);
/// What a pod takes for its IPv6 gateway; a permanent neighbour entry of the pod answers for it.
pub const GATEWAY6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

/// Directory below the agent's state directory with the DEL requests that the agent was not there to hear, one file a
/// container.
pub const MISSED_DELETES: &str = "cni-missed-deletes";

/// What the runtime asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Give the sandbox a network.
    Add,
    /// Take it away; done when it is not there.
    Del,
    /// Is it as it was made?
    Check,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// What is asked.
    pub command: Command,
    /// The runtime's id of the sandbox.
    pub container: String,
    /// Path of the network namespace; may be empty for [`Command::Del`].
    pub netns: String,
    /// Name that the interface has in the namespace.
    pub ifname: String,
    /// Namespace of the pod, "" when the runtime did not say.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// UID of the pod.
    pub uid: String,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {
    /// To [`Command::Add`].
    Added(Added),
    /// To [`Command::Del`] and [`Command::Check`].
    Done,
    /// It was not done.
    Failed(Failure),
}

/// The network that a sandbox was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    /// Name of the interface on the node's side.
    pub host_ifname: String,
    /// MAC address of that interface, in colon form.
    pub host_mac: String,
    /// MAC address of the interface in the sandbox, in colon form.
    pub mac: String,
    /// Addresses, IPv4 first.
    pub addresses: Vec<IpAddr>,
    /// MTU of both sides, bytes.
    pub mtu: u32,
}

/// Why it was not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// A CNI error code.
    pub code: u32,
    /// For people.
    pub message: String,
}
