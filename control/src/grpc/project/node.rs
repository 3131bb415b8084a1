//! Routes to nodes that have pod addresses.

use k8s_openapi::api::core::v1;
use skep_proto::dataplane::v1::NodeRoute;

pub(super) fn project(node: &v1::Node) -> Option<NodeRoute> {
    let spec = node.spec.as_ref()?;
    let mut pod_cidrs = spec.pod_cidrs.clone().unwrap_or_default();
    if pod_cidrs.is_empty() {
        pod_cidrs.extend(spec.pod_cidr.clone());
    }
    let status = node.status.as_ref()?;
    let internal = status.addresses.iter().flatten().filter(|address| address.type_ == "InternalIP");
    let addresses: Vec<String> = internal.map(|address| address.address.clone()).collect();
    if pod_cidrs.is_empty() || addresses.is_empty() {
        return None;
    }
    Some(NodeRoute {
        name: node.metadata.name.clone().unwrap_or_default(),
        addresses,
        pod_cidrs,
        ..NodeRoute::default()
    })
}
