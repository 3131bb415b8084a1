//! A node that falls silent is tainted, its pods leave the Services at once and are replaced elsewhere; when it is back it is
//! as any other.

use serde_json::Value;

use super::{Sim, available, condition, seeds};
use crate::controllers::testing::deployment;
use crate::controllers::{Key, Kind};

fn taints(node: &Value) -> Vec<(&str, &str)> {
    let taints = node["spec"]["taints"].as_array();
    taints
        .into_iter()
        .flatten()
        .map(|taint| (taint["key"].as_str().unwrap_or_default(), taint["effect"].as_str().unwrap_or_default()))
        .collect()
}

#[test]
fn pods_of_a_lost_node_are_replaced() {
    seeds(8, |seed| {
        let mut sim = Sim::new(seed, 3);
        sim.world.must(deployment("web", 6));
        sim.settle();
        sim.alive.remove("node-1");
        for _ in 0..200 {
            sim.step();
        }
        sim.settle();
        let node = Key::cluster(Kind::Node, "node-1");
        let lost = sim.world.value(&node).expect("is there").clone();
        assert_eq!(condition(&lost, "Ready"), Some("Unknown"));
        let unreachable = "node.kubernetes.io/unreachable";
        assert_eq!(taints(&lost), [(unreachable, "NoSchedule"), (unreachable, "NoExecute")]);
        assert!(sim.pods(|pod| pod["spec"]["nodeName"] == "node-1" && available(pod)).is_empty());
        assert_eq!(sim.pods(available).len(), 6, "replaced elsewhere");
        // What ran there stays Terminating: nobody can say that it ended.
        assert!(
            sim.pods(|pod| pod["spec"]["nodeName"] == "node-1").iter().all(|pod| crate::api::meta::is_deleting(pod))
        );

        sim.alive.insert("node-1".to_owned());
        sim.settle();
        let back = sim.world.value(&node).expect("is there").clone();
        assert_eq!(condition(&back, "Ready"), Some("True"));
        assert!(taints(&back).is_empty());
        assert_eq!(sim.pods(|_| true).len(), 6);
    });
}

#[test]
fn when_every_node_is_silent_nothing_is_evicted() {
    seeds(5, |seed| {
        let mut sim = Sim::new(seed, 2);
        sim.world.must(deployment("web", 4));
        sim.settle();
        sim.alive.clear();
        sim.settle();
        assert_eq!(sim.pods(super::active).len(), 4);
        assert!(sim.pods(available).is_empty());
    });
}

#[test]
fn pods_of_a_removed_node_are_collected() {
    seeds(5, |seed| {
        let mut sim = Sim::new(seed, 2);
        sim.world.must(deployment("web", 4));
        sim.settle();
        sim.alive.remove("node-1");
        sim.world.remove(&Key::cluster(Kind::Node, "node-1"));
        sim.settle();
        assert!(sim.pods(|pod| pod["spec"]["nodeName"] == "node-1").is_empty());
        assert_eq!(sim.pods(available).len(), 4);
    });
}
