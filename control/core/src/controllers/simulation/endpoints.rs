//! Slices and Endpoints hold exactly the pods that serve; and at no time does a slice call a pod ready that is terminating and
//! that the controller has seen so.

use super::{Sim, available, seeds};
use crate::api::DeleteOptions;
use crate::controllers::Kind;
use crate::controllers::testing::{deployment, service};

fn addresses<'a>(objects: impl Iterator<Item = &'a serde_json::Value>) -> Vec<String> {
    let mut addresses: Vec<String> = objects.filter_map(|address| address.as_str()).map(str::to_owned).collect();
    addresses.sort();
    addresses
}

#[test]
fn slices_follow_pods() {
    seeds(10, |seed| {
        let mut sim = Sim::new(seed, 2);
        sim.world.must(service("web"));
        let key = sim.world.must(deployment("web", 4));
        for _ in 0..300 {
            sim.step();
            if sim.draw(50) == 0 {
                let pods = sim.world.keys(Kind::Pod);
                if let Some(pod) = pods.first() {
                    sim.world.delete(pod, &DeleteOptions::default()).expect("deletes");
                }
            }
        }
        sim.settle();
        let pods = sim.pods(available);
        let wanted = addresses(pods.iter().map(|pod| &pod["status"]["podIP"]));
        assert_eq!(wanted.len(), 4);
        let slices: Vec<_> = sim
            .world
            .values(Kind::EndpointSlice)
            .filter(|(_, slice)| slice["metadata"]["labels"]["kubernetes.io/service-name"] == "web")
            .collect();
        let endpoints = slices.iter().flat_map(|(_, slice)| slice["endpoints"].as_array().into_iter().flatten());
        let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true);
        assert_eq!(addresses(ready.map(|endpoint| &endpoint["addresses"][0])), wanted);
        assert!(slices.iter().all(|(_, slice)| slice["ports"][0]["port"] == 8080));
        let legacy = sim.world.values(Kind::Endpoints).find(|(key, _)| key.name == "web").expect("Endpoints").1;
        let ips = legacy["subsets"][0]["addresses"].as_array().expect("addresses").iter().map(|address| &address["ip"]);
        assert_eq!(addresses(ips), wanted);

        sim.world.delete(&key, &DeleteOptions::default()).expect("deletes");
        sim.settle();
        let left: Vec<_> = sim
            .world
            .values(Kind::EndpointSlice)
            .filter(|(_, slice)| slice["metadata"]["labels"]["kubernetes.io/service-name"] == "web")
            .collect();
        assert_eq!(left.len(), 1, "one empty slice stays");
        assert!(left[0].1["endpoints"].as_array().is_none_or(Vec::is_empty));
    });
}
