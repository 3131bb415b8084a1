//! A pod is bound once, and no node gets more than it has.

use serde_json::json;

use super::{Sim, seeds};
use crate::controllers::testing::deployment;
use crate::controllers::{Change, Object};

#[test]
fn no_pod_is_bound_twice_and_no_node_is_overcommitted() {
    seeds(15, |seed| {
        let mut sim = Sim::new(seed, 2);
        let mut web = deployment("web", 10);
        web["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "900m"}});
        let key = sim.world.must(web);
        for round in 0..400 {
            sim.step();
            if round % 100 == 99 {
                let replicas = 4 + sim.draw(8);
                sim.world.merge(&key, None, &json!({"spec": {"replicas": replicas}})).expect("scales");
            }
            for node in ["node-1", "node-2"] {
                let pods = sim.pods(|pod| pod["spec"]["nodeName"] == node).len();
                assert!(pods <= 4, "{pods} pods of 900m on {node}, which has 4 cores");
            }
        }
        let mut bound = std::collections::BTreeMap::new();
        for change in &sim.world.log {
            if let Change::Upsert { object: Object::Pod(pod), .. } = change
                && let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.clone())
            {
                let before = bound.entry(pod.metadata.uid.clone()).or_insert_with(|| node.clone());
                assert_eq!(*before, node, "a pod moved");
            }
        }
    });
}
