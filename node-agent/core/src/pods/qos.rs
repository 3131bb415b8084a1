//! Quality of service: which pods the kernel kills first when memory runs out.

use std::fmt;

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};

use super::quantity;

/// The class of a pod, by its requests and limits of CPU and memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum QosClass {
    /// Every container has limits for both, and requests equal to them.
    Guaranteed,
    /// Some container requests or limits something.
    Burstable,
    /// No container requests or limits anything.
    BestEffort,
}

impl fmt::Display for QosClass {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        })
    }
}

/// Everything that runs in the pod counts, init containers too.
#[must_use]
pub fn class(spec: &PodSpec) -> QosClass {
    let mut any = false;
    let mut guaranteed = true;
    for container in spec.containers.iter().chain(spec.init_containers.iter().flatten()) {
        for resource in ["cpu", "memory"] {
            let limit = amount(container.resources.as_ref(), Side::Limit, resource);
            let request = amount(container.resources.as_ref(), Side::Request, resource);
            any |= limit.is_some() || request.is_some();
            guaranteed &= limit.is_some() && request.is_none_or(|request| Some(request) == limit);
        }
    }
    match (any, guaranteed) {
        (true, true) => QosClass::Guaranteed,
        (true, false) => QosClass::Burstable,
        (false, _) => QosClass::BestEffort,
    }
}

/// `oom_score_adj` of a container's processes, as Kubernetes documents it: -997 for Guaranteed (and node-critical) pods,
/// 1000 for `BestEffort`, and between for Burstable the lower the larger the share of memory that is requested.
#[must_use]
pub fn oom_score_adj(spec: &PodSpec, container: &Container, memory_capacity: i64) -> i64 {
    const NODE_CRITICAL_PRIORITY: i32 = 2_000_001_000;
    const GUARANTEED: i64 = -997;
    if spec.priority.is_some_and(|priority| priority >= NODE_CRITICAL_PRIORITY) {
        return GUARANTEED;
    }
    match class(spec) {
        QosClass::Guaranteed => GUARANTEED,
        QosClass::BestEffort => 1000,
        QosClass::Burstable => {
            let request = amount(container.resources.as_ref(), Side::Request, "memory").unwrap_or(0);
            let share = i64::try_from(i128::from(request) * 1000 / i128::from(memory_capacity.max(1))).unwrap_or(1000);
            (1000 - share).clamp(1000 + GUARANTEED, 999)
        }
    }
}

/// Requests or limits.
#[derive(Clone, Copy)]
enum Side {
    Request,
    Limit,
}

/// Thousandths of CPU or bytes of memory; zero counts as unset, as does what cannot be read (the API rejects that).
fn amount(resources: Option<&ResourceRequirements>, side: Side, resource: &str) -> Option<i64> {
    let resources = resources?;
    let map = match side {
        Side::Request => resources.requests.as_ref(),
        Side::Limit => resources.limits.as_ref(),
    }?;
    let quantity = map.get(resource)?;
    let amount = if resource == "cpu" { quantity::milli(quantity) } else { quantity::units(quantity) };
    amount.ok().filter(|amount| *amount != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(resources: serde_json::Value) -> PodSpec {
        serde_json::from_value(json!({"containers": [{"name": "a", "image": "i", "resources": resources}]})).unwrap()
    }

    #[test]
    fn classes_and_scores() {
        let gib = 1 << 30;
        let table = [
            (json!({}), QosClass::BestEffort, 1000),
            (json!({"limits": {"cpu": "0"}}), QosClass::BestEffort, 1000),
            (json!({"requests": {"cpu": "1"}}), QosClass::Burstable, 999),
            (json!({"requests": {"memory": "512Mi"}}), QosClass::Burstable, 500),
            (json!({"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}}), QosClass::Burstable, 3),
            (json!({"limits": {"cpu": "1", "memory": "1Gi"}}), QosClass::Guaranteed, -997),
            (
                json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}}),
                QosClass::Guaranteed,
                -997,
            ),
        ];
        for (resources, expected, score) in table {
            let spec = spec(resources.clone());
            assert_eq!(class(&spec), expected, "{resources}");
            assert_eq!(oom_score_adj(&spec, &spec.containers[0], gib), score, "{resources}");
        }
    }
}
