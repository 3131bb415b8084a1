//! Service addresses and node ports: which to give, given what is taken.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::Value;

use super::status::Status;

/// The ranges that Service addresses come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceCidrs {
    /// Network and prefix length.
    pub v4: Option<(Ipv4Addr, u8)>,
    /// Network and prefix length.
    pub v6: Option<(Ipv6Addr, u8)>,
}

impl ServiceCidrs {
    /// From `10.96.0.0/16,fd53::/112`, at most one of each family.
    pub fn parse(text: &str) -> Result<Self, InvalidCidr> {
        Err(InvalidCidr(text.to_owned()))
    }
}

/// A Service range that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid service CIDR {0:?}: want one network of each address family at most")]
pub struct InvalidCidr(String);

/// What other Services hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Cluster addresses.
    pub addresses: std::collections::HashSet<std::net::IpAddr>,
    /// Node ports with their protocol.
    pub node_ports: std::collections::HashSet<(String, u16)>,
}

impl Taken {
    /// Adds what a stored Service holds.
    pub fn add(&mut self, service: &Value) {
        let _ = service;
    }
}

/// Fills in (or checks) addresses, families and node ports of a Service that `prepare_create` or `prepare_update`
/// made ready. `old` is the stored one on an update. `random` spreads the choice; equal inputs give equal answers.
///
/// Errors: 422 when an asked address is outside the ranges or taken; 500 when a range is exhausted.
pub fn allocate(
    service: &mut Value,
    old: Option<&Value>,
    cidrs: &ServiceCidrs,
    taken: &Taken,
    random: u64,
) -> Result<(), Status> {
    let _ = (service, old, cidrs, taken, random);
    Ok(())
}
