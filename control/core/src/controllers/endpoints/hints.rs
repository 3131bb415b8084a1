//! Topology hints: which clients should use which endpoint.
//!
//! `spec.trafficDistribution` gives every ready endpoint to its own zone, or node (KEP-4444, KEP-3015); who finds no endpoint of
//! its own uses them all. The annotation `service.kubernetes.io/topology-mode: Auto` (KEP-2433) does the same, but only while
//! every zone that has nodes has an endpoint, so that no client is worse off.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointHints, ForNode, ForZone};

use super::resolve::Family;
use super::slices::Group;
use crate::controllers::index::{Index, Touched};
use crate::controllers::node::ready;
use crate::controllers::object::{Object, Typed};

/// Label of a node with the zone that it is in.
const ZONE: &str = "topology.kubernetes.io/zone";
/// Annotations that ask for hints while they help; the first counts.
const MODES: [&str; 2] = ["service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints"];

/// Zone of a node.
pub(super) fn zone(node: &Node) -> Option<&String> {
    node.metadata.labels.as_ref()?.get(ZONE).filter(|zone| !zone.is_empty())
}

/// Whether a change of a node is one that endpoints or hints show.
pub(super) fn matters(touched: &Touched) -> bool {
    let shown = |side: Option<&Object>| side.and_then(Node::of).map(|node| (zone(node).cloned(), ready(node)));
    shown(touched.before.as_ref()) != shown(touched.after.as_ref())
}

/// Whether the Service wants hints only while they help, which every node has a part in.
pub(super) fn automatic(service: &Service) -> bool {
    let annotations = service.metadata.annotations.as_ref();
    let mode = MODES.iter().find_map(|name| annotations?.get(*name));
    mode.is_some_and(|mode| mode == "Auto" || mode == "auto")
}

/// Puts hints on the endpoints of a Service, where they are due.
pub(super) fn apply(service: &Service, groups: &mut BTreeMap<Group, BTreeMap<String, Endpoint>>, index: &Index) {
    let distribution = service.spec.as_ref().and_then(|spec| spec.traffic_distribution.as_deref());
    let automatic = automatic(service);
    let same_node = distribution == Some("PreferSameNode") && !automatic;
    if !automatic && !matches!(distribution, Some("PreferClose" | "PreferSameZone" | "PreferSameNode")) {
        return;
    }
    let helped: BTreeSet<Family> =
        [Family::V4, Family::V6].into_iter().filter(|family| !automatic || helps(*family, groups, index)).collect();
    for (_, endpoints) in groups.iter_mut().filter(|(group, _)| helped.contains(&group.family)) {
        for endpoint in endpoints.values_mut().filter(|endpoint| is_ready(endpoint)) {
            let for_zones = endpoint.zone.clone().map(|name| vec![ForZone { name }]);
            let for_nodes = endpoint.node_name.clone().filter(|_| same_node).map(|name| vec![ForNode { name }]);
            if for_zones.is_some() || for_nodes.is_some() {
                endpoint.hints = Some(EndpointHints { for_nodes, for_zones });
            }
        }
    }
}

fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.as_ref().and_then(|conditions| conditions.ready) == Some(true)
}

/// Whether every zone has an endpoint of the family, there are two zones at least, and it is known where everything is.
fn helps(family: Family, groups: &BTreeMap<Group, BTreeMap<String, Endpoint>>, index: &Index) -> bool {
    let mut zones = BTreeSet::new();
    for node in index.all::<Node>().filter(|node| ready(node)) {
        let Some(zone) = zone(node) else { return false };
        zones.insert(zone);
    }
    let endpoints =
        groups.iter().filter(|(group, _)| group.family == family).flat_map(|(_, endpoints)| endpoints.values());
    let mut served = BTreeSet::new();
    for endpoint in endpoints.filter(|endpoint| is_ready(endpoint)) {
        let Some(zone) = &endpoint.zone else { return false };
        served.insert(zone);
    }
    zones.len() > 1 && zones.is_subset(&served)
}
