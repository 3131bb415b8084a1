use std::net::IpAddr;

use super::change::{Endpoint, Service, ServiceKind};
use super::reverse::{address_of, undashed};
use super::zone::{Site, Zone};
use super::{Domain, Name};

/// What a name of the cluster stands for.
pub(super) enum Place<'z> {
    /// The cluster's domain itself.
    Apex,
    /// `dns-version`.
    Version,
    /// `ns.dns`: the name server.
    NameServer,
    /// A name that only has names below it (RFC 8020, 2).
    Branch,
    /// `SERVICE.NAMESPACE.svc`.
    Service(&'z Service, &'z Site),
    /// `_PORT._PROTOCOL.SERVICE.NAMESPACE.svc`, and without a port the name above these.
    Ports { service: &'z Service, site: &'z Site, protocol: String, port: Option<String> },
    /// `HOSTNAME.SERVICE.NAMESPACE.svc`.
    Endpoint { service: &'z Service, site: &'z Site, label: EndpointLabel },
    /// `ADDRESS.NAMESPACE.pod`.
    Pod(IpAddr),
    /// The reverse name of an address that a Service or an endpoint has.
    Pointer(IpAddr),
    /// There is no such name.
    Nothing,
}

/// The first label of an endpoint's name: its host name, and else its address with dashes. (The specification leaves the
/// latter open; `CoreDNS` does so.)
pub(super) struct EndpointLabel {
    text: String,
    address: Option<IpAddr>,
}

impl EndpointLabel {
    fn new(label: &str) -> Self {
        Self { text: label.to_owned(), address: undashed(label.as_bytes()) }
    }

    pub(super) fn names(&self, endpoint: &Endpoint) -> bool {
        match &endpoint.hostname {
            Some(hostname) => **hostname == *self.text,
            None => self.address == Some(endpoint.address),
        }
    }
}

/// Whom a name belongs to.
pub(super) enum Owner {
    /// The cluster.
    Cluster,
    /// The cluster, should it know the address.
    Reverse(IpAddr),
    /// Somebody else.
    Other,
}

/// Whom the name belongs to.
pub(super) fn owner(domain: &Domain, name: &Name) -> Owner {
    if name.ends_with(domain.apex()) {
        return Owner::Cluster;
    }
    address_of(name).map_or(Owner::Other, Owner::Reverse)
}

/// What the name stands for; `None` when it is not one of the cluster's.
pub(super) fn locate<'z>(zone: &'z Zone, domain: &Domain, name: &Name) -> Option<Place<'z>> {
    match owner(domain, name) {
        Owner::Cluster => Some(below(zone, domain, name)),
        Owner::Reverse(addr) => {
            let known = zone.by_cluster_ip(addr).is_some() || zone.by_endpoint(addr).next().is_some();
            known.then_some(Place::Pointer(addr))
        }
        Owner::Other => None,
    }
}

fn below<'z>(zone: &'z Zone, domain: &Domain, name: &Name) -> Place<'z> {
    let count = name.label_count().saturating_sub(domain.apex().label_count());
    // Objects' names are in lower case; a label that is no text is nobody's.
    let labels: Option<Vec<String>> = name
        .iter()
        .take(count)
        .map(|label| std::str::from_utf8(label.as_slice()).map(str::to_ascii_lowercase).ok())
        .collect();
    let Some(labels) = labels else { return Place::Nothing };
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    match labels[..] {
        [] => Place::Apex,
        ["dns-version"] => Place::Version,
        ["dns" | "svc" | "pod"] => Place::Branch,
        ["ns", "dns"] => Place::NameServer,
        [namespace, "svc" | "pod"] if zone.has_namespace(namespace) => Place::Branch,
        // kubeadm's `pods insecure`: any address is taken at its word, in a Namespace that there is.
        [label, namespace, "pod"] if zone.has_namespace(namespace) => {
            undashed(label.as_bytes()).map_or(Place::Nothing, Place::Pod)
        }
        [ref front @ .., service, namespace, "svc"] => {
            let Some((service, site)) = zone.site(namespace, service) else { return Place::Nothing };
            let private = |label: &str| label.strip_prefix('_').map(str::to_owned);
            match *front {
                [] => Place::Service(service, site),
                [label] => match private(label) {
                    Some(protocol) => Place::Ports { service, site, protocol, port: None },
                    None => Place::Endpoint { service, site, label: EndpointLabel::new(label) },
                },
                [port, protocol] => match (private(port), private(protocol)) {
                    (Some(port), Some(protocol)) => Place::Ports { service, site, protocol, port: Some(port) },
                    _ => Place::Nothing,
                },
                _ => Place::Nothing,
            }
        }
        _ => Place::Nothing,
    }
}

/// Where an answer comes from, for people.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Origin {
    /// What the name stands for.
    pub meaning: String,
    /// The objects that say so, as `KIND NAMESPACE/NAME`.
    pub objects: Vec<String>,
}

impl Zone {
    /// Where the answer for `name` comes from; `None` when the name is not one of the cluster's.
    #[must_use]
    pub fn origin(&self, domain: &Domain, name: &Name) -> Option<Origin> {
        let place = locate(self, domain, name)?;
        let of_service = |service: &Service| format!("Service {}", service.key);
        let slices = |service: &Service, site: &Site, chosen: &dyn Fn(&Endpoint) -> bool| {
            let mut objects = vec![of_service(service)];
            for (slice, _) in site.published(service).filter(|(_, endpoint)| chosen(endpoint)) {
                let object = format!("EndpointSlice {}", slice.key);
                if objects.last() != Some(&object) {
                    objects.push(object);
                }
            }
            objects
        };
        let origin = |meaning: &str, objects| Some(Origin { meaning: meaning.to_owned(), objects });
        match place {
            Place::Apex => origin("the cluster's domain", Vec::new()),
            Place::Version => origin("version of the names' specification", Vec::new()),
            Place::NameServer => origin("the cluster's name server", Vec::new()),
            Place::Branch => origin("has names below it, and no records", Vec::new()),
            Place::Service(service, site) => match &service.kind {
                ServiceKind::ClusterIp(_) => origin("Service with cluster IP", vec![of_service(service)]),
                ServiceKind::Headless => origin("headless Service", slices(service, site, &|_| true)),
                ServiceKind::ExternalName(_) => origin("Service of type ExternalName", vec![of_service(service)]),
            },
            Place::Ports { service, site, .. } => match &service.kind {
                ServiceKind::Headless => origin("port of a headless Service", slices(service, site, &|_| true)),
                _ => origin("port of a Service", vec![of_service(service)]),
            },
            Place::Endpoint { service, site, label } => {
                origin("endpoint of a Service", slices(service, site, &|endpoint| label.names(endpoint)))
            }
            Place::Pod(_) => origin("address of a pod, taken from the name", Vec::new()),
            Place::Pointer(addr) => match self.by_cluster_ip(addr) {
                Some(service) => origin("cluster IP", vec![of_service(service)]),
                None => {
                    let objects = self
                        .by_endpoint(addr)
                        .flat_map(|(service, site)| slices(service, site, &|endpoint| endpoint.address == addr));
                    origin("address of an endpoint", objects.collect())
                }
            },
            Place::Nothing => origin("no such name in the cluster", Vec::new()),
        }
    }
}
