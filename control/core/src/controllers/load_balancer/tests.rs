use serde_json::{Value, json};

use super::{LoadBalancers, everything};
use crate::api::{DeleteOptions, Subresource};
use crate::controllers::testing::World;
use crate::controllers::{Controller, Index, Key, Kind, Outcome, Turn};

fn outcome(world: &World) -> Outcome {
    let mut index = Index::default();
    index.apply(world.listing(), world.now);
    LoadBalancers.reconcile(&everything(), &index, Turn { now: world.now, seed: world.revision })
}

/// Reconciles until nothing is left to do; gives the Events as `REASON message`.
fn run(world: &mut World) -> Vec<String> {
    let mut notes = Vec::new();
    for _ in 0..10 {
        let outcome = outcome(world);
        if outcome.actions.is_empty() {
            return notes;
        }
        for action in outcome.actions {
            world.write(&action.write).unwrap_or_else(|status| panic!("{}: {:?}", status.message, action.write));
            notes.extend(action.done.map(|note| format!("{} {}", note.reason, note.message)));
        }
    }
    panic!("does not settle");
}

fn pool(world: &mut World, name: &str, addresses: &[&str], more: Value) -> Key {
    let mut spec = json!({"addresses": addresses});
    json_patch::merge(&mut spec, &more);
    let pool =
        json!({"apiVersion": "skep.io/v1alpha1", "kind": "AddressPool", "metadata": {"name": name}, "spec": spec});
    world.must(pool)
}

/// A load balancer in both families if not said otherwise.
fn service(world: &mut World, name: &str, change: Value) -> Key {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "type": "LoadBalancer", "ports": [{"port": 80}], "ipFamilies": ["IPv4", "IPv6"],
            "ipFamilyPolicy": "RequireDualStack", "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9", "fd53::9"],
        },
    });
    json_patch::merge(&mut service, &change);
    world.must(service)
}

fn single() -> Value {
    json!({"spec": {
        "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"],
    }})
}

fn both(mut one: Value, other: &Value) -> Value {
    json_patch::merge(&mut one, other);
    one
}

fn addresses(world: &World, key: &Key) -> Vec<String> {
    let ingress = &world.value(key).expect("the Service")["status"]["loadBalancer"]["ingress"];
    let ingress = ingress.as_array().into_iter().flatten();
    ingress.map(|ingress| ingress["ip"].as_str().expect("an address").to_owned()).collect()
}

fn condition(world: &World, key: &Key) -> String {
    let conditions = &world.value(key).expect("the Service")["status"]["conditions"];
    let found = conditions.as_array().into_iter().flatten().find(|condition| condition["type"] == "AddressesAssigned");
    found.map_or_else(String::new, |c| format!("{} {}", c["status"].as_str().unwrap(), c["reason"].as_str().unwrap()))
}

#[test]
fn a_service_gets_one_address_of_each_of_its_families() {
    let mut world = World::new();
    let pool = pool(&mut world, "outside", &["192.0.2.0/30", "2001:db8::10-2001:db8::1f"], json!({}));
    let dual = service(&mut world, "dual", json!({}));
    let one = service(&mut world, "one", single());
    assert_eq!(
        run(&mut world),
        ["AddressesAssigned Assigned 192.0.2.0, 2001:db8::10", "AddressesAssigned Assigned 192.0.2.1"]
    );
    let ingress = &world.value(&dual).expect("a Service")["status"]["loadBalancer"]["ingress"];
    let expected = json!([{"ip": "192.0.2.0", "ipMode": "VIP"}, {"ip": "2001:db8::10", "ipMode": "VIP"}]);
    assert_eq!(*ingress, expected);
    assert_eq!(
        (addresses(&world, &one), condition(&world, &one)),
        (vec!["192.0.2.1".into()], "True AddressesAssigned".into())
    );
    let status = &world.value(&pool).expect("a pool")["status"];
    assert_eq!(*status, json!({"ipv4": {"assigned": 2, "total": 4}, "ipv6": {"assigned": 1, "total": 16}}));
}

#[test]
fn what_is_not_for_pools_is_left_alone() {
    let mut world = World::new();
    pool(&mut world, "outside", &["192.0.2.0/30"], json!({}));
    let other = service(&mut world, "other", both(single(), &json!({"spec": {"loadBalancerClass": "example.org/lb"}})));
    let plain = service(&mut world, "plain", both(single(), &json!({"spec": {"type": "ClusterIP"}})));
    let ours =
        service(&mut world, "ours", both(single(), &json!({"spec": {"loadBalancerClass": "skep.io/address-pool"}})));
    // Somebody else's controller has an address that is in the pool.
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.0", "ipMode": "VIP"}]}}});
    world.merge(&other, Some(Subresource::Status), &status).expect("a status");
    run(&mut world);
    assert_eq!(addresses(&world, &other), ["192.0.2.0"]);
    assert_eq!(addresses(&world, &ours), ["192.0.2.1"]);
    assert!(condition(&world, &other).is_empty() && condition(&world, &plain).is_empty());
}

#[test]
fn addresses_are_given_back_with_the_type_and_with_the_service() {
    let mut world = World::new();
    let pool = pool(&mut world, "outside", &["192.0.2.7/32"], json!({}));
    let first = service(&mut world, "first", single());
    let second = service(&mut world, "second", single());
    let third = service(&mut world, "third", single());
    run(&mut world);
    let holders = |world: &World| {
        [&first, &second, &third]
            .map(|key| world.value(key).is_some_and(|s| !s["status"]["loadBalancer"]["ingress"].is_null()))
    };
    assert_eq!(holders(&world), [true, false, false]);
    assert_eq!(condition(&world, &second), "False AddressPoolExhausted");
    world.merge(&first, None, &json!({"spec": {"type": "ClusterIP"}})).expect("a change");
    run(&mut world);
    assert_eq!(holders(&world), [false, true, false]);
    assert_eq!(condition(&world, &first), "");
    world.delete(&second, &DeleteOptions::default()).expect("deletes");
    run(&mut world);
    assert_eq!(holders(&world), [false, false, true]);
    assert_eq!(world.value(&pool).expect("a pool")["status"]["ipv4"], json!({"assigned": 1, "total": 1}));
}

#[test]
fn an_event_tells_once_why_and_a_change_of_a_pool_heals() {
    let mut world = World::new();
    let waiting = service(&mut world, "waiting", single());
    assert_eq!(run(&mut world), ["AddressNotAssigned no AddressPool has IPv4 addresses for it"]);
    assert_eq!(condition(&world, &waiting), "False NoAddressPool");
    let key = pool(&mut world, "a", &["192.0.2.1/32"], json!({"autoAssign": false}));
    assert_eq!(run(&mut world), Vec::<String>::new(), "nothing new to say");
    world.merge(&key, None, &json!({"spec": {"autoAssign": true}})).expect("a change");
    assert_eq!(run(&mut world), ["AddressesAssigned Assigned 192.0.2.1"]);
    let late = service(&mut world, "late", single());
    assert_eq!(run(&mut world), ["AddressNotAssigned no IPv4 address is free in AddressPool a"]);
    world.merge(&key, None, &json!({"spec": {"addresses": ["192.0.2.1-192.0.2.2"]}})).expect("a change");
    assert_eq!(run(&mut world), ["AddressesAssigned Assigned 192.0.2.2"]);
    // Addresses that are in no pool any more are nobody's.
    world.merge(&key, None, &json!({"spec": {"addresses": ["192.0.2.2/32"]}})).expect("a change");
    run(&mut world);
    assert_eq!((addresses(&world, &waiting), addresses(&world, &late)), (vec![], vec!["192.0.2.2".to_owned()]));
}

#[test]
fn certain_addresses_can_be_asked_for() {
    let asks = |addresses: &str| json!({"metadata": {"annotations": {"service.skep.io/addresses": addresses}}});
    let mut world = World::new();
    pool(&mut world, "outside", &["192.0.2.0/28", "2001:db8::/124"], json!({}));
    let field = service(&mut world, "field", both(single(), &json!({"spec": {"loadBalancerIP": "192.0.2.5"}})));
    let list = service(&mut world, "list", asks("2001:db8::7, 192.0.2.7"));
    let part = service(&mut world, "part", asks("2001:db8::8"));
    run(&mut world);
    assert_eq!(addresses(&world, &field), ["192.0.2.5"]);
    assert_eq!(addresses(&world, &list), ["192.0.2.7", "2001:db8::7"]);
    assert_eq!(addresses(&world, &part), ["192.0.2.0", "2001:db8::8"]);
    for (name, wish, reason, message) in [
        ("a", "192.0.2.5", "AddressInUse", "192.0.2.5 is an address of the Service default/field"),
        ("b", "198.51.100.1", "AddressNotInPool", "198.51.100.1 is in no AddressPool that the Service may use"),
        ("c", "192.0.2.x", "InvalidRequest", "\"192.0.2.x\" is not an IP address"),
        ("d", "2001:db8::9", "InvalidRequest", "2001:db8::9 is not of a family of the Service"),
        (
            "e",
            "192.0.2.8,192.0.2.9",
            "InvalidRequest",
            "192.0.2.9 is the second address of its family that is asked for",
        ),
    ] {
        let key = service(&mut world, name, both(single(), &asks(wish)));
        assert_eq!(run(&mut world), [format!("AddressNotAssigned {message}")]);
        assert_eq!((addresses(&world, &key), condition(&world, &key)), (vec![], format!("False {reason}")));
    }
    // Another wish moves it, and what it had is free for who waited.
    world.merge(&field, None, &json!({"spec": {"loadBalancerIP": "192.0.2.6"}})).expect("a change");
    run(&mut world);
    assert_eq!(addresses(&world, &field), ["192.0.2.6"]);
    assert_eq!(addresses(&world, &Key::new(Kind::Service, "default", "a")), ["192.0.2.5"]);
}

#[test]
fn two_may_swap_and_never_have_the_same() {
    let asks = |address: &str| json!({"metadata": {"annotations": {"service.skep.io/addresses": address}}});
    let mut world = World::new();
    pool(&mut world, "outside", &["192.0.2.0/28"], json!({}));
    let a = service(&mut world, "a", both(single(), &asks("192.0.2.1")));
    let b = service(&mut world, "b", both(single(), &asks("192.0.2.2")));
    run(&mut world);
    world.merge(&a, None, &asks("192.0.2.2")).expect("a change");
    world.merge(&b, None, &asks("192.0.2.1")).expect("a change");
    loop {
        let outcome = outcome(&world);
        if outcome.actions.is_empty() {
            break;
        }
        for action in outcome.actions {
            world.write(&action.write).expect("a write");
            let (of_a, of_b) = (addresses(&world, &a), addresses(&world, &b));
            assert!(of_a.is_empty() || of_a != of_b, "{of_a:?}");
        }
    }
    assert_eq!((addresses(&world, &a), addresses(&world, &b)), (vec!["192.0.2.2".into()], vec!["192.0.2.1".into()]));
}

#[test]
fn pools_are_for_whom_they_say() {
    let named = |pool: &str| json!({"metadata": {"annotations": {"service.skep.io/address-pool": pool}}});
    let mut world = World::new();
    pool(&mut world, "asked", &["192.0.2.0/29"], json!({"autoAssign": false}));
    pool(&mut world, "labelled", &["192.0.2.8/29"], json!({"serviceSelector": {"matchLabels": {"tier": "web"}}}));
    pool(&mut world, "other-team", &["192.0.2.16/29"], json!({"namespaces": ["team"]}));
    pool(&mut world, "rest", &["192.0.2.24/29"], json!({}));
    let plain = service(&mut world, "plain", single());
    let web = service(&mut world, "web", both(single(), &json!({"metadata": {"labels": {"tier": "web"}}})));
    let asked = service(&mut world, "asked", both(single(), &named("asked")));
    let stranger = service(&mut world, "stranger", both(single(), &named("other-team")));
    let lost = service(&mut world, "lost", both(single(), &named("nowhere")));
    run(&mut world);
    assert_eq!(addresses(&world, &plain), ["192.0.2.24"]);
    assert_eq!(addresses(&world, &web), ["192.0.2.8"]);
    assert_eq!(addresses(&world, &asked), ["192.0.2.0"]);
    assert_eq!((addresses(&world, &stranger), condition(&world, &stranger)), (vec![], "False NoAddressPool".into()));
    assert_eq!((addresses(&world, &lost), condition(&world, &lost)), (vec![], "False NoAddressPool".into()));
    // Who may not use a pool any more gives its address back.
    world.merge(&web, None, &json!({"metadata": {"labels": {"tier": "db"}}})).expect("a change");
    run(&mut world);
    assert_eq!(addresses(&world, &web), ["192.0.2.25"]);
}

#[test]
fn one_family_is_enough_for_who_prefers_two() {
    let mut world = World::new();
    pool(&mut world, "outside", &["192.0.2.0/28"], json!({}));
    let lenient = service(&mut world, "lenient", json!({"spec": {"ipFamilyPolicy": "PreferDualStack"}}));
    let strict = service(&mut world, "strict", json!({}));
    run(&mut world);
    assert_eq!((addresses(&world, &lenient).len(), condition(&world, &lenient)), (1, "True AddressesAssigned".into()));
    assert_eq!((addresses(&world, &strict).len(), condition(&world, &strict)), (1, "False NoAddressPool".into()));
}

#[test]
fn of_two_that_show_one_address_the_older_keeps_it() {
    let mut world = World::new();
    pool(&mut world, "outside", &["192.0.2.0/28"], json!({}));
    let younger = {
        let older = service(&mut world, "b", single());
        world.pass(jiff::SignedDuration::from_secs(5));
        let younger = service(&mut world, "a", single());
        let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.3"}]}}});
        for key in [&older, &younger] {
            world.merge(key, Some(Subresource::Status), &status).expect("a status");
        }
        run(&mut world);
        assert_eq!(addresses(&world, &older), ["192.0.2.3"]);
        younger
    };
    assert_eq!(addresses(&world, &younger), ["192.0.2.0"]);
}

#[test]
fn very_large_pools_are_counted_as_far_as_that_goes() {
    let mut world = World::new();
    let key = pool(&mut world, "wide", &["2001:db8::/32"], json!({}));
    let wide = service(
        &mut world,
        "web",
        json!({"spec": {
            "ipFamilies": ["IPv6"], "ipFamilyPolicy": "SingleStack", "clusterIP": "fd53::9", "clusterIPs": ["fd53::9"],
        }}),
    );
    run(&mut world);
    assert_eq!(addresses(&world, &wide), ["2001:db8::"]);
    assert_eq!(world.value(&key).expect("a pool")["status"]["ipv6"], json!({"assigned": 1, "total": i64::MAX}));
}
