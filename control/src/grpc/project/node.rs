//! Nodes that have addresses: what packets to them and to their pods need.

use k8s_openapi::api::core::v1;
use skep_proto::dataplane::v1::NodeRoute;

const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
/// Its presence counts, whatever its value.
const EXCLUDE_LABEL: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

pub(super) fn project(node: &v1::Node) -> Option<NodeRoute> {
    let status = node.status.as_ref()?;
    let internal = status.addresses.iter().flatten().filter(|address| address.type_ == "InternalIP");
    let addresses: Vec<String> = internal.map(|address| address.address.clone()).collect();
    if addresses.is_empty() {
        return None;
    }
    let spec = node.spec.as_ref();
    let mut pod_cidrs = spec.and_then(|spec| spec.pod_cidrs.clone()).unwrap_or_default();
    if pod_cidrs.is_empty() {
        pod_cidrs.extend(spec.and_then(|spec| spec.pod_cidr.clone()));
    }
    let labels = node.metadata.labels.as_ref();
    let mut conditions = status.conditions.iter().flatten();
    Some(NodeRoute {
        name: node.metadata.name.clone().unwrap_or_default(),
        addresses,
        pod_cidrs,
        zone: labels.and_then(|labels| labels.get(ZONE_LABEL)).cloned().unwrap_or_default(),
        ready: conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True"),
        exclude_from_load_balancers: labels.is_some_and(|labels| labels.contains_key(EXCLUDE_LABEL)),
    })
}
