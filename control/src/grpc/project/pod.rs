//! Pods that have addresses of their own and have not ended.

use k8s_openapi::api::core::v1;
use skep_proto::dataplane::v1::{EndpointPort, Workload};

use super::{labels, port, protocol};

/// The pod's projection.
pub(in super::super) fn workload(pod: &v1::Pod) -> Option<Workload> {
    let (spec, status) = (pod.spec.as_ref()?, pod.status.as_ref()?);
    let node = spec.node_name.as_deref().filter(|node| !node.is_empty())?;
    if spec.host_network == Some(true) || matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
        return None;
    }
    let mut addresses: Vec<String> = status.pod_ips.iter().flatten().map(|ip| ip.ip.clone()).collect();
    if addresses.is_empty() {
        addresses.extend(status.pod_ip.clone());
    }
    addresses.retain(|address| !address.is_empty());
    if addresses.is_empty() {
        return None;
    }
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let named_ports = containers.flat_map(|container| container.ports.iter().flatten()).filter_map(|p| {
        Some(EndpointPort {
            name: p.name.clone()?,
            protocol: protocol(p.protocol.as_deref()).into(),
            port: port(p.container_port),
        })
    });
    Some(Workload {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        name: pod.metadata.name.clone().unwrap_or_default(),
        uid: pod.metadata.uid.clone().unwrap_or_default(),
        node: node.to_owned(),
        addresses,
        labels: labels(&pod.metadata),
        named_ports: named_ports.collect(),
    })
}
