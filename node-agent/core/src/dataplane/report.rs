use std::net::IpAddr;

/// A backend that no EndpointSlice lists any more: sockets that are connected to it wait for nothing.
///
/// A pod that is terminating is still listed and keeps its connections; it is gone when its slice drops it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoneBackend {
    /// Its address.
    pub addr: IpAddr,
    /// Its port.
    pub port: u16,
    /// IP protocol number.
    pub proto: u8,
}

/// What this node answers to those who ask whether it has endpoints of a Service (`healthCheckNodePort`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// The port to answer at.
    pub port: u16,
    /// Namespace of the Service.
    pub namespace: String,
    /// Name of the Service.
    pub name: String,
    /// Endpoints on this node that are ready; with none of them the answer is "no" (503).
    pub local_endpoints: usize,
}
