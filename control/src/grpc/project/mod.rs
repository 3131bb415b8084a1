//! What the dataplane needs to know of an object. Pure.
//!
//! Each projection is of exactly one object, and is `None` when the object means nothing to the dataplane.

mod endpoint_slice;
mod namespace;
mod network_policy;
mod node;
mod pod;
mod service;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{Namespace, Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use skep_proto::dataplane::v1::watch_event::Event;
use skep_proto::dataplane::v1::{Kind, Protocol};

pub(super) use pod::workload;

/// An API type that is projected by itself.
pub(super) trait Project: serde::de::DeserializeOwned {
    /// Its kind on the dataplane's stream.
    const KIND: Kind;

    /// The projection.
    fn project(&self) -> Option<Event>;
}

impl Project for Service {
    const KIND: Kind = Kind::Service;

    fn project(&self) -> Option<Event> {
        service::project(self).map(Event::Service)
    }
}

impl Project for EndpointSlice {
    const KIND: Kind = Kind::EndpointSlice;

    fn project(&self) -> Option<Event> {
        endpoint_slice::project(self).map(Event::EndpointSlice)
    }
}

impl Project for NetworkPolicy {
    const KIND: Kind = Kind::NetworkPolicy;

    fn project(&self) -> Option<Event> {
        Some(Event::NetworkPolicy(network_policy::project(self)))
    }
}

impl Project for Namespace {
    const KIND: Kind = Kind::Namespace;

    fn project(&self) -> Option<Event> {
        Some(Event::Namespace(namespace::project(self)))
    }
}

impl Project for Node {
    const KIND: Kind = Kind::NodeRoute;

    fn project(&self) -> Option<Event> {
        node::project(self).map(Event::NodeRoute)
    }
}

/// A protocol as the API writes it; absent is TCP.
fn protocol(name: Option<&str>) -> Protocol {
    match name {
        None | Some("" | "TCP") => Protocol::Tcp,
        Some("UDP") => Protocol::Udp,
        Some("SCTP") => Protocol::Sctp,
        Some(_) => Protocol::Unspecified,
    }
}

/// A port as the wire has it; the API has checked that it is one.
fn port(number: i32) -> u32 {
    u32::try_from(number).unwrap_or_default()
}

/// The labels of an object.
fn labels(
    metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
) -> std::collections::HashMap<String, String> {
    metadata.labels.iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect()
}
