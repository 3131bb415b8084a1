use std::net::IpAddr;
use std::sync::Arc;

use skep_proto::dataplane::v1 as proto;

use super::Name;

/// What an event of the dataplane stream means for names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A full snapshot begins.
    SnapshotBegin,
    /// The state is complete.
    Synced,
    /// A Service was created or changed.
    Service(Service),
    /// An `EndpointSlice` was created or changed.
    Slice(Slice),
    /// A Namespace was created or changed.
    Namespace(Key),
    /// An object is gone.
    Deleted(Kind, Key),
    /// An object is there, but could not be read: what was known of it stays.
    Kept(Kind, Key),
}

/// Kinds of objects that have to do with names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Service.
    Service,
    /// `EndpointSlice`.
    Slice,
    /// Namespace.
    Namespace,
}

/// `NAMESPACE/NAME`, or the name of a Namespace.
pub(super) type Key = Arc<str>;

/// What is kept of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub(super) key: Key,
    pub(super) kind: ServiceKind,
    pub(super) ports: Box<[Port]>,
    pub(super) publish_not_ready: bool,
}

/// What a Service's own name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ServiceKind {
    /// These addresses.
    ClusterIp(Box<[IpAddr]>),
    /// The addresses of its endpoints.
    Headless,
    /// Another name.
    ExternalName(Name),
}

/// A port of a Service or of an `EndpointSlice`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Port {
    /// "" for none.
    pub(super) name: Box<str>,
    /// As in names: `tcp`.
    pub(super) protocol: &'static str,
    pub(super) number: u16,
}

/// What is kept of an `EndpointSlice`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    pub(super) key: Key,
    /// The Service that it belongs to.
    pub(super) service: Key,
    pub(super) endpoints: Box<[Endpoint]>,
    pub(super) ports: Box<[Port]>,
}

/// One address of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) address: IpAddr,
    pub(super) hostname: Option<Box<str>>,
    pub(super) ready: bool,
}

/// An object that says what cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind:?} {key}: {field} {value:?} {rule}")]
pub struct Refused {
    kind: Kind,
    key: Key,
    field: &'static str,
    value: String,
    rule: &'static str,
}

impl Refused {
    /// What follows for the zone.
    #[must_use]
    pub fn change(&self) -> Change {
        Change::Kept(self.kind, Arc::clone(&self.key))
    }
}

impl Change {
    /// Reads an event; `None` when it does not concern names.
    ///
    /// # Errors
    /// [`Refused`]: give [`Refused::change`] to the zone, and go on.
    pub fn read(event: &proto::WatchEvent) -> Result<Option<Self>, Refused> {
        use proto::watch_event::Event as Wire;
        let Some(event) = &event.event else { return Ok(None) };
        Ok(Some(match event {
            Wire::SnapshotBegin(_) => Self::SnapshotBegin,
            Wire::Synced(_) => Self::Synced,
            Wire::Service(service) => Self::Service(read_service(service)?),
            Wire::EndpointSlice(slice) => Self::Slice(read_slice(slice)?),
            Wire::Namespace(namespace) => Self::Namespace(namespace.name.as_str().into()),
            Wire::Deleted(deleted) => match deleted.kind() {
                proto::Kind::Service => Self::Deleted(Kind::Service, key(&deleted.namespace, &deleted.name)),
                proto::Kind::EndpointSlice => Self::Deleted(Kind::Slice, key(&deleted.namespace, &deleted.name)),
                proto::Kind::Namespace => Self::Deleted(Kind::Namespace, deleted.name.as_str().into()),
                _ => return Ok(None),
            },
            _ => return Ok(None),
        }))
    }
}

/// See [`Key`].
fn key(namespace: &str, name: &str) -> Key {
    format!("{namespace}/{name}").into()
}

/// Makes a [`Refused`] of an object.
struct Fault {
    kind: Kind,
    key: Key,
}

impl Fault {
    fn of(&self, field: &'static str, value: &str, rule: &'static str) -> Refused {
        Refused { kind: self.kind, key: Arc::clone(&self.key), field, value: value.to_owned(), rule }
    }

    fn label(&self, field: &'static str, text: &str) -> Result<(), Refused> {
        let fits = (1..=63).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        if fits { Ok(()) } else { Err(self.of(field, text, "must be a DNS label in lower case")) }
    }

    fn address(&self, field: &'static str, text: &str) -> Result<IpAddr, Refused> {
        text.parse().map_err(|_| self.of(field, text, "must be an IP address"))
    }

    fn port(
        &self,
        name: &str,
        protocol: Result<proto::Protocol, prost::UnknownEnumValue>,
        number: u32,
    ) -> Result<Port, Refused> {
        let protocol = match protocol {
            Ok(proto::Protocol::Tcp) => "tcp",
            Ok(proto::Protocol::Udp) => "udp",
            Ok(proto::Protocol::Sctp) => "sctp",
            Ok(proto::Protocol::Unspecified) | Err(_) => {
                return Err(self.of("ports.protocol", name, "must be TCP, UDP or SCTP"));
            }
        };
        let number = u16::try_from(number)
            .ok()
            .filter(|&number| number > 0)
            .ok_or_else(|| self.of("ports.port", &number.to_string(), "must be in 1-65535"))?;
        Ok(Port { name: name.into(), protocol, number })
    }
}

fn read_service(wire: &proto::Service) -> Result<Service, Refused> {
    let fault = Fault { kind: Kind::Service, key: key(&wire.namespace, &wire.name) };
    fault.label("metadata.namespace", &wire.namespace)?;
    fault.label("metadata.name", &wire.name)?;
    let kind = if wire.r#type() == proto::ServiceType::ExternalName {
        let text = &wire.external_name;
        let name = Name::bytes_from_str(text).ok().filter(|name| !name.is_root());
        ServiceKind::ExternalName(name.ok_or_else(|| fault.of("spec.externalName", text, "must be a DNS name"))?)
    } else if wire.headless {
        ServiceKind::Headless
    } else {
        let addresses = wire.cluster_ips.iter().map(|text| fault.address("spec.clusterIPs", text));
        ServiceKind::ClusterIp(addresses.collect::<Result<_, _>>()?)
    };
    let ports =
        wire.ports.iter().map(|port| fault.port(&port.name, proto::Protocol::try_from(port.protocol), port.port));
    let ports = ports.collect::<Result<_, _>>()?;
    Ok(Service { key: fault.key, kind, ports, publish_not_ready: wire.publish_not_ready_addresses })
}

fn read_slice(wire: &proto::EndpointSlice) -> Result<Slice, Refused> {
    let fault = Fault { kind: Kind::Slice, key: key(&wire.namespace, &wire.name) };
    let mut endpoints = Vec::with_capacity(wire.endpoints.len());
    for endpoint in &wire.endpoints {
        let hostname = Some(endpoint.hostname.as_str()).filter(|hostname| !hostname.is_empty());
        if let Some(hostname) = hostname {
            fault.label("endpoints.hostname", hostname)?;
        }
        for text in &endpoint.addresses {
            let address = fault.address("endpoints.addresses", text)?;
            endpoints.push(Endpoint { address, hostname: hostname.map(Into::into), ready: endpoint.ready });
        }
    }
    // A port of number 0 stands for every port, which names cannot say.
    let ports = wire.ports.iter().filter(|port| port.port > 0);
    let ports = ports.map(|port| fault.port(&port.name, proto::Protocol::try_from(port.protocol), port.port));
    let ports = ports.collect::<Result<_, _>>()?;
    let service = key(&wire.namespace, &wire.service);
    Ok(Slice { key: fault.key, service, endpoints: endpoints.into(), ports })
}
