//! Node selectors and node affinity.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm, Pod};

use super::snapshot::NodeInfo;
use crate::controllers::selector::contains;

fn node_affinity(pod: &Pod) -> Option<&NodeAffinity> {
    pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()
}

/// Whether a node satisfies what a pod requires of it: every pair of its node selector, and one of the terms of its affinity.
pub(super) fn required(pod: &Pod, node: &NodeInfo) -> bool {
    let selector = pod.spec.as_ref().and_then(|spec| spec.node_selector.as_ref());
    if !selector.is_none_or(|selector| contains(Some(&node.labels), selector)) {
        return false;
    }
    let terms =
        node_affinity(pod).and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    terms.is_none_or(|required| required.node_selector_terms.iter().any(|term| matches(term, node)))
}

/// Sum of the weights of the preferences that a node satisfies.
pub(super) fn preference(pod: &Pod, node: &NodeInfo) -> i64 {
    let preferred =
        node_affinity(pod).and_then(|affinity| affinity.preferred_during_scheduling_ignored_during_execution.as_ref());
    let preferred = preferred.into_iter().flatten();
    preferred.filter(|term| matches(&term.preference, node)).map(|term| i64::from(term.weight)).sum()
}

/// A term without requirements matches no node.
fn matches(term: &NodeSelectorTerm, node: &NodeInfo) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    let names = BTreeMap::from([("metadata.name".to_owned(), node.name.clone())]);
    expressions.iter().all(|requirement| satisfies(requirement, &node.labels))
        && fields.iter().all(|requirement| satisfies(requirement, &names))
}

fn satisfies(requirement: &NodeSelectorRequirement, values: &BTreeMap<String, String>) -> bool {
    let value = values.get(&requirement.key);
    let wanted = requirement.values.as_deref().unwrap_or_default();
    let compare = |holds: fn(i64, i64) -> bool| {
        let value = value.and_then(|value| value.parse().ok());
        let bound = wanted.first().and_then(|bound| bound.parse().ok());
        value.zip(bound).is_some_and(|(value, bound)| holds(value, bound))
    };
    match requirement.operator.as_str() {
        "In" => value.is_some_and(|value| wanted.contains(value)),
        "NotIn" => !value.is_some_and(|value| wanted.contains(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare(|value, bound| value > bound),
        "Lt" => compare(|value, bound| value < bound),
        _ => false,
    }
}
