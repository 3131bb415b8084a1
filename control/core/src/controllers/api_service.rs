//! The Service `kubernetes` in the default namespace: how pods find the API server.

use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Namespace, Service, ServicePort, ServiceSpec,
};
use k8s_openapi::api::discovery::v1::{self as discovery, EndpointConditions, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::Settings;
use super::action::{Outcome, Write};
use super::engine::{Controller, Turn};
use super::index::{Index, SERVICE_NAME, Touched};
use super::kind::{Key, Kind};
use super::object::Typed;
use super::selector::Labels;

const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";

/// Keeps the Service `kubernetes`, its Endpoints and its slice.
#[derive(Debug)]
pub(super) struct ApiService {
    addresses: Vec<IpAddr>,
    advertise: SocketAddr,
}

impl ApiService {
    pub(super) fn new(settings: &Settings, advertise: SocketAddr) -> Self {
        Self { addresses: settings.api_service_addresses.clone(), advertise }
    }

    fn service(&self) -> Option<Service> {
        // The endpoint has one family, and a Service address of the other would lead nowhere.
        let address = self.addresses.iter().find(|address| address.is_ipv4() == self.advertise.is_ipv4())?;
        let labels = [("component".to_owned(), "apiserver".to_owned()), ("provider".to_owned(), NAME.to_owned())];
        Some(Service {
            metadata: metadata(Some(labels.into())),
            spec: Some(ServiceSpec {
                type_: Some("ClusterIP".to_owned()),
                cluster_ip: Some(address.to_string()),
                cluster_ips: Some(vec![address.to_string()]),
                ip_families: Some(vec![self.family().to_owned()]),
                ip_family_policy: Some("SingleStack".to_owned()),
                ports: Some(vec![ServicePort {
                    name: Some("https".to_owned()),
                    port: 443,
                    protocol: Some("TCP".to_owned()),
                    target_port: Some(IntOrString::Int(self.advertise.port().into())),
                    ..ServicePort::default()
                }]),
                ..ServiceSpec::default()
            }),
            status: None,
        })
    }

    fn family(&self) -> &'static str {
        if self.advertise.is_ipv4() { "IPv4" } else { "IPv6" }
    }

    fn subsets(&self) -> Vec<EndpointSubset> {
        vec![EndpointSubset {
            addresses: Some(vec![EndpointAddress {
                ip: self.advertise.ip().to_string(),
                ..EndpointAddress::default()
            }]),
            not_ready_addresses: None,
            ports: Some(vec![EndpointPort {
                name: Some("https".to_owned()),
                port: self.advertise.port().into(),
                protocol: Some("TCP".to_owned()),
                app_protocol: None,
            }]),
        }]
    }

    fn endpoints(&self) -> Vec<discovery::Endpoint> {
        vec![discovery::Endpoint {
            addresses: vec![self.advertise.ip().to_string()],
            conditions: Some(EndpointConditions { ready: Some(true), serving: None, terminating: None }),
            ..discovery::Endpoint::default()
        }]
    }

    fn slice_ports(&self) -> Vec<discovery::EndpointPort> {
        vec![discovery::EndpointPort {
            name: Some("https".to_owned()),
            port: Some(self.advertise.port().into()),
            protocol: Some("TCP".to_owned()),
            app_protocol: None,
        }]
    }
}

fn metadata(labels: Option<Labels>) -> ObjectMeta {
    ObjectMeta { name: Some(NAME.to_owned()), namespace: Some(NAMESPACE.to_owned()), labels, ..ObjectMeta::default() }
}

fn key() -> Key {
    Key::new(Kind::Service, NAMESPACE, NAME)
}

impl Controller for ApiService {
    fn name(&self) -> &'static str {
        "apiserver"
    }

    fn initial(&self) -> Vec<Key> {
        vec![key()]
    }

    fn affected(&self, touched: &Touched, _index: &Index) -> Vec<Key> {
        let own = matches!(touched.key.kind, Kind::Service | Kind::Endpoints | Kind::EndpointSlice)
            && touched.key.namespace == NAMESPACE
            && touched.key.name == NAME;
        let home = touched.key.kind == Kind::Namespace && touched.key.name == NAMESPACE;
        if own || home { vec![key()] } else { Vec::new() }
    }

    fn reconcile(&self, _key: &Key, index: &Index, _turn: Turn) -> Outcome {
        let mut outcome = Outcome::idle();
        if index.get::<Namespace>("", NAMESPACE).is_none_or(|home| home.metadata.deletion_timestamp.is_some()) {
            return outcome;
        }
        match (index.get::<Service>(NAMESPACE, NAME), self.service()) {
            (None, Some(service)) => outcome.act(Write::Create(service.into_object())),
            (Some(known), Some(service)) => {
                let ports = service.spec.and_then(|spec| spec.ports);
                let target = |ports: Option<&Vec<ServicePort>>| {
                    ports.and_then(|ports| ports.first()).and_then(|port| port.target_port.clone())
                };
                if target(known.spec.as_ref().and_then(|spec| spec.ports.as_ref())) != target(ports.as_ref()) {
                    let mut draft = known.as_ref().clone();
                    if let Some(spec) = &mut draft.spec {
                        spec.ports = ports;
                    }
                    outcome.act(Write::Update(draft.into_object()));
                }
            }
            _ => {}
        }
        // Nobody else reaches a loopback address, and the API refuses one as an endpoint.
        if self.advertise.ip().is_loopback() {
            return outcome;
        }
        match index.get::<Endpoints>(NAMESPACE, NAME) {
            None => {
                let endpoints = Endpoints { metadata: metadata(None), subsets: Some(self.subsets()) };
                outcome.act(Write::Create(endpoints.into_object()));
            }
            Some(known) if known.subsets.as_ref() != Some(&self.subsets()) => {
                let draft = Endpoints { subsets: Some(self.subsets()), ..known.as_ref().clone() };
                outcome.act(Write::Update(draft.into_object()));
            }
            Some(_) => {}
        }
        match index.get::<EndpointSlice>(NAMESPACE, NAME) {
            None => {
                let slice = EndpointSlice {
                    metadata: metadata(Some([(SERVICE_NAME.to_owned(), NAME.to_owned())].into())),
                    address_type: self.family().to_owned(),
                    endpoints: self.endpoints(),
                    ports: Some(self.slice_ports()),
                };
                outcome.act(Write::Create(slice.into_object()));
            }
            Some(known) if known.address_type != self.family() => {
                // The family cannot be changed in place.
                outcome.act(Write::delete(
                    Key::new(Kind::EndpointSlice, NAMESPACE, NAME),
                    known.metadata.uid.clone().unwrap_or_default(),
                ));
            }
            Some(known) if known.endpoints != self.endpoints() || known.ports.as_ref() != Some(&self.slice_ports()) => {
                let mut draft = known.as_ref().clone();
                draft.endpoints = self.endpoints();
                draft.ports = Some(self.slice_ports());
                outcome.act(Write::Update(draft.into_object()));
            }
            Some(_) => {}
        }
        outcome
    }
}
