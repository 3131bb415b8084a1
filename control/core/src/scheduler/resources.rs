//! Amounts that pods ask for and nodes have.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;

use crate::api::quantity::{self, Quantity};

/// CPU that a container without a request is taken to use when nodes are compared, thousandths of a core.
const ASSUMED_CPU: i64 = 100;
/// Memory that a container without a request is taken to use when nodes are compared, bytes.
const ASSUMED_MEMORY: i64 = 200 * 1024 * 1024;

/// Amounts of resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Resources {
    /// Thousandths of a core.
    pub(super) cpu: i64,
    /// Bytes.
    pub(super) memory: i64,
    /// Bytes of ephemeral storage.
    pub(super) ephemeral: i64,
    /// Extended resources and huge pages, whole units.
    pub(super) others: BTreeMap<String, i64>,
}

type Listed = BTreeMap<String, Text>;

impl Resources {
    fn of(listed: Option<&Listed>) -> Self {
        let mut resources = Self::default();
        for (name, text) in listed.into_iter().flatten() {
            // Validation has seen every quantity that is stored; one that does not parse asks for nothing.
            let Ok(quantity) = quantity::parse(&text.0) else { continue };
            match name.as_str() {
                "cpu" => resources.cpu = quantity.milli(),
                "memory" => resources.memory = quantity.value(),
                "ephemeral-storage" => resources.ephemeral = quantity.value(),
                "pods" => {}
                _ => {
                    resources.others.insert(name.clone(), quantity.value());
                }
            }
        }
        resources
    }

    /// Adds amounts.
    pub(super) fn add(&mut self, other: &Self) {
        self.cpu += other.cpu;
        self.memory += other.memory;
        self.ephemeral += other.ephemeral;
        for (name, amount) in &other.others {
            *self.others.entry(name.clone()).or_default() += amount;
        }
    }

    /// Takes amounts away.
    pub(super) fn subtract(&mut self, other: &Self) {
        self.cpu -= other.cpu;
        self.memory -= other.memory;
        self.ephemeral -= other.ephemeral;
        for (name, amount) in &other.others {
            *self.others.entry(name.clone()).or_default() -= amount;
        }
    }

    fn max(&mut self, other: &Self) {
        self.cpu = self.cpu.max(other.cpu);
        self.memory = self.memory.max(other.memory);
        self.ephemeral = self.ephemeral.max(other.ephemeral);
        for (name, amount) in &other.others {
            let known = self.others.entry(name.clone()).or_default();
            *known = (*known).max(*amount);
        }
    }
}

/// What a pod asks for, and what it is taken to use when nodes are compared.
pub(super) fn requested(pod: &Pod) -> (Resources, Resources) {
    (total(pod, request), total(pod, assumed))
}

fn request(container: &Container) -> Resources {
    Resources::of(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()))
}

fn assumed(container: &Container) -> Resources {
    let mut resources = request(container);
    let asks = |name: &str| {
        let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        requests.is_some_and(|requests| requests.contains_key(name))
    };
    if !asks("cpu") {
        resources.cpu = ASSUMED_CPU;
    }
    if !asks("memory") {
        resources.memory = ASSUMED_MEMORY;
    }
    resources
}

/// A pod's amounts: all containers and sidecars together, or the largest init container with the sidecars started before it,
/// whichever is more; and the overhead of the pod itself.
fn total(pod: &Pod, of: fn(&Container) -> Resources) -> Resources {
    let Some(spec) = &pod.spec else { return Resources::default() };
    let mut running = Resources::default();
    let mut starting = Resources::default();
    for init in spec.init_containers.iter().flatten() {
        let mut peak = of(init);
        if init.restart_policy.as_deref() == Some("Always") {
            running.add(&peak);
            peak = running.clone();
        } else {
            peak.add(&running);
        }
        starting.max(&peak);
    }
    for container in &spec.containers {
        running.add(&of(container));
    }
    running.max(&starting);
    running.add(&Resources::of(spec.overhead.as_ref()));
    running
}

/// What a node has for pods, and how many of them; `None` when it does not limit their number.
pub(super) fn allocatable(node: &Node) -> (Resources, Option<i64>) {
    let listed = node.status.as_ref().and_then(|status| status.allocatable.as_ref().or(status.capacity.as_ref()));
    let pods = listed.and_then(|listed| listed.get("pods")).and_then(|text| quantity::parse(&text.0).ok());
    (Resources::of(listed), pods.map(Quantity::value))
}
