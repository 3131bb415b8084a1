//! Services with at least one cluster IP.

use k8s_openapi::api::core::v1;
use skep_proto::dataplane::v1::{Service, ServicePort, ServiceType};

use super::{port, protocol};

/// Seconds of ClientIP affinity when the Service does not say.
const DEFAULT_AFFINITY: i32 = 10_800;

pub(super) fn project(service: &v1::Service) -> Option<Service> {
    let spec = service.spec.as_ref()?;
    if spec.type_.as_deref() == Some("ExternalName") {
        return None;
    }
    let mut cluster_ips = spec.cluster_ips.clone().unwrap_or_default();
    if cluster_ips.is_empty() {
        cluster_ips.extend(spec.cluster_ip.clone());
    }
    cluster_ips.retain(|ip| !ip.is_empty() && ip != "None");
    if cluster_ips.is_empty() {
        return None;
    }
    let affinity_timeout_seconds = match spec.session_affinity.as_deref() {
        Some("ClientIP") => {
            let config = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
            port(config.and_then(|client| client.timeout_seconds).unwrap_or(DEFAULT_AFFINITY))
        }
        _ => 0,
    };
    let ports = spec.ports.iter().flatten().map(|p| ServicePort {
        name: p.name.clone().unwrap_or_default(),
        protocol: protocol(p.protocol.as_deref()).into(),
        port: port(p.port),
        node_port: port(p.node_port.unwrap_or(0)),
    });
    Some(Service {
        namespace: service.metadata.namespace.clone().unwrap_or_default(),
        name: service.metadata.name.clone().unwrap_or_default(),
        uid: service.metadata.uid.clone().unwrap_or_default(),
        cluster_ips,
        ports: ports.collect(),
        affinity_timeout_seconds,
        r#type: ServiceType::ClusterIp.into(),
        ..Service::default()
    })
}
