//! Whatever happened before: in the end there are as many ready pods of the current template as asked for, and nothing else.

use serde_json::json;

use super::{Sim, available, seeds};
use crate::api::DeleteOptions;
use crate::controllers::testing::deployment;
use crate::controllers::{Key, Kind};

#[test]
fn replicas_converge_after_chaos() {
    seeds(10, |seed| {
        let mut sim = Sim::new(seed, 3);
        let names = ["one", "two"];
        let keys: Vec<Key> = names.iter().map(|name| sim.world.must(deployment(name, 3))).collect();
        let mut wanted = [3, 3];
        let mut image = [1, 1];
        for _ in 0..600 {
            sim.step();
            let which = usize::try_from(sim.draw(2)).expect("small");
            match sim.draw(60) {
                0 => {
                    wanted[which] = i32::try_from(sim.draw(7)).expect("small");
                    let body = json!({"spec": {"replicas": wanted[which]}});
                    sim.world.merge(&keys[which], None, &body).expect("scales");
                }
                1 => {
                    image[which] += 1;
                    let body = json!({"spec": {"template": {"spec": {"containers": [
                        {"name": "main", "image": format!("demo:{}", image[which])},
                    ]}}}});
                    sim.world.merge(&keys[which], None, &body).expect("changes the image");
                }
                2 => {
                    let pods = sim.world.keys(Kind::Pod);
                    if !pods.is_empty() {
                        let victim = usize::try_from(sim.draw(pods.len() as u64)).expect("small");
                        sim.world.delete(&pods[victim], &DeleteOptions::default()).expect("deletes");
                    }
                }
                3 => {
                    let paused = sim.draw(2) == 0;
                    sim.world.merge(&keys[which], None, &json!({"spec": {"paused": paused}})).expect("pauses");
                }
                _ => {}
            }
        }
        for key in &keys {
            sim.world.merge(key, None, &json!({"spec": {"paused": false}})).expect("resumes");
        }
        sim.settle();
        for (place, name) in names.iter().enumerate() {
            let pods = sim.pods(|pod| pod["metadata"]["labels"]["app"] == *name);
            let wanted_pods = usize::try_from(wanted[place]).expect("small");
            assert_eq!(pods.len(), wanted_pods, "pods of {name}");
            assert!(pods.iter().all(|pod| available(pod)));
            let image = format!("demo:{}", image[place]);
            assert!(pods.iter().all(|pod| pod["spec"]["containers"][0]["image"] == image.as_str()));
            let status = &sim.world.value(&keys[place]).expect("is there")["status"];
            assert_eq!(status["availableReplicas"].as_i64().unwrap_or_default(), i64::from(wanted[place]));
            assert_eq!(status["updatedReplicas"].as_i64().unwrap_or_default(), i64::from(wanted[place]));
            assert!(status.get("unavailableReplicas").is_none(), "{status}");
        }
        // No pod without its set, no set without its Deployment.
        for kind in [Kind::Pod, Kind::ReplicaSet] {
            for (key, object) in sim.world.values(kind) {
                let owner = &object["metadata"]["ownerReferences"][0]["uid"];
                let owned = [Kind::ReplicaSet, Kind::Deployment]
                    .iter()
                    .any(|kind| sim.world.values(*kind).any(|(_, candidate)| candidate["metadata"]["uid"] == *owner));
                assert!(owned, "{key} has no owner");
            }
        }
    });
}

#[test]
fn deleting_a_deployment_leaves_nothing() {
    for policy in ["Background", "Foreground"] {
        seeds(6, |seed| {
            let mut sim = Sim::new(seed, 2);
            let key = sim.world.must(deployment("web", 4));
            for _ in 0..200 + seed * 10 {
                sim.step();
            }
            let options = DeleteOptions { propagation_policy: Some(policy.to_owned()), ..DeleteOptions::default() };
            sim.world.delete(&key, &options).expect("deletes");
            for _ in 0..200 {
                sim.step();
                if policy == "Foreground" && !sim.world.keys(Kind::ReplicaSet).is_empty() {
                    assert!(sim.world.value(&key).is_some(), "the owner went before its dependents");
                }
            }
            sim.settle();
            for kind in [Kind::Deployment, Kind::ReplicaSet, Kind::Pod] {
                assert_eq!(sim.world.keys(kind), Vec::new());
            }
        });
    }
}

#[test]
fn orphaned_pods_stay_and_are_adopted_again() {
    seeds(6, |seed| {
        let mut sim = Sim::new(seed, 2);
        let key = sim.world.must(deployment("web", 3));
        sim.settle();
        let before = sim.world.keys(Kind::Pod);
        let options = DeleteOptions { propagation_policy: Some("Orphan".to_owned()), ..DeleteOptions::default() };
        sim.world.delete(&key, &options).expect("deletes");
        sim.settle();
        assert!(sim.world.value(&key).is_none());
        assert_eq!(sim.world.keys(Kind::Pod), before);
        sim.world.must(deployment("web", 3));
        sim.settle();
        assert_eq!(sim.world.keys(Kind::Pod), before, "the same template needs no other pods");
    });
}
