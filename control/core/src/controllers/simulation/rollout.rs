//! During a rolling update there are never more pods than `replicas + maxSurge`, nor fewer available ones than
//! `replicas - maxUnavailable`; also when the template changes again in the middle.

use serde_json::json;

use super::{Sim, active, available, seeds};
use crate::controllers::testing::deployment;

#[test]
fn a_rolling_update_stays_within_its_bounds() {
    seeds(20, |seed| {
        let mut sim = Sim::new(seed, 3);
        let replicas = 1 + i32::try_from(sim.draw(6)).expect("small");
        let surge = usize::try_from(sim.draw(3)).expect("small");
        let unavailable = usize::try_from(sim.draw(3)).expect("small").max(usize::from(surge == 0));
        let mut web = deployment("web", replicas);
        web["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}});
        let key = sim.world.must(web);
        sim.settle();
        let replicas = usize::try_from(replicas).expect("small");
        for image in 2..6 {
            let body = json!({"spec": {"template": {"spec": {"containers": [
                {"name": "main", "image": format!("demo:{image}")},
            ]}}}});
            sim.world.merge(&key, None, &body).expect("changes the image");
            for _ in 0..300 {
                sim.step();
                let pods = sim.pods(active).len();
                assert!(pods <= replicas + surge, "{pods} pods of {replicas}+{surge}");
                let serving = sim.pods(available).len();
                assert!(serving >= replicas.saturating_sub(unavailable), "{serving} serve of {replicas}-{unavailable}");
            }
        }
        sim.settle();
        assert!(sim.pods(|pod| pod["spec"]["containers"][0]["image"] != "demo:5").is_empty());
    });
}

#[test]
fn recreation_never_runs_two_revisions() {
    seeds(8, |seed| {
        let mut sim = Sim::new(seed, 2);
        let mut web = deployment("web", 3);
        web["spec"]["strategy"] = json!({"type": "Recreate"});
        let key = sim.world.must(web);
        sim.settle();
        for image in 2..5 {
            let body = json!({"spec": {"template": {"spec": {"containers": [
                {"name": "main", "image": format!("demo:{image}")},
            ]}}}});
            sim.world.merge(&key, None, &body).expect("changes the image");
            for _ in 0..200 {
                sim.step();
                let mut images: Vec<_> =
                    sim.pods(|_| true).iter().map(|pod| pod["spec"]["containers"][0]["image"].clone()).collect();
                images.dedup();
                assert!(images.len() <= 1, "{images:?}");
            }
            sim.settle();
        }
    });
}
