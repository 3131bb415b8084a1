//! Label selectors as they stand in objects, compiled for matching.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Labels of an object; absent labels are an empty map.
pub(crate) type Labels = BTreeMap<String, String>;

/// Whether an object's labels satisfy a selector.
///
/// An empty selector matches everything; an unknown operator matches nothing (validation refuses it at the door).
#[must_use]
pub(crate) fn matches(selector: &LabelSelector, labels: Option<&Labels>) -> bool {
    let value = |key: &str| labels.and_then(|labels| labels.get(key));
    let equal = selector.match_labels.iter().flatten().all(|(key, wanted)| value(key) == Some(wanted));
    equal
        && selector.match_expressions.iter().flatten().all(|requirement| {
            let listed = |found: &String| requirement.values.iter().flatten().any(|wanted| wanted == found);
            match requirement.operator.as_str() {
                "In" => value(&requirement.key).is_some_and(listed),
                "NotIn" => !value(&requirement.key).is_some_and(listed),
                "Exists" => value(&requirement.key).is_some(),
                "DoesNotExist" => value(&requirement.key).is_none(),
                _ => false,
            }
        })
}

/// Whether a selector selects everything, which workload controllers treat as selecting nothing.
#[must_use]
pub(crate) fn is_empty(selector: &LabelSelector) -> bool {
    selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty)
}

/// Whether labels carry every pair of an equality selector, as in a Service.
#[must_use]
pub(crate) fn contains(labels: Option<&Labels>, selector: &Labels) -> bool {
    selector.iter().all(|(key, wanted)| labels.and_then(|labels| labels.get(key)) == Some(wanted))
}
