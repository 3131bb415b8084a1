//! Filters: whether a node can take a pod at all, and why not.
//!
//! They run in the order in which Kubernetes runs them; the first that refuses a node gives its reasons.

use std::fmt;

use k8s_openapi::api::core::v1::{Taint, Toleration};

use super::affinity;
use super::snapshot::{Demand, NodeInfo};

/// Why a node cannot take a pod. Printed in the words that users know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The node is cordoned.
    Unschedulable,
    /// The pod names another node.
    NodeName,
    /// A taint that the pod does not tolerate.
    Taint {
        /// Key of the taint.
        key: String,
        /// Value of the taint, empty when it has none.
        value: String,
    },
    /// Node selector or required affinity.
    Affinity,
    /// A host port is taken.
    Ports,
    /// As many pods as the node allows.
    TooManyPods,
    /// Less of a resource is free than asked for.
    Insufficient(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unschedulable => f.write_str("node(s) were unschedulable"),
            Self::NodeName => f.write_str("node(s) didn't match the requested node name"),
            Self::Taint { key, value } => write!(f, "node(s) had untolerated taint {{{key}: {value}}}"),
            Self::Affinity => f.write_str("node(s) didn't match Pod's node affinity/selector"),
            Self::Ports => f.write_str("node(s) didn't have free ports for the requested pod ports"),
            Self::TooManyPods => f.write_str("Too many pods"),
            Self::Insufficient(resource) => write!(f, "Insufficient {resource}"),
        }
    }
}

type Filter = fn(&Demand, &NodeInfo) -> Vec<Reason>;

const FILTERS: [Filter; 6] = [unschedulable, node_name, taints, node_affinity, ports, resources];

/// Reasons of the first filter that refuses the node; empty when it can take the pod.
pub(super) fn run(demand: &Demand, node: &NodeInfo) -> Vec<Reason> {
    FILTERS.iter().map(|filter| filter(demand, node)).find(|reasons| !reasons.is_empty()).unwrap_or_default()
}

fn tolerations(demand: &Demand) -> &[Toleration] {
    demand.pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default()
}

fn unschedulable(demand: &Demand, node: &NodeInfo) -> Vec<Reason> {
    let taint = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    let refused = node.unschedulable && !tolerations(demand).iter().any(|toleration| tolerates(toleration, &taint));
    if refused { vec![Reason::Unschedulable] } else { Vec::new() }
}

fn node_name(demand: &Demand, node: &NodeInfo) -> Vec<Reason> {
    let wanted = demand.pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).filter(|name| !name.is_empty());
    if wanted.is_some_and(|wanted| wanted != node.name) { vec![Reason::NodeName] } else { Vec::new() }
}

fn taints(demand: &Demand, node: &NodeInfo) -> Vec<Reason> {
    let untolerated = |taint: &&Taint| {
        matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
            && !tolerations(demand).iter().any(|toleration| tolerates(toleration, taint))
    };
    let taint = node.taints.iter().find(untolerated);
    taint
        .map(|taint| Reason::Taint { key: taint.key.clone(), value: taint.value.clone().unwrap_or_default() })
        .into_iter()
        .collect()
}

fn node_affinity(demand: &Demand, node: &NodeInfo) -> Vec<Reason> {
    if affinity::required(&demand.pod, node) { Vec::new() } else { vec![Reason::Affinity] }
}

fn ports(demand: &Demand, node: &NodeInfo) -> Vec<Reason> {
    let taken = demand.ports.iter().any(|port| node.ports.iter().any(|known| known.clashes(port)));
    if taken { vec![Reason::Ports] } else { Vec::new() }
}

fn resources(demand: &Demand, node: &NodeInfo) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if node.most_pods.is_some_and(|most| node.pods >= most) {
        reasons.push(Reason::TooManyPods);
    }
    let (asked, has, taken) = (&demand.requests, &node.allocatable, &node.requested);
    let mut check = |name: &str, asked: i64, has: i64, taken: i64| {
        if asked > 0 && asked > has - taken {
            reasons.push(Reason::Insufficient(name.to_owned()));
        }
    };
    check("cpu", asked.cpu, has.cpu, taken.cpu);
    check("memory", asked.memory, has.memory, taken.memory);
    check("ephemeral-storage", asked.ephemeral, has.ephemeral, taken.ephemeral);
    for (name, amount) in &asked.others {
        let of = |amounts: &std::collections::BTreeMap<String, i64>| amounts.get(name).copied().unwrap_or_default();
        check(name, *amount, of(&has.others), of(&taken.others));
    }
    reasons
}

/// Whether a toleration tolerates a taint: same effect or any, same key or (with Exists) any, and the value unless Exists.
pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let stated = |text: &Option<String>| text.clone().unwrap_or_default();
    let (effect, key) = (stated(&toleration.effect), stated(&toleration.key));
    if (!effect.is_empty() && effect != taint.effect) || (!key.is_empty() && key != taint.key) {
        return false;
    }
    match toleration.operator.as_deref() {
        Some("Exists") => true,
        None | Some("" | "Equal") => !key.is_empty() && stated(&toleration.value) == stated(&taint.value),
        Some(_) => false,
    }
}
