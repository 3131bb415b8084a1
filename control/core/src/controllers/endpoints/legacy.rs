//! The Endpoints controller: one object a Service, in the primary family, for clients that do not read slices.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Pod, Service, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::resolve::{self, Port};
use super::{HEADLESS, headless, service_key, services_of};
use crate::controllers::action::{Outcome, Write};
use crate::controllers::engine::{Controller, Turn};
use crate::controllers::index::{Index, Touched, key, node_of, selector_of};
use crate::controllers::kind::{Key, Kind};
use crate::controllers::object::Typed;
use crate::controllers::pods;
use crate::controllers::selector::{Labels, contains};

/// Label naming who writes an Endpoints object.
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY`] for those written here.
const MANAGER: &str = "endpoint-controller";
/// Most addresses; readers of more use slices.
const LARGEST: usize = 1000;
/// Annotation on an object that left addresses out.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// The Endpoints controller.
#[derive(Debug)]
pub(in crate::controllers) struct LegacyEndpoints;

impl Controller for LegacyEndpoints {
    fn name(&self) -> &'static str {
        "endpoint-controller"
    }

    fn affected(&self, touched: &Touched, index: &Index) -> Vec<Key> {
        match touched.key.kind {
            Kind::Service => vec![touched.key.clone()],
            Kind::Endpoints => vec![service_key(&touched.key.namespace, &touched.key.name)],
            Kind::Pod => services_of(touched, index),
            _ => Vec::new(),
        }
    }

    fn reconcile(&self, key: &Key, index: &Index, _turn: Turn) -> Outcome {
        let mut outcome = Outcome::idle();
        let existing = index.get::<Endpoints>(&key.namespace, &key.name);
        let service = index.get::<Service>(&key.namespace, &key.name);
        let served = service.and_then(|service| {
            let spec = service.spec.as_ref().filter(|spec| spec.type_.as_deref() != Some("ExternalName"))?;
            Some((service, spec, selector_of(service)?))
        });
        let Some((service, spec, selector)) = served else {
            // Without a selector the object is the user's, even when the Service had one before.
            if let Some(existing) = existing.filter(|existing| service.is_none() && managed(existing)) {
                outcome.act(delete(existing));
            }
            return outcome;
        };
        if service.metadata.deletion_timestamp.is_some() {
            return outcome;
        }
        let (subsets, truncated) = subsets(service, spec, selector, index);
        let labels = labels(service);
        match existing {
            None => outcome.act(Write::Create(
                Endpoints {
                    metadata: ObjectMeta {
                        name: service.metadata.name.clone(),
                        namespace: service.metadata.namespace.clone(),
                        labels: Some(labels),
                        annotations: truncated
                            .then(|| Labels::from([(OVER_CAPACITY.to_owned(), "truncated".to_owned())])),
                        ..ObjectMeta::default()
                    },
                    subsets: Some(subsets).filter(|subsets| !subsets.is_empty()),
                }
                .into_object(),
            )),
            Some(existing) => {
                let mut draft = existing.as_ref().clone();
                draft.subsets = Some(subsets).filter(|subsets| !subsets.is_empty());
                draft.metadata.labels = Some(labels);
                if truncated {
                    let annotations = draft.metadata.annotations.get_or_insert_default();
                    annotations.insert(OVER_CAPACITY.to_owned(), "truncated".to_owned());
                } else if let Some(annotations) = &mut draft.metadata.annotations {
                    annotations.remove(OVER_CAPACITY);
                }
                if draft != **existing {
                    outcome.act(Write::Update(draft.into_object()));
                }
            }
        }
        outcome
    }
}

fn managed(endpoints: &Endpoints) -> bool {
    endpoints
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(MANAGED_BY))
        .is_some_and(|manager| manager == MANAGER)
}

fn delete(endpoints: &Arc<Endpoints>) -> Write {
    Write::delete(key(endpoints.as_ref()), endpoints.metadata.uid.clone().unwrap_or_default())
}

fn labels(service: &Service) -> Labels {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    if headless(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    } else {
        labels.remove(HEADLESS);
    }
    labels
}

/// Addresses grouped by their ports, and whether some were left out.
fn subsets(service: &Service, spec: &ServiceSpec, selector: &Labels, index: &Index) -> (Vec<EndpointSubset>, bool) {
    let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
    let publish = spec.publish_not_ready_addresses == Some(true);
    let Some(family) = resolve::families(spec).first().copied() else { return (Vec::new(), false) };
    let mut groups: BTreeMap<Vec<Port>, EndpointSubset> = BTreeMap::new();
    let mut count = 0;
    for pod in index.list::<Pod>(namespace) {
        let selected = contains(pod.metadata.labels.as_ref(), selector) && resolve::eligible(pod);
        if !selected || (pods::terminating(pod) && !publish) {
            continue;
        }
        let Some(address) = resolve::address(pod, family) else { continue };
        count += 1;
        if count > LARGEST {
            break;
        }
        let address = EndpointAddress {
            ip: address.to_owned(),
            hostname: resolve::hostname(service, pod),
            node_name: node_of(pod).map(str::to_owned),
            target_ref: Some(resolve::target(pod)),
        };
        let ports = resolve::ports(spec, pod);
        let subset = groups.entry(ports.clone()).or_insert_with(|| EndpointSubset {
            ports: Some(ports.iter().map(port).collect::<Vec<_>>()).filter(|ports| !ports.is_empty()),
            ..EndpointSubset::default()
        });
        let ready = resolve::conditions(spec, pod).ready;
        let list = if ready { &mut subset.addresses } else { &mut subset.not_ready_addresses };
        list.get_or_insert_default().push(address);
    }
    let mut subsets: Vec<EndpointSubset> = groups.into_values().collect();
    for subset in &mut subsets {
        for list in [&mut subset.addresses, &mut subset.not_ready_addresses].into_iter().flatten() {
            list.sort_by_key(|address| address.ip.parse::<std::net::IpAddr>().ok());
        }
    }
    (subsets, count > LARGEST)
}

fn port(port: &Port) -> EndpointPort {
    EndpointPort {
        name: Some(port.name.clone()).filter(|name| !name.is_empty()),
        port: port.number,
        protocol: Some(port.protocol.clone()),
        app_protocol: port.app_protocol.clone(),
    }
}
