use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    DaemonEndpoint, Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeStatus, NodeSystemInfo,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Machine, Readings};
use crate::config::{Config, architecture};

/// Pods of a node at most (Kubernetes' default).
const MOST_PODS: u32 = 110;
/// Memory that pods are not given, so that the node does not come to be short of it, bytes.
const RESERVED_MEMORY: u64 = 100 * 1024 * 1024;
/// The Kubernetes version whose node interface this agent has, and its own.
const KUBELET_VERSION: &str = concat!("v1.33.0+skep.", env!("CARGO_PKG_VERSION"));

/// The status of this node. `runtime` is the container runtime's `name://version`.
pub(super) fn status(
    config: &Config,
    machine: &Machine,
    readings: &Readings,
    runtime: &str,
    conditions: Vec<NodeCondition>,
) -> NodeStatus {
    let mut addresses: Vec<NodeAddress> = config
        .node_address
        .iter()
        .map(|addr| NodeAddress { type_: "InternalIP".to_owned(), address: addr.to_string() })
        .collect();
    addresses.push(NodeAddress { type_: "Hostname".to_owned(), address: config.node_name.clone() });
    let resources = |memory: u64, disk: u64| -> BTreeMap<String, Quantity> {
        [
            ("cpu", machine.cpus.to_string()),
            ("memory", format!("{}Ki", memory / 1024)),
            ("ephemeral-storage", format!("{}Ki", disk / 1024)),
            ("pods", MOST_PODS.to_string()),
        ]
        .into_iter()
        .map(|(name, amount)| (name.to_owned(), Quantity(amount)))
        .collect()
    };
    NodeStatus {
        addresses: Some(addresses),
        capacity: Some(resources(readings.memory, readings.disk)),
        // A tenth of the disk is where the shortage begins.
        allocatable: Some(resources(
            readings.memory.saturating_sub(RESERVED_MEMORY),
            readings.disk - readings.disk / 10,
        )),
        conditions: Some(conditions),
        daemon_endpoints: Some(NodeDaemonEndpoints {
            kubelet_endpoint: Some(DaemonEndpoint { port: config.node_api().port().into() }),
        }),
        node_info: Some(NodeSystemInfo {
            architecture: architecture().to_owned(),
            boot_id: machine.boot_id.clone(),
            container_runtime_version: runtime.to_owned(),
            kernel_version: machine.kernel.clone(),
            kube_proxy_version: String::new(),
            kubelet_version: KUBELET_VERSION.to_owned(),
            machine_id: machine.machine_id.clone(),
            operating_system: "linux".to_owned(),
            os_image: machine.os_image.clone(),
            system_uuid: machine.system_uuid.clone(),
            ..NodeSystemInfo::default()
        }),
        ..NodeStatus::default()
    }
}

/// The node's object as it registers.
pub(super) fn node(config: &Config, status: NodeStatus) -> Node {
    Node {
        metadata: ObjectMeta {
            name: Some(config.node_name.clone()),
            labels: Some(config.labels()),
            ..ObjectMeta::default()
        },
        status: Some(status),
        ..Node::default()
    }
}
