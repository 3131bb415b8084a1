//! At no time do two Services have the same load balancer address, whatever is late, repeated or refused; and in the end every
//! pool is used as far as there are Services for it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Sim, seeds};
use crate::api::DeleteOptions;
use crate::controllers::{Key, Kind};

fn pool(last: u64) -> Value {
    json!({
        "apiVersion": "skep.io/v1alpha1", "kind": "AddressPool", "metadata": {"name": "outside"},
        "spec": {"addresses": [format!("192.0.2.1-192.0.2.{last}")]},
    })
}

fn service(number: u64) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("s{number}"), "namespace": "default"},
        "spec": {
            "type": "LoadBalancer", "ports": [{"port": 80}], "ipFamilies": ["IPv4"],
            "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"],
        },
    })
}

/// Services by address.
fn holders(sim: &Sim) -> BTreeMap<String, Vec<String>> {
    let mut holders: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, service) in sim.world.values(Kind::Service) {
        for ingress in service["status"]["loadBalancer"]["ingress"].as_array().into_iter().flatten() {
            let ip = ingress["ip"].as_str().expect("an address").to_owned();
            holders.entry(ip).or_default().push(key.name.clone());
        }
    }
    holders
}

#[test]
fn an_address_is_one_services() {
    seeds(10, |seed| {
        let mut sim = Sim::new(seed, 1);
        let outside = sim.world.must(pool(4));
        let mut made = 0;
        for _ in 0..400 {
            match sim.draw(12) {
                0 => {
                    made += 1;
                    sim.world.must(service(made));
                }
                1 => {
                    let number = sim.draw(made + 1);
                    let key = Key::new(Kind::Service, "default", format!("s{number}"));
                    if sim.world.value(&key).is_some() {
                        sim.world.delete(&key, &DeleteOptions::default()).expect("deletes");
                    }
                }
                2 => {
                    // A wish, which may be somebody else's address, or another type.
                    let (number, last) = (sim.draw(made + 1), 1 + sim.draw(6));
                    let key = Key::new(Kind::Service, "default", format!("s{number}"));
                    let kind = if sim.draw(4) == 0 { "ClusterIP" } else { "LoadBalancer" };
                    let change = json!({"spec": {"type": kind, "loadBalancerIP": format!("192.0.2.{last}")}});
                    if sim.world.value(&key).is_some() {
                        sim.world.merge(&key, None, &change).expect("a change");
                    }
                }
                3 => {
                    let last = 2 + sim.draw(6);
                    sim.world.merge(&outside, None, &pool(last)).expect("a change");
                }
                _ => sim.step(),
            }
            for (address, services) in holders(&sim) {
                assert_eq!(services.len(), 1, "{address}: {services:?}");
            }
        }
        // Without wishes everybody takes what there is.
        sim.world.merge(&outside, None, &pool(3)).expect("a change");
        for key in sim.world.keys(Kind::Service) {
            let change = json!({"spec": {"loadBalancerIP": null}});
            sim.world.merge(&key, None, &change).expect("a change");
        }
        sim.settle();
        let balancers = sim.world.values(Kind::Service).filter(|(_, s)| s["spec"]["type"] == "LoadBalancer").count();
        let holders = holders(&sim);
        assert_eq!(holders.len(), balancers.min(3), "{holders:?}");
        let status = &sim.world.value(&outside).expect("the pool")["status"]["ipv4"];
        assert_eq!(*status, json!({"assigned": holders.len(), "total": 3}));
    });
}
