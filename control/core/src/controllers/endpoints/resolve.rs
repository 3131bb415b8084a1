//! A pod as an endpoint: its addresses, its conditions and the numbers of the Service's ports on it.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, ContainerPort, ObjectReference, Pod, Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::controllers::pods;

/// Address family of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    /// Value of `addressType` and of a Service's `ipFamilies`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    pub(super) fn of(address: &str) -> Option<Self> {
        match address.parse().ok()? {
            IpAddr::V4(_) => Some(Self::V4),
            IpAddr::V6(_) => Some(Self::V6),
        }
    }
}

/// Families that a Service serves, primary first.
pub(super) fn families(spec: &ServiceSpec) -> Vec<Family> {
    let named = spec.ip_families.iter().flatten().filter_map(|name| match name.as_str() {
        "IPv4" => Some(Family::V4),
        "IPv6" => Some(Family::V6),
        _ => None,
    });
    let families: Vec<Family> = named.collect();
    if families.is_empty() {
        vec![spec.cluster_ip.as_deref().and_then(Family::of).unwrap_or(Family::V4)]
    } else {
        families
    }
}

/// A port as it is on one pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Port {
    pub(super) name: String,
    pub(super) number: i32,
    pub(super) protocol: String,
    pub(super) app_protocol: Option<String>,
}

/// The Service's ports on a pod; a named target port that the pod does not have is left out.
pub(super) fn ports(service: &ServiceSpec, pod: &Pod) -> Vec<Port> {
    let ports = service.ports.iter().flatten();
    ports
        .filter_map(|port| {
            Some(Port {
                name: port.name.clone().unwrap_or_default(),
                number: number(port, pod)?,
                protocol: protocol(port).to_owned(),
                app_protocol: port.app_protocol.clone(),
            })
        })
        .collect()
}

fn protocol(port: &ServicePort) -> &str {
    port.protocol.as_deref().unwrap_or("TCP")
}

fn number(port: &ServicePort, pod: &Pod) -> Option<i32> {
    match &port.target_port {
        None => Some(port.port),
        Some(IntOrString::Int(0)) => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) => {
            let named = |candidate: &&ContainerPort| {
                candidate.name.as_deref() == Some(name)
                    && candidate.protocol.as_deref().unwrap_or("TCP") == protocol(port)
            };
            let spec = pod.spec.as_ref()?;
            // Restartable init containers serve beside the containers.
            let sidecars =
                spec.init_containers.iter().flatten().filter(|init| init.restart_policy.as_deref() == Some("Always"));
            let mut containers = spec.containers.iter().chain(sidecars);
            let found = containers.find_map(|container: &Container| container.ports.iter().flatten().find(named));
            found.map(|port| port.container_port)
        }
    }
}

/// Address of a pod in a family.
pub(super) fn address(pod: &Pod, family: Family) -> Option<&str> {
    let status = pod.status.as_ref()?;
    let all = status.pod_ips.iter().flatten().map(|address| address.ip.as_str());
    all.chain(status.pod_ip.as_deref()).find(|address| Family::of(address) == Some(family))
}

/// Whether a pod can be an endpoint at all: it has not ended. Terminating pods stay, as not ready, until they are gone.
pub(super) fn eligible(pod: &Pod) -> bool {
    !pods::finished(pod)
}

/// Conditions of a pod as an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Conditions {
    pub(super) ready: bool,
    pub(super) serving: bool,
    pub(super) terminating: bool,
}

pub(super) fn conditions(service: &ServiceSpec, pod: &Pod) -> Conditions {
    let serving = pods::ready(pod);
    let terminating = pods::terminating(pod);
    let publish = service.publish_not_ready_addresses == Some(true);
    Conditions { ready: publish || (serving && !terminating), serving, terminating }
}

/// Reference to a pod as the target of an endpoint.
pub(super) fn target(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// Host name under which the pod is published, when it is a named member of this Service.
pub(super) fn hostname(service: &Service, pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let member = spec.subdomain.is_some() && spec.subdomain == service.metadata.name;
    spec.hostname.clone().filter(|name| member && !name.is_empty())
}
