//! The `EndpointSlice` controller: slices of up to 100 endpoints per address family and set of ports, changed as little as possible.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Service, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::resolve::{self, Family, Port};
use super::{HEADLESS, headless, hints, service_key, services_of, services_on};
use crate::controllers::action::{Outcome, Write};
use crate::controllers::engine::{Controller, Turn};
use crate::controllers::index::{Index, SERVICE_NAME, Touched, key, node_of, selector_of, service_of};
use crate::controllers::kind::{Key, Kind};
use crate::controllers::naming::generated;
use crate::controllers::object::{Object, Typed};
use crate::controllers::owner::controller_reference;
use crate::controllers::selector::{Labels, contains};

/// Most endpoints in one slice.
const LARGEST: usize = 100;
/// Label naming who writes a slice.
pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY`] for the slices written here.
const MANAGER: &str = "endpointslice-controller.k8s.io";

/// The `EndpointSlice` controller.
#[derive(Debug)]
pub(in crate::controllers) struct EndpointSlices;

/// What slices of one kind have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Group {
    pub(super) family: Family,
    ports: Vec<Port>,
}

/// A slice and the endpoints that it will have.
type Draft = (Arc<EndpointSlice>, Vec<Endpoint>);

impl Controller for EndpointSlices {
    fn name(&self) -> &'static str {
        "endpoint-slice-controller"
    }

    fn affected(&self, touched: &Touched, index: &Index) -> Vec<Key> {
        match touched.key.kind {
            Kind::Service => vec![touched.key.clone()],
            Kind::Pod => services_of(touched, index),
            Kind::Node => services_on(touched, index),
            Kind::EndpointSlice => touched
                .sides()
                .filter_map(|side| EndpointSlice::of(side))
                .filter_map(|slice| service_of(slice))
                .map(|service| service_key(&touched.key.namespace, service))
                .collect(),
            _ => Vec::new(),
        }
    }

    fn reconcile(&self, key: &Key, index: &Index, turn: Turn) -> Outcome {
        let mut outcome = Outcome::idle();
        // Slices of a deleted Service are garbage: they name it as their owner.
        let Some(service) = index.get::<Service>(&key.namespace, &key.name) else { return outcome };
        let Some(spec) = service.spec.as_ref() else { return outcome };
        if service.metadata.deletion_timestamp.is_some() {
            return outcome;
        }
        let existing: Vec<Arc<EndpointSlice>> =
            index.slices_of(&key.namespace, &key.name).filter(|slice| managed(slice)).cloned().collect();
        let selector = if spec.type_.as_deref() == Some("ExternalName") { None } else { selector_of(service) };
        let Some(selector) = selector else {
            // Without a selector the endpoints are somebody else's; what was written for an earlier selector goes.
            existing.iter().for_each(|slice| outcome.act(delete(slice)));
            return outcome;
        };
        let wanted = wanted(service, spec, selector, index);
        arrange(service, wanted, existing, turn.seed, &mut outcome);
        outcome
    }
}

fn managed(slice: &EndpointSlice) -> bool {
    slice.metadata.labels.as_ref().and_then(|labels| labels.get(MANAGED_BY)).is_some_and(|manager| manager == MANAGER)
}

fn delete(slice: &EndpointSlice) -> Write {
    Write::delete(key(slice), slice.metadata.uid.clone().unwrap_or_default())
}

/// Endpoints by group and pod UID. Each family has at least one group, empty when nothing is selected.
fn wanted(
    service: &Service,
    spec: &ServiceSpec,
    selector: &Labels,
    index: &Index,
) -> BTreeMap<Group, BTreeMap<String, Endpoint>> {
    let mut groups: BTreeMap<Group, BTreeMap<String, Endpoint>> = BTreeMap::new();
    let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
    let selected = index.list::<Pod>(namespace).filter(|pod| contains(pod.metadata.labels.as_ref(), selector));
    let selected: Vec<&Arc<Pod>> = selected.filter(|pod| resolve::eligible(pod)).collect();
    for family in resolve::families(spec) {
        let mut any = false;
        for pod in &selected {
            if let Some(address) = resolve::address(pod, family) {
                let group = Group { family, ports: resolve::ports(spec, pod) };
                let endpoint = endpoint(service, spec, pod, address, index);
                groups.entry(group).or_default().insert(pod.metadata.uid.clone().unwrap_or_default(), endpoint);
                any = true;
            }
        }
        if !any {
            groups.insert(Group { family, ports: Vec::new() }, BTreeMap::new());
        }
    }
    hints::apply(service, &mut groups, index);
    groups
}

fn endpoint(service: &Service, spec: &ServiceSpec, pod: &Pod, address: &str, index: &Index) -> Endpoint {
    let conditions = resolve::conditions(spec, pod);
    Endpoint {
        addresses: vec![address.to_owned()],
        conditions: Some(EndpointConditions {
            ready: Some(conditions.ready),
            serving: Some(conditions.serving),
            terminating: Some(conditions.terminating),
        }),
        hostname: resolve::hostname(service, pod),
        node_name: node_of(pod).map(str::to_owned),
        zone: node_of(pod).and_then(|node| index.get::<Node>("", node)).and_then(|node| hints::zone(node)).cloned(),
        target_ref: Some(resolve::target(pod)),
        ..Endpoint::default()
    }
}

/// Brings the slices to what is wanted: endpoints stay where they are, free room is filled before a slice is added, and slices
/// that became empty go, but for one a family.
fn arrange(
    service: &Arc<Service>,
    mut wanted: BTreeMap<Group, BTreeMap<String, Endpoint>>,
    existing: Vec<Arc<EndpointSlice>>,
    seed: u64,
    outcome: &mut Outcome,
) {
    let labels = slice_labels(service);
    let mut drafts: BTreeMap<Group, Vec<Draft>> = BTreeMap::new();
    let mut placed: BTreeSet<(Group, String)> = BTreeSet::new();
    // Deleted last: readers must not see the endpoints gone before they are where they move to.
    let mut leaving: Vec<Arc<EndpointSlice>> = Vec::new();
    for slice in existing {
        let group = group_of(&slice);
        let Some((group, endpoints)) = group.and_then(|group| wanted.get(&group).map(|endpoints| (group, endpoints)))
        else {
            leaving.push(slice);
            continue;
        };
        let mut kept = Vec::new();
        for endpoint in &slice.endpoints {
            let uid = endpoint.target_ref.as_ref().and_then(|target| target.uid.clone()).unwrap_or_default();
            if let Some(endpoint) = endpoints.get(&uid)
                && placed.insert((group.clone(), uid))
            {
                kept.push(endpoint.clone());
            }
        }
        drafts.entry(group).or_default().push((slice, kept));
    }
    let mut ordinal = 0;
    for (group, endpoints) in &mut wanted {
        let mut fresh: Vec<Endpoint> = Vec::new();
        for (uid, endpoint) in std::mem::take(endpoints) {
            if !placed.contains(&(group.clone(), uid)) {
                fresh.push(endpoint);
            }
        }
        let mut slices = drafts.remove(group).unwrap_or_default();
        // Slices that change anyway take new endpoints first: fewer writes.
        slices.sort_by_key(|(slice, kept)| slice.endpoints == *kept);
        let mut fresh = fresh.into_iter();
        for (_, kept) in &mut slices {
            let room = LARGEST.saturating_sub(kept.len());
            kept.extend(fresh.by_ref().take(room));
        }
        let mut holding = slices.iter().filter(|(_, kept)| !kept.is_empty()).count();
        for (slice, kept) in slices {
            if kept.is_empty() && holding > 0 {
                leaving.push(slice);
                continue;
            }
            holding += usize::from(kept.is_empty());
            let mut draft = slice.as_ref().clone();
            draft.endpoints = kept;
            draft.metadata.labels = Some(labels.clone());
            if draft != *slice {
                outcome.act(Write::Update(draft.into_object()));
            }
        }
        let rest: Vec<Endpoint> = fresh.collect();
        for chunk in rest.chunks(LARGEST) {
            outcome.act(Write::Create(new_slice(service, group, chunk.to_vec(), &labels, seed, ordinal)));
            ordinal += 1;
        }
        if rest.is_empty() && holding == 0 {
            outcome.act(Write::Create(new_slice(service, group, Vec::new(), &labels, seed, ordinal)));
            ordinal += 1;
        }
    }
    leaving.iter().for_each(|slice| outcome.act(delete(slice)));
}

fn slice_labels(service: &Service) -> Labels {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.insert(SERVICE_NAME.to_owned(), service.metadata.name.clone().unwrap_or_default());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    if headless(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    } else {
        labels.remove(HEADLESS);
    }
    labels
}

fn group_of(slice: &EndpointSlice) -> Option<Group> {
    let family = match slice.address_type.as_str() {
        "IPv4" => Family::V4,
        "IPv6" => Family::V6,
        _ => return None,
    };
    let ports = slice.ports.iter().flatten();
    let ports = ports.map(|port| {
        Some(Port {
            name: port.name.clone().unwrap_or_default(),
            number: port.port?,
            protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
            app_protocol: port.app_protocol.clone(),
        })
    });
    Some(Group { family, ports: ports.collect::<Option<_>>()? })
}

fn new_slice(
    service: &Arc<Service>,
    group: &Group,
    endpoints: Vec<Endpoint>,
    labels: &Labels,
    seed: u64,
    ordinal: u64,
) -> Object {
    let prefix = format!("{}-", service.metadata.name.as_deref().unwrap_or_default());
    let ports = group.ports.iter().map(|port| EndpointPort {
        name: Some(port.name.clone()),
        port: Some(port.number),
        protocol: Some(port.protocol.clone()),
        app_protocol: port.app_protocol.clone(),
    });
    EndpointSlice {
        address_type: group.family.name().to_owned(),
        endpoints,
        metadata: ObjectMeta {
            name: Some(generated(&prefix, seed, ordinal)),
            generate_name: Some(prefix),
            namespace: service.metadata.namespace.clone(),
            labels: Some(labels.clone()),
            owner_references: Some(vec![controller_reference(Kind::Service, &service.metadata)]),
            ..ObjectMeta::default()
        },
        ports: Some(ports.collect()),
    }
    .into_object()
}
