//! From API objects to map contents.
//!
//! ```text
//!  stream ──► Event ──► Index::apply ┐                        ┌► Index::drain ──► [MapWrite]  (in a safe order)
//!  CNI    ──► LocalEndpoint ─────────┼─► Services, Policies ──┼► Index::routes                (for netlink)
//!  maps   ──► MapContents ───────────┘   Nodes                ├► announced, health_checks, take_gone_backends, ...
//!                                                             └► Index::names                 (for people)
//! ```
//!
//! [`Index`] is a synchronous fold. It keeps what the kernel holds ([`MapContents`]) beside what the objects ask for and
//! emits the difference, so that a restart that finds nothing changed writes nothing.

mod address;
mod capacity;
mod contents;
mod endpoint;
mod event;
mod identity;
mod index;
mod invalid;
mod names;
mod nodes;
mod object;
mod policies;
mod population;
mod pressure;
mod report;
#[cfg(test)]
mod samples;
mod selector;
mod services;
mod staged;
mod write;

pub use address::{Cidr, Family, abi_addr};
pub use capacity::Capacities;
pub use contents::{MapContents, MapCounts};
pub use endpoint::{HostPort, LocalEndpoint};
pub use event::{Change, Event};
pub use identity::identity_hash;
pub use index::Index;
pub use invalid::{Invalid, Problem};
pub use names::{BackendName, IdentityName, NameSource, Names, PodName, RuleListName, RuleName, ServiceName};
pub use object::{
    Endpoint, EndpointPort, EndpointSlice, IpBlock, Kind, Labels, Namespace, NetworkPolicy, NodeRoute, ObjectName,
    ObjectRef, PodPeer, PolicyPeer, PolicyPort, PolicyPorts, PolicyRule, Protocol, Service, ServiceKind, ServicePort,
    Workload,
};
pub use pressure::{MapFill, Pressure, Turn, can_run_full};
pub use report::{GoneBackend, HealthCheck};
pub use selector::{Requirement, Selector};
pub use write::{MapWrite, Write};
