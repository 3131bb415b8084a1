//! What decisions are made on: nodes with what is taken of them, kept up one change at a time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Service, Taint};

use super::resources::{Resources, allocatable, requested};
use crate::controllers::node::{NOT_READY, UNREACHABLE, ready};
use crate::controllers::selector::{Labels, contains};
use crate::controllers::{Index, Key, Kind, controller_of};

/// Pods that should not all be on one node: those of one controller, or behind one Service selector.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Group {
    /// UID of the controller.
    Controller(String),
    /// Namespace and selector; Services with the same selector are one group.
    Selector(String, Labels),
}

/// A port of the node that a pod occupies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostPort {
    protocol: String,
    /// `0.0.0.0` is every address.
    address: String,
    port: i32,
}

impl HostPort {
    /// Whether both cannot be on one node.
    pub(super) fn clashes(&self, other: &Self) -> bool {
        let everywhere = |port: &Self| port.address == "0.0.0.0" || port.address == "::";
        self.port == other.port
            && self.protocol == other.protocol
            && (everywhere(self) || everywhere(other) || self.address == other.address)
    }
}

/// A pod as the scheduler sees it.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    pub(super) pod: Arc<Pod>,
    /// What it asks for.
    pub(super) requests: Resources,
    /// What it is taken to use when nodes are compared.
    pub(super) assumed: Resources,
    pub(super) ports: Vec<HostPort>,
    pub(super) groups: BTreeSet<Group>,
}

impl Demand {
    pub(super) fn of(pod: &Arc<Pod>, index: &Index) -> Self {
        let (requests, assumed) = requested(pod);
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        let mut groups: BTreeSet<Group> =
            controller_of(&pod.metadata).map(|owner| Group::Controller(owner.uid.clone())).into_iter().collect();
        for service in index.services_selecting(&namespace, pod.metadata.labels.as_ref()) {
            if let Some(selector) = selector(service) {
                groups.insert(Group::Selector(namespace.clone(), selector.clone()));
            }
        }
        Self { requests, assumed, ports: host_ports(pod), groups, pod: pod.clone() }
    }
}

fn selector(service: &Service) -> Option<&Labels> {
    service.spec.as_ref()?.selector.as_ref().filter(|selector| !selector.is_empty())
}

fn host_ports(pod: &Pod) -> Vec<HostPort> {
    // Restartable init containers run beside the containers.
    let sidecars = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let sidecars = sidecars.filter(|init| init.restart_policy.as_deref() == Some("Always"));
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers
        .chain(sidecars)
        .flat_map(|container| container.ports.iter().flatten())
        .filter_map(|port| {
            Some(HostPort {
                protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
                address: port.host_ip.clone().filter(|ip| !ip.is_empty()).unwrap_or_else(|| "0.0.0.0".to_owned()),
                port: port.host_port.filter(|port| *port > 0)?,
            })
        })
        .collect()
}

/// A node and what is taken of it.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeInfo {
    pub(super) name: String,
    /// Whether the Node object is there; pods can be bound to one that is not.
    exists: bool,
    pub(super) labels: Labels,
    pub(super) taints: Vec<Taint>,
    pub(super) unschedulable: bool,
    pub(super) allocatable: Resources,
    /// Most pods, if limited.
    pub(super) most_pods: Option<i64>,
    pub(super) requested: Resources,
    pub(super) assumed: Resources,
    pub(super) pods: i64,
    pub(super) ports: Vec<HostPort>,
    /// Pods by group.
    pub(super) groups: HashMap<Group, u32>,
}

impl NodeInfo {
    fn add(&mut self, demand: &Demand) {
        self.pods += 1;
        self.requested.add(&demand.requests);
        self.assumed.add(&demand.assumed);
        self.ports.extend(demand.ports.iter().cloned());
        for group in &demand.groups {
            *self.groups.entry(group.clone()).or_default() += 1;
        }
    }

    fn subtract(&mut self, demand: &Demand) {
        self.pods -= 1;
        self.requested.subtract(&demand.requests);
        self.assumed.subtract(&demand.assumed);
        for port in &demand.ports {
            if let Some(place) = self.ports.iter().position(|known| known == port) {
                self.ports.swap_remove(place);
            }
        }
        for group in &demand.groups {
            if let Some(count) = self.groups.get_mut(group) {
                *count -= 1;
                if *count == 0 {
                    self.groups.remove(group);
                }
            }
        }
    }
}

#[derive(Debug)]
struct Placed {
    node: String,
    demand: Demand,
}

/// Every node, and every pod that has one.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    nodes: BTreeMap<String, NodeInfo>,
    pods: BTreeMap<Key, Placed>,
}

impl Snapshot {
    /// The nodes that exist.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &NodeInfo> {
        self.nodes.values().filter(|node| node.exists)
    }

    /// Takes over a Node, or its removal; reports whether a pod that was refused might be accepted now.
    pub(super) fn set_node(&mut self, name: &str, node: Option<&Arc<Node>>) -> bool {
        let Some(node) = node else {
            if let Some(info) = self.nodes.get_mut(name) {
                info.exists = false;
                if info.pods == 0 {
                    self.nodes.remove(name);
                }
            }
            return false;
        };
        let info = self.nodes.entry(name.to_owned()).or_default();
        let (allocatable, most_pods) = allocatable(node);
        let labels = node.metadata.labels.clone().unwrap_or_default();
        let spec = node.spec.as_ref();
        let mut taints = spec.and_then(|spec| spec.taints.clone()).unwrap_or_default();
        if !ready(node) && !taints.iter().any(|taint| [NOT_READY, UNREACHABLE].contains(&taint.key.as_str())) {
            // The taint is about to be written; a node must not get pods in between.
            taints.push(Taint { key: NOT_READY.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() });
        }
        let unschedulable = spec.and_then(|spec| spec.unschedulable) == Some(true);
        let relevant = !info.exists
            || info.labels != labels
            || info.taints != taints
            || info.unschedulable != unschedulable
            || info.allocatable != allocatable
            || info.most_pods != most_pods;
        name.clone_into(&mut info.name);
        info.exists = true;
        info.labels = labels;
        info.taints = taints;
        info.unschedulable = unschedulable;
        info.allocatable = allocatable;
        info.most_pods = most_pods;
        relevant
    }

    /// Puts a pod on a node, also when it is there already or was on another.
    pub(super) fn place(&mut self, key: &Key, node: &str, demand: Demand) {
        self.remove(key);
        let info = self.nodes.entry(node.to_owned()).or_default();
        node.clone_into(&mut info.name);
        info.add(&demand);
        self.pods.insert(key.clone(), Placed { node: node.to_owned(), demand });
    }

    /// Takes a pod off its node; `false` when it had none.
    pub(super) fn remove(&mut self, key: &Key) -> bool {
        let Some(placed) = self.pods.remove(key) else { return false };
        if let Some(info) = self.nodes.get_mut(&placed.node) {
            info.subtract(&placed.demand);
            if info.pods == 0 && !info.exists {
                self.nodes.remove(&placed.node);
            }
        }
        true
    }

    /// Counts the pods behind a Service's selector as a group from now on. Groups of Services that are gone stay with the pods
    /// that were counted: they still belong together.
    pub(super) fn spread_service(&mut self, namespace: &str, service: &Service) {
        let Some(selector) = selector(service) else { return };
        let first = Key::new(Kind::Pod, namespace, "");
        for (key, placed) in self.pods.range_mut((Bound::Included(first), Bound::Unbounded)) {
            if key.namespace != namespace {
                break;
            }
            if !contains(placed.demand.pod.metadata.labels.as_ref(), selector) {
                continue;
            }
            let group = Group::Selector(namespace.to_owned(), selector.clone());
            if placed.demand.groups.insert(group.clone())
                && let Some(node) = self.nodes.get_mut(&placed.node)
            {
                *node.groups.entry(group).or_default() += 1;
            }
        }
    }
}
