use serde_json::{Value, json};

use super::{EndpointSlices, LegacyEndpoints};
use crate::api::{DeleteOptions, Subresource};
use crate::controllers::testing::{World, node, node_status, service};
use crate::controllers::{Controller, Index, Key, Kind, Outcome, Turn, Write};

fn outcome(controller: &dyn Controller, world: &World) -> Outcome {
    let mut index = Index::default();
    index.apply(world.listing(), world.now);
    let key = Key::new(Kind::Service, "default", "web");
    controller.reconcile(&key, &index, Turn { now: world.now, seed: world.revision })
}

/// Reconciles until nothing is left to do; gives the number of writes.
fn run(controller: &dyn Controller, world: &mut World) -> usize {
    let mut writes = 0;
    for _ in 0..10 {
        let outcome = outcome(controller, world);
        if outcome.actions.is_empty() {
            return writes;
        }
        for action in outcome.actions {
            writes += 1;
            world.write(&action.write).unwrap_or_else(|status| panic!("{}: {:?}", status.message, action.write));
        }
    }
    panic!("does not settle");
}

fn pod(world: &mut World, name: &str, addresses: &[&str], ready: bool, port: i32) -> Key {
    let key = world.must(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": {"nodeName": "node-1", "containers": [
            {"name": "main", "image": "demo:1", "ports": [{"name": "http", "containerPort": port}]},
        ]},
    }));
    let ips: Vec<Value> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
    let status = json!({"status": {
        "phase": "Running", "podIP": addresses[0], "podIPs": ips,
        "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
    }});
    world.merge(&key, Some(Subresource::Status), &status).expect("a status");
    key
}

fn slices(world: &World) -> Vec<Value> {
    world.values(Kind::EndpointSlice).map(|(_, slice)| slice.clone()).collect()
}

fn endpoints(world: &World) -> Value {
    let key = Key::new(Kind::Endpoints, "default", "web");
    world.value(&key).expect("Endpoints")["subsets"].clone()
}

#[test]
fn a_slice_holds_pods_with_conditions_node_and_named_port() {
    let mut world = World::new();
    world.must(service("web"));
    pod(&mut world, "a", &["10.0.0.1"], true, 8080);
    pod(&mut world, "b", &["10.0.0.2"], false, 8080);
    run(&EndpointSlices, &mut world);
    let slice = slices(&world).remove(0);
    assert_eq!(slice["addressType"], "IPv4");
    assert_eq!(slice["ports"], json!([{"name": "http", "port": 8080, "protocol": "TCP"}]));
    let labels = &slice["metadata"]["labels"];
    assert_eq!(labels["kubernetes.io/service-name"], "web");
    assert_eq!(labels["endpointslice.kubernetes.io/managed-by"], "endpointslice-controller.k8s.io");
    assert_eq!(slice["metadata"]["ownerReferences"][0]["kind"], "Service");
    let conditions: Vec<&Value> =
        slice["endpoints"].as_array().expect("endpoints").iter().map(|e| &e["conditions"]).collect();
    assert_eq!(
        conditions,
        [
            &json!({"ready": true, "serving": true, "terminating": false}),
            &json!({"ready": false, "serving": false, "terminating": false}),
        ]
    );
    assert_eq!(slice["endpoints"][0]["nodeName"], "node-1");
    assert_eq!(slice["endpoints"][0]["targetRef"]["name"], "a");
}

#[test]
fn a_terminating_pod_is_not_ready_but_serves() {
    let mut world = World::new();
    world.must(service("web"));
    let key = pod(&mut world, "a", &["10.0.0.1"], true, 8080);
    run(&EndpointSlices, &mut world);
    run(&LegacyEndpoints, &mut world);
    world.delete(&key, &DeleteOptions::default()).expect("deletes");
    assert_eq!(run(&EndpointSlices, &mut world), 1);
    let conditions = slices(&world).remove(0)["endpoints"][0]["conditions"].clone();
    assert_eq!(conditions, json!({"ready": false, "serving": true, "terminating": true}));
    run(&LegacyEndpoints, &mut world);
    assert!(endpoints(&world).is_null(), "Endpoints leave terminating pods out");
}

#[test]
fn each_family_has_its_slices() {
    let mut world = World::new();
    let mut dual = service("web");
    dual["spec"]["ipFamilies"] = json!(["IPv6", "IPv4"]);
    dual["spec"]["ipFamilyPolicy"] = "PreferDualStack".into();
    dual["spec"]["clusterIP"] = "fd53::9".into();
    dual["spec"]["clusterIPs"] = json!(["fd53::9", "10.96.0.9"]);
    world.must(dual);
    pod(&mut world, "a", &["10.0.0.1", "fd00::1"], true, 8080);
    run(&EndpointSlices, &mut world);
    run(&LegacyEndpoints, &mut world);
    let mut found: Vec<(String, String)> = slices(&world)
        .iter()
        .map(|slice| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            (text(&slice["addressType"]), text(&slice["endpoints"][0]["addresses"][0]))
        })
        .collect();
    found.sort();
    assert_eq!(found, [("IPv4".into(), "10.0.0.1".into()), ("IPv6".into(), "fd00::1".into())]);
    assert_eq!(endpoints(&world)[0]["addresses"][0]["ip"], "fd00::1", "Endpoints are of the primary family");
}

#[test]
fn pods_that_name_other_numbers_are_in_slices_of_their_own() {
    let mut world = World::new();
    world.must(service("web"));
    pod(&mut world, "a", &["10.0.0.1"], true, 8080);
    pod(&mut world, "b", &["10.0.0.2"], true, 9090);
    run(&EndpointSlices, &mut world);
    let mut ports: Vec<i64> = slices(&world).iter().filter_map(|slice| slice["ports"][0]["port"].as_i64()).collect();
    ports.sort_unstable();
    assert_eq!(ports, [8080, 9090]);
    run(&LegacyEndpoints, &mut world);
    assert_eq!(endpoints(&world).as_array().map(Vec::len), Some(2));
}

#[test]
fn not_ready_addresses_are_published_when_asked_for() {
    let mut world = World::new();
    let mut headless = service("web");
    headless["spec"]["publishNotReadyAddresses"] = true.into();
    headless["spec"]["clusterIP"] = "None".into();
    headless["spec"]["clusterIPs"] = json!(["None"]);
    world.must(headless);
    pod(&mut world, "a", &["10.0.0.1"], false, 8080);
    run(&EndpointSlices, &mut world);
    run(&LegacyEndpoints, &mut world);
    let slice = slices(&world).remove(0);
    assert_eq!(slice["endpoints"][0]["conditions"]["ready"], true);
    assert_eq!(slice["endpoints"][0]["conditions"]["serving"], false);
    assert_eq!(slice["metadata"]["labels"]["service.kubernetes.io/headless"], "");
    assert_eq!(endpoints(&world)[0]["addresses"][0]["ip"], "10.0.0.1");
}

#[test]
fn a_change_of_one_pod_is_one_write_and_others_stay_in_place() {
    let mut world = World::new();
    world.must(service("web"));
    for number in 0..250 {
        pod(
            &mut world,
            &format!("p{number:03}"),
            &[&format!("10.0.{}.{}", number / 200, number % 200 + 1)],
            true,
            8080,
        );
    }
    run(&EndpointSlices, &mut world);
    let mut counts: Vec<usize> =
        slices(&world).iter().map(|slice| slice["endpoints"].as_array().map_or(0, Vec::len)).collect();
    counts.sort_unstable();
    assert_eq!(counts, [50, 100, 100]);
    world.remove(&Key::new(Kind::Pod, "default", "p000"));
    assert_eq!(run(&EndpointSlices, &mut world), 1);
    pod(&mut world, "late", &["10.0.9.1"], true, 8080);
    assert_eq!(run(&EndpointSlices, &mut world), 1, "there is room in a slice");
}

#[test]
fn moving_endpoints_are_created_before_they_are_removed() {
    let mut world = World::new();
    world.must(service("web"));
    pod(&mut world, "a", &["10.0.0.1"], true, 8080);
    run(&EndpointSlices, &mut world);
    let change = json!({"spec": {"ports": [{"name": "http", "port": 80, "targetPort": 9999}]}});
    world.merge(&Key::new(Kind::Service, "default", "web"), None, &change).expect("changes the port");
    let writes: Vec<_> = outcome(&EndpointSlices, &world).actions.into_iter().map(|action| action.write).collect();
    assert!(matches!(writes.as_slice(), [Write::Create(_), Write::Delete { .. }]), "{writes:?}");
}

#[test]
fn what_is_not_selected_is_left_alone() {
    let mut world = World::new();
    let mut manual = service("web");
    manual["spec"].as_object_mut().expect("a spec").remove("selector");
    world.must(manual);
    world.must(json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "web", "namespace": "default"},
        "subsets": [{"addresses": [{"ip": "192.0.2.7"}], "ports": [{"port": 80}]}],
    }));
    assert_eq!(outcome(&EndpointSlices, &world), Outcome::idle());
    assert_eq!(outcome(&LegacyEndpoints, &world), Outcome::idle());
}

#[test]
fn finished_pods_and_pods_without_an_address_are_no_endpoints() {
    let mut world = World::new();
    world.must(service("web"));
    let key = pod(&mut world, "a", &["10.0.0.1"], true, 8080);
    world.merge(&key, Some(Subresource::Status), &json!({"status": {"phase": "Succeeded"}})).expect("a status");
    world.must(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new", "namespace": "default", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "demo:1"}]},
    }));
    run(&EndpointSlices, &mut world);
    let slice = slices(&world).remove(0);
    assert!(slice["endpoints"].as_array().is_none_or(Vec::is_empty), "{slice}");
}

fn node_in(world: &mut World, name: &str, zone: Option<&str>) -> Key {
    let mut value = node(name);
    if let Some(zone) = zone {
        value["metadata"]["labels"]["topology.kubernetes.io/zone"] = zone.into();
    }
    let key = world.must(value);
    world.merge(&key, Some(Subresource::Status), &node_status(world.now)).expect("a status");
    key
}

fn pod_on(world: &mut World, name: &str, node: &str, address: &str, ready: bool) {
    world.must(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": {"nodeName": node, "containers": [
            {"name": "main", "image": "demo:1", "ports": [{"name": "http", "containerPort": 8080}]},
        ]},
    }));
    let status = json!({"status": {
        "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
    }});
    world.merge(&Key::new(Kind::Pod, "default", name), Some(Subresource::Status), &status).expect("a status");
}

/// `ADDRESS ZONE HINTS` of every endpoint, sorted.
fn hints(world: &World) -> Vec<String> {
    let mut all = Vec::new();
    for slice in slices(world) {
        for endpoint in slice["endpoints"].as_array().expect("endpoints") {
            let names = |field: &str| -> String {
                let hints = endpoint["hints"][field].as_array().into_iter().flatten();
                hints.map(|hint| hint["name"].as_str().expect("a name")).collect::<Vec<_>>().join(",")
            };
            let (address, zone) = (endpoint["addresses"][0].as_str().expect("text"), endpoint["zone"].as_str());
            all.push(format!("{address} {} [{}] [{}]", zone.unwrap_or("-"), names("forZones"), names("forNodes")));
        }
    }
    all.sort();
    all
}

#[test]
fn endpoints_have_the_zones_of_their_nodes() {
    let mut world = World::new();
    world.must(service("web"));
    let key = node_in(&mut world, "n1", Some("east"));
    node_in(&mut world, "n2", None);
    pod_on(&mut world, "a", "n1", "10.0.0.1", true);
    pod_on(&mut world, "b", "n2", "10.0.0.2", true);
    run(&EndpointSlices, &mut world);
    assert_eq!(hints(&world), ["10.0.0.1 east [] []", "10.0.0.2 - [] []"]);
    let before = world.log.len();
    world
        .merge(&key, None, &json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "west"}}}))
        .expect("a label");
    run(&EndpointSlices, &mut world);
    assert_eq!(hints(&world), ["10.0.0.1 west [] []", "10.0.0.2 - [] []"]);
    // The node's change is what leads to the Service; a heartbeat leads nowhere.
    let mut index = Index::default();
    index.apply(world.listing(), world.now);
    let touched = |world: &World, from: usize| {
        let mut index = Index::default();
        let mut all = Vec::new();
        index.apply(crate::controllers::Change::Replace { objects: Vec::new(), revision: 0 }, world.now);
        for (place, change) in world.log.iter().enumerate() {
            for touched in index.apply(change.clone(), world.now) {
                if place >= from && touched.key.kind == Kind::Node {
                    all.extend(EndpointSlices.affected(&touched, &index));
                }
            }
        }
        all
    };
    assert_eq!(touched(&world, before), [Key::new(Kind::Service, "default", "web")]);
    let before = world.log.len();
    world.pass(jiff::SignedDuration::from_secs(10));
    world.merge(&key, Some(Subresource::Status), &node_status(world.now)).expect("a status");
    assert_eq!(touched(&world, before), []);
}

#[test]
fn traffic_distribution_gives_hints_to_what_is_ready() {
    for (distribution, expected) in [
        ("PreferClose", ["10.0.0.1 east [east] []", "10.0.0.2 west [west] []", "10.0.0.3 west [] []"]),
        ("PreferSameZone", ["10.0.0.1 east [east] []", "10.0.0.2 west [west] []", "10.0.0.3 west [] []"]),
        ("PreferSameNode", ["10.0.0.1 east [east] [n1]", "10.0.0.2 west [west] [n2]", "10.0.0.3 west [] []"]),
    ] {
        let mut world = World::new();
        let mut near = service("web");
        near["spec"]["trafficDistribution"] = distribution.into();
        let key = world.must(near);
        node_in(&mut world, "n1", Some("east"));
        node_in(&mut world, "n2", Some("west"));
        pod_on(&mut world, "a", "n1", "10.0.0.1", true);
        pod_on(&mut world, "b", "n2", "10.0.0.2", true);
        pod_on(&mut world, "c", "n2", "10.0.0.3", false);
        run(&EndpointSlices, &mut world);
        assert_eq!(hints(&world), expected, "{distribution}");
        world.merge(&key, None, &json!({"spec": {"trafficDistribution": null}})).expect("a change");
        run(&EndpointSlices, &mut world);
        assert!(hints(&world).iter().all(|hint| hint.ends_with("[] []")), "{:?}", hints(&world));
    }
}

#[test]
fn automatic_hints_are_there_while_every_zone_has_an_endpoint() {
    let mut world = World::new();
    let mut automatic = service("web");
    automatic["metadata"]["annotations"]["service.kubernetes.io/topology-mode"] = "Auto".into();
    world.must(automatic);
    node_in(&mut world, "n1", Some("east"));
    pod_on(&mut world, "a", "n1", "10.0.0.1", true);
    run(&EndpointSlices, &mut world);
    assert_eq!(hints(&world), ["10.0.0.1 east [] []"], "one zone needs none");
    let west = node_in(&mut world, "n2", Some("west"));
    run(&EndpointSlices, &mut world);
    assert_eq!(hints(&world), ["10.0.0.1 east [] []"], "the west would be shut out");
    pod_on(&mut world, "b", "n2", "10.0.0.2", true);
    run(&EndpointSlices, &mut world);
    assert_eq!(hints(&world), ["10.0.0.1 east [east] []", "10.0.0.2 west [west] []"]);
    let lost = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    world.merge(&west, Some(Subresource::Status), &lost).expect("a status");
    run(&EndpointSlices, &mut world);
    assert!(hints(&world).iter().all(|hint| hint.ends_with("[] []")), "one zone is left: {:?}", hints(&world));
    // A node that is nowhere makes it unknown who would be shut out.
    world.merge(&west, Some(Subresource::Status), &node_status(world.now)).expect("a status");
    run(&EndpointSlices, &mut world);
    assert!(hints(&world).iter().any(|hint| hint.contains("[east]")));
    node_in(&mut world, "n3", None);
    run(&EndpointSlices, &mut world);
    assert!(hints(&world).iter().all(|hint| hint.ends_with("[] []")), "{:?}", hints(&world));
}

#[test]
fn pods_of_the_hosts_network_are_endpoints_at_their_nodes_address() {
    let mut world = World::new();
    world.must(service("web"));
    let mut host = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "h", "namespace": "default", "labels": {"app": "web"}},
        "spec": {"nodeName": "n1", "hostNetwork": true, "containers": [{"name": "main", "image": "demo:1"}]},
    });
    host["spec"]["containers"][0]["ports"] = json!([{"name": "http", "containerPort": 8080}]);
    let key = world.must(host);
    assert_eq!(world.value(&key).expect("the pod")["spec"]["containers"][0]["ports"][0]["hostPort"], 8080);
    let status = json!({"status": {
        "phase": "Running", "hostIP": "192.0.2.5", "podIP": "192.0.2.5", "podIPs": [{"ip": "192.0.2.5"}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }});
    world.merge(&key, Some(Subresource::Status), &status).expect("a status");
    run(&EndpointSlices, &mut world);
    assert_eq!(hints(&world), ["192.0.2.5 - [] []"]);
}
