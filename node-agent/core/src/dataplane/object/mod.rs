//! The objects that the dataplane obeys, as the stream projects them. Each is read from its message beside its type.

mod policy;
mod route;
mod service;
mod workload;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use skep_proto::dataplane::v1 as proto;

pub use policy::{IpBlock, NetworkPolicy, PodPeer, PolicyPeer, PolicyPort, PolicyPorts, PolicyRule};
pub use route::NodeRoute;
pub use service::{Endpoint, EndpointPort, EndpointSlice, Service, ServiceKind, ServicePort};
pub use workload::{Namespace, Workload};

use super::Problem;
use super::invalid::Fault;

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// Namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    /// Namespace; "" for a kind that has none.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ObjectName {
    /// `namespace/name`.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() { f.write_str(&self.name) } else { write!(f, "{}/{}", self.namespace, self.name) }
    }
}

/// Kind of an object on the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// [`Service`].
    Service,
    /// [`EndpointSlice`].
    EndpointSlice,
    /// [`NetworkPolicy`].
    NetworkPolicy,
    /// [`Workload`].
    Workload,
    /// [`Namespace`].
    Namespace,
    /// [`NodeRoute`].
    NodeRoute,
}

impl Kind {
    /// The kind's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::EndpointSlice => "EndpointSlice",
            Self::NetworkPolicy => "NetworkPolicy",
            Self::Workload => "Workload",
            Self::Namespace => "Namespace",
            Self::NodeRoute => "NodeRoute",
        }
    }

    pub(crate) fn from_wire(wire: i32) -> Result<Self, Problem> {
        match proto::Kind::try_from(wire) {
            Ok(proto::Kind::Service) => Ok(Self::Service),
            Ok(proto::Kind::EndpointSlice) => Ok(Self::EndpointSlice),
            Ok(proto::Kind::NetworkPolicy) => Ok(Self::NetworkPolicy),
            Ok(proto::Kind::Workload) => Ok(Self::Workload),
            Ok(proto::Kind::Namespace) => Ok(Self::Namespace),
            Ok(proto::Kind::NodeRoute) => Ok(Self::NodeRoute),
            Ok(proto::Kind::Unspecified) | Err(_) => Err(Problem::Kind(wire)),
        }
    }
}

/// Names one object on the stream. `kind` is absent when the message itself did not tell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// Kind.
    pub kind: Option<Kind>,
    /// Namespace and name.
    pub name: ObjectName,
}

impl ObjectRef {
    /// Names an object.
    #[must_use]
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        Self { kind: Some(kind), name: ObjectName::new(namespace, name) }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.map_or("event", Kind::name), self.name)
    }
}

/// Transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// IP protocol number.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }

    /// The name that the Kubernetes API has for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }

    /// Reads a protocol; unspecified is TCP, as everywhere in the Kubernetes API.
    pub(crate) fn from_wire(wire: i32) -> Result<Self, Fault> {
        match proto::Protocol::try_from(wire) {
            Ok(proto::Protocol::Unspecified | proto::Protocol::Tcp) => Ok(Self::Tcp),
            Ok(proto::Protocol::Udp) => Ok(Self::Udp),
            Ok(proto::Protocol::Sctp) => Ok(Self::Sctp),
            Err(_) => Err(Fault::new("protocol", Problem::Protocol(wire))),
        }
    }
}

/// A port number from 1 to 65535.
pub(crate) fn port(field: &str, wire: u32) -> Result<u16, Fault> {
    u16::try_from(wire).ok().filter(|port| *port != 0).ok_or_else(|| Fault::new(field, Problem::Port(wire)))
}

/// An address; an IPv4-mapped one is the IPv4 address.
pub(crate) fn address(wire: &str) -> Result<IpAddr, Fault> {
    let addr: IpAddr = wire.parse().map_err(|_| Fault::new("", Problem::Address(wire.to_owned())))?;
    Ok(addr.to_canonical())
}

/// A text that must not be empty.
pub(crate) fn required(field: &str, wire: String) -> Result<String, Fault> {
    if wire.is_empty() { Err(Fault::new(field, Problem::Missing)) } else { Ok(wire) }
}
