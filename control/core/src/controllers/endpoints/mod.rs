//! Which pods stand behind a Service: `EndpointSlice`s, and the older Endpoints for clients that still read them.

mod hints;
mod legacy;
mod resolve;
mod slices;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::Service;

pub(super) use legacy::LegacyEndpoints;
pub(super) use slices::EndpointSlices;

use super::index::{Index, Touched, key};
use super::kind::{Key, Kind};
use super::object::Object;

/// Services that a pod's change concerns: those that selected it before or select it now.
fn services_of(touched: &Touched, index: &Index) -> Vec<Key> {
    let mut keys = Vec::new();
    for side in touched.sides() {
        if let Object::Pod(pod) = side {
            let services = index.services_selecting(&touched.key.namespace, pod.metadata.labels.as_ref());
            keys.extend(services.into_iter().map(|service| key(service.as_ref())));
        }
    }
    keys.sort();
    keys.dedup();
    keys
}

/// Services that a node's change concerns: those with endpoints on it, and those whose hints depend on all nodes.
fn services_on(touched: &Touched, index: &Index) -> Vec<Key> {
    if !hints::matters(touched) {
        return Vec::new();
    }
    let mut keys: Vec<Key> = index
        .all::<Service>()
        .filter(|service| hints::automatic(service))
        .map(|service| key(service.as_ref()))
        .collect();
    for pod in index.pods_on(&touched.key.name) {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let services = index.services_selecting(namespace, pod.metadata.labels.as_ref());
        keys.extend(services.into_iter().map(|service| key(service.as_ref())));
    }
    keys.sort();
    keys.dedup();
    keys
}

/// Key of the Service with the name of another object in the same namespace.
fn service_key(namespace: &str, name: &str) -> Key {
    Key::new(Kind::Service, namespace, name)
}

/// Whether the Service is headless.
fn headless(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()) == Some("None")
}

/// Label on what belongs to a headless Service.
const HEADLESS: &str = "service.kubernetes.io/headless";
