//! EndpointSlices that name their Service.

use k8s_openapi::api::discovery::v1;
use skep_proto::dataplane::v1::{Endpoint, EndpointPort, EndpointSlice};

use super::{port, protocol};

const SERVICE_LABEL: &str = "kubernetes.io/service-name";

pub(super) fn project(slice: &v1::EndpointSlice) -> Option<EndpointSlice> {
    let service = slice.metadata.labels.as_ref()?.get(SERVICE_LABEL).filter(|name| !name.is_empty())?;
    // Names are nothing that a packet could be sent to.
    if slice.address_type == "FQDN" {
        return None;
    }
    // A port without a number stands for all of them, which no frontend can be mapped to.
    let ports = slice.ports.iter().flatten().filter_map(|p| {
        Some(EndpointPort {
            name: p.name.clone().unwrap_or_default(),
            protocol: protocol(p.protocol.as_deref()).into(),
            port: port(p.port?),
        })
    });
    Some(EndpointSlice {
        namespace: slice.metadata.namespace.clone().unwrap_or_default(),
        name: slice.metadata.name.clone().unwrap_or_default(),
        service: service.clone(),
        endpoints: slice.endpoints.iter().map(endpoint).collect(),
        ports: ports.collect(),
    })
}

fn endpoint(endpoint: &v1::Endpoint) -> Endpoint {
    let conditions = endpoint.conditions.clone().unwrap_or_default();
    // Unknown readiness counts as ready, and unknown serving as readiness says.
    let ready = conditions.ready.unwrap_or(true);
    let hints = endpoint.hints.clone().unwrap_or_default();
    let pod = endpoint.target_ref.as_ref().filter(|target| target.kind.as_deref() == Some("Pod"));
    Endpoint {
        addresses: endpoint.addresses.clone(),
        ready,
        serving: conditions.serving.unwrap_or(ready),
        terminating: conditions.terminating.unwrap_or(false),
        node: endpoint.node_name.clone().unwrap_or_default(),
        zone: endpoint.zone.clone().unwrap_or_default(),
        pod: pod.and_then(|target| target.name.clone()).unwrap_or_default(),
        hostname: endpoint.hostname.clone().unwrap_or_default(),
        for_zones: hints.for_zones.into_iter().flatten().map(|zone| zone.name).collect(),
        for_nodes: hints.for_nodes.into_iter().flatten().map(|node| node.name).collect(),
    }
}
