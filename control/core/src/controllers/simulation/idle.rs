//! A cluster that has converged is silent: nothing is written while nothing happens, and a new start of the controllers writes
//! nothing either.

use jiff::SignedDuration;
use serde_json::json;

use super::{Sim, seeds, settings};
use crate::controllers::testing::{deployment, service};
use crate::controllers::{Engine, all};
use crate::scheduler::Scheduler;

#[test]
fn a_converged_cluster_is_silent_and_stays_so_after_a_restart() {
    seeds(15, |seed| {
        let mut sim = Sim::new(seed, 2);
        sim.world.must(deployment("web", 5));
        sim.world.must(service("web"));
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
        sim.world.must(namespace);
        for _ in 0..300 {
            sim.step();
        }
        sim.settle();
        let mut engine = Engine::new(all(&settings()), Scheduler::default(), seed);
        engine.apply(sim.world.listing(), sim.world.now);
        // Short of the grace after which nodes that do not beat here are lost.
        for _ in 0..8 {
            let work = engine.next(sim.world.now);
            assert!(work.is_none(), "{work:?}");
            sim.world.pass(SignedDuration::from_secs(1));
            engine.tick(sim.world.now);
        }
    });
}
