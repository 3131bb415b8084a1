//! Pods and pod templates: defaults, rules, what may change, how they are printed.

mod change;
mod container;
mod default;
mod print;
mod spec;
mod volume;

use serde_json::Value;

use super::access::{items, text};
use super::quantity;

pub(crate) use change::validate_change;
pub(crate) use container::{check_port, check_port_or_name};
pub(crate) use default::{admit, default_pod, default_template};
pub(crate) use print::row;
pub(crate) use spec::{validate_spec, validate_template, validate_workload_selector};

/// `Guaranteed`, `Burstable` or `BestEffort`, by the requests and limits of all containers.
pub(crate) fn qos_class(spec: &Value) -> &'static str {
    let containers = || items(&spec["containers"]).iter().chain(items(&spec["initContainers"]));
    let amount = |c: &Value, kind: &str, name: &str| {
        quantity::parse(text(&c["resources"][kind][name])).ok().filter(|q| q.milli() > 0)
    };
    let names = ["cpu", "memory"];
    let any = containers()
        .any(|c| names.iter().any(|n| amount(c, "requests", n).is_some() || amount(c, "limits", n).is_some()));
    let guaranteed = containers().all(|c| {
        names.iter().all(|n| {
            let limit = amount(c, "limits", n);
            limit.is_some() && amount(c, "requests", n) == limit
        })
    });
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests;
