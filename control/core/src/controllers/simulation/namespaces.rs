//! Every namespace is furnished; a deleted one is emptied and goes.

use serde_json::json;

use super::{Sim, seeds};
use crate::api::DeleteOptions;
use crate::controllers::testing::{deployment, service};
use crate::controllers::{Key, Kind};

#[test]
fn a_deleted_namespace_goes_with_everything_in_it() {
    seeds(10, |seed| {
        let mut sim = Sim::new(seed, 2);
        let home = sim.world.must(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}));
        let mut web = deployment("web", 3);
        web["metadata"]["namespace"] = "team".into();
        sim.world.must(web);
        let mut front = service("web");
        front["metadata"]["namespace"] = "team".into();
        sim.world.must(front);
        for _ in 0..200 + 10 * seed {
            sim.step();
        }
        sim.world.delete(&home, &DeleteOptions::default()).expect("deletes");
        for _ in 0..100 {
            sim.step();
        }
        sim.settle();
        assert!(sim.world.value(&home).is_none());
        for kind in Kind::ALL {
            assert!(sim.world.values(kind).all(|(key, _)| key.namespace != "team"), "{kind} left");
        }
        let account = Key::new(Kind::ServiceAccount, "default", "default");
        assert!(sim.world.value(&account).is_some());
        let ca = Key::new(Kind::ConfigMap, "default", "kube-root-ca.crt");
        assert_eq!(sim.world.value(&ca).expect("is there")["data"]["ca.crt"], "certificate");
    });
}
