//! Services of every type.

use k8s_openapi::api::core::v1;
use skep_proto::dataplane::v1::{Service, ServicePort, ServiceType};

use super::{port, protocol};

/// Seconds of ClientIP affinity when the Service does not say.
const DEFAULT_AFFINITY: i32 = 10_800;
/// Annotation that chooses how a backend is picked; "maglev" is the one value that means something.
const LOAD_BALANCING: &str = "service.skep.io/load-balancing";
/// What a headless Service has in place of an address.
const HEADLESS: &str = "None";

pub(super) fn project(service: &v1::Service) -> Option<Service> {
    let spec = service.spec.as_ref()?;
    let mut projected = Service {
        namespace: service.metadata.namespace.clone().unwrap_or_default(),
        name: service.metadata.name.clone().unwrap_or_default(),
        uid: service.metadata.uid.clone().unwrap_or_default(),
        ports: spec.ports.iter().flatten().map(service_port).collect(),
        r#type: kind(spec).into(),
        publish_not_ready_addresses: spec.publish_not_ready_addresses.unwrap_or(false),
        ..Service::default()
    };
    if projected.r#type() == ServiceType::ExternalName {
        projected.external_name = spec.external_name.clone().unwrap_or_default();
        return Some(projected);
    }
    let mut cluster_ips = spec.cluster_ips.clone().unwrap_or_default();
    if cluster_ips.is_empty() {
        cluster_ips.extend(spec.cluster_ip.clone());
    }
    projected.headless = cluster_ips.iter().any(|ip| ip == HEADLESS);
    cluster_ips.retain(|ip| !ip.is_empty() && ip != HEADLESS);
    let is_local = |policy: &Option<String>| policy.as_deref() == Some("Local");
    projected.cluster_ips = cluster_ips;
    projected.affinity_timeout_seconds = affinity(spec);
    projected.external_ips = spec.external_ips.clone().unwrap_or_default();
    projected.internal_local = is_local(&spec.internal_traffic_policy);
    projected.external_local = is_local(&spec.external_traffic_policy);
    projected.maglev =
        service.metadata.annotations.iter().flatten().any(|(key, value)| key == LOAD_BALANCING && value == "maglev");
    projected.traffic_distribution = spec.traffic_distribution.clone().unwrap_or_default();
    projected.ip_families = spec.ip_families.clone().unwrap_or_default();
    if projected.r#type() == ServiceType::LoadBalancer {
        projected.load_balancer_ips = load_balancer_ips(service);
        projected.load_balancer_source_ranges = spec.load_balancer_source_ranges.clone().unwrap_or_default();
        if projected.external_local {
            projected.health_check_node_port = port(spec.health_check_node_port.unwrap_or(0));
        }
    }
    Some(projected)
}

fn kind(spec: &v1::ServiceSpec) -> ServiceType {
    match spec.type_.as_deref() {
        None | Some("" | "ClusterIP") => ServiceType::ClusterIp,
        Some("NodePort") => ServiceType::NodePort,
        Some("LoadBalancer") => ServiceType::LoadBalancer,
        Some("ExternalName") => ServiceType::ExternalName,
        Some(_) => ServiceType::Unspecified,
    }
}

fn service_port(p: &v1::ServicePort) -> ServicePort {
    ServicePort {
        name: p.name.clone().unwrap_or_default(),
        protocol: protocol(p.protocol.as_deref()).into(),
        port: port(p.port),
        node_port: port(p.node_port.unwrap_or(0)),
    }
}

fn affinity(spec: &v1::ServiceSpec) -> u32 {
    if spec.session_affinity.as_deref() != Some("ClientIP") {
        return 0;
    }
    let config = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
    port(config.and_then(|client| client.timeout_seconds).unwrap_or(DEFAULT_AFFINITY))
}

/// Addresses whose packets arrive as they were sent (KEP-1860): behind a proxy it is the proxy's matter to deliver them.
fn load_balancer_ips(service: &v1::Service) -> Vec<String> {
    let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = status.into_iter().flat_map(|status| status.ingress.iter().flatten());
    let served = ingress.filter(|ingress| matches!(ingress.ip_mode.as_deref(), None | Some("" | "VIP")));
    served.filter_map(|ingress| ingress.ip.clone()).filter(|ip| !ip.is_empty()).collect()
}
