//! Scores: which of the nodes that can take a pod should. Each gives 0 to 100, and the weighted sums are compared.

use super::affinity;
use super::filters::tolerates;
use super::snapshot::{Demand, NodeInfo};

const FULL: i64 = 100;

/// What a node's raw score means.
enum Scale {
    /// 0 to 100 already.
    Absolute,
    /// Relative to the highest: that gets 100.
    MoreIsBetter,
    /// Relative to the highest: that gets 0.
    FewerIsBetter,
}

struct Score {
    weight: i64,
    scale: Scale,
    raw: fn(&Demand, &NodeInfo) -> i64,
}

const SCORES: [Score; 5] = [
    Score { weight: 1, scale: Scale::Absolute, raw: least_allocated },
    Score { weight: 1, scale: Scale::Absolute, raw: balanced },
    Score { weight: 2, scale: Scale::MoreIsBetter, raw: preferred },
    Score { weight: 2, scale: Scale::FewerIsBetter, raw: crowd },
    Score { weight: 3, scale: Scale::FewerIsBetter, raw: disliked_taints },
];

/// The best of the nodes; among equals the draw decides.
pub(super) fn best<'a>(demand: &Demand, nodes: &[&'a NodeInfo], draw: u64) -> Option<&'a str> {
    let mut totals = vec![0; nodes.len()];
    for score in &SCORES {
        let raw: Vec<i64> = nodes.iter().map(|node| (score.raw)(demand, node)).collect();
        let highest = raw.iter().copied().max().unwrap_or_default();
        for (total, raw) in totals.iter_mut().zip(raw) {
            let scaled = match score.scale {
                Scale::Absolute => raw,
                Scale::MoreIsBetter if highest > 0 => raw * FULL / highest,
                Scale::MoreIsBetter => 0,
                Scale::FewerIsBetter if highest > 0 => FULL - raw * FULL / highest,
                Scale::FewerIsBetter => FULL,
            };
            *total += scaled * score.weight;
        }
    }
    let highest = totals.iter().copied().max()?;
    let equals: Vec<&str> =
        nodes.iter().zip(totals).filter(|(_, total)| *total == highest).map(|(node, _)| node.name.as_str()).collect();
    let chosen = usize::try_from(draw % (equals.len().max(1) as u64)).unwrap_or_default();
    equals.get(chosen).copied()
}

/// The share of CPU and memory that stays free.
fn least_allocated(demand: &Demand, node: &NodeInfo) -> i64 {
    let free = |asked: i64, has: i64, taken: i64| {
        if has <= 0 { 0 } else { ((has - taken - asked).max(0)).saturating_mul(FULL) / has }
    };
    let (asked, has, taken) = (&demand.assumed, &node.allocatable, &node.assumed);
    (free(asked.cpu, has.cpu, taken.cpu) + free(asked.memory, has.memory, taken.memory)) / 2
}

/// How close the shares of CPU and memory in use are to each other.
fn balanced(demand: &Demand, node: &NodeInfo) -> i64 {
    let used = |asked: i64, has: i64, taken: i64| {
        if has <= 0 { FULL } else { (taken + asked).saturating_mul(FULL).checked_div(has).unwrap_or(FULL).min(FULL) }
    };
    let (asked, has, taken) = (&demand.requests, &node.allocatable, &node.requested);
    let difference = used(asked.cpu, has.cpu, taken.cpu) - used(asked.memory, has.memory, taken.memory);
    FULL - difference.abs() / 2
}

fn preferred(demand: &Demand, node: &NodeInfo) -> i64 {
    affinity::preference(&demand.pod, node)
}

/// Pods on the node that belong with this one.
fn crowd(demand: &Demand, node: &NodeInfo) -> i64 {
    demand.groups.iter().map(|group| node.groups.get(group).copied().map_or(0, i64::from)).sum()
}

/// `PreferNoSchedule` taints that the pod does not tolerate.
fn disliked_taints(demand: &Demand, node: &NodeInfo) -> i64 {
    let tolerations = demand.pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
    let disliked = node.taints.iter().filter(|taint| {
        taint.effect == "PreferNoSchedule" && !tolerations.iter().any(|toleration| tolerates(toleration, taint))
    });
    i64::try_from(disliked.count()).unwrap_or(i64::MAX)
}
