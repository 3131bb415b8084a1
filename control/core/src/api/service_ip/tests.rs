use super::*;

fn cidrs() -> ServiceCidrs {
    ServiceCidrs::parse("10.96.0.0/16,fd53::/112").unwrap()
}

fn ranges(cidrs: ServiceCidrs) -> ServiceRanges {
    ServiceRanges { cidrs, node_ports: NodePorts::default() }
}

fn service(spec: Value) -> Value {
    json!({"metadata": {"name": "a"}, "spec": spec})
}

fn given(spec: Value, old: Option<&Value>, taken: &Taken) -> Result<Value, Status> {
    let mut object = service(spec);
    allocate(&mut object, old, &ranges(cidrs()), taken, 7)?;
    Ok(object)
}

#[test]
fn service_ranges_are_parsed() {
    assert_eq!(cidrs().first(), Some("10.96.0.1".parse().unwrap()));
    assert_eq!(ServiceCidrs::parse("10.96.3.4/16").unwrap().v4, Some(("10.96.0.0".parse().unwrap(), 16)));
    for bad in ["", "10.0.0.0", "10.0.0.0/31", "10.0.0.0/8,10.1.0.0/16", "x/8", "fd53::/128"] {
        assert!(ServiceCidrs::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_plain_service_gets_one_address_of_the_first_family() {
    let object = given(json!({"type": "ClusterIP"}), None, &Taken::default()).unwrap();
    let spec = &object["spec"];
    assert_eq!(spec["ipFamilyPolicy"], "SingleStack");
    assert_eq!(spec["ipFamilies"], json!(["IPv4"]));
    let ip: Ipv4Addr = text(&spec["clusterIP"]).parse().unwrap();
    assert_eq!(ip.octets()[..2], [10, 96]);
    assert_eq!(spec["clusterIPs"], json!([spec["clusterIP"]]));
    assert_eq!(given(json!({"type": "ClusterIP"}), None, &Taken::default()).unwrap(), object);
}

#[test]
fn dual_stack_by_policy_families_or_addresses() {
    for spec in [
        json!({"type": "ClusterIP", "ipFamilyPolicy": "PreferDualStack"}),
        json!({"type": "ClusterIP", "ipFamilyPolicy": "RequireDualStack"}),
        json!({"type": "ClusterIP", "ipFamilies": ["IPv4", "IPv6"]}),
        json!({"type": "ClusterIP", "clusterIPs": ["10.96.0.9", "fd53::9"], "clusterIP": "10.96.0.9"}),
    ] {
        let object = given(spec, None, &Taken::default()).unwrap();
        assert_eq!(object["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
        assert_eq!(items(&object["spec"]["clusterIPs"]).len(), 2);
    }
    let six = given(json!({"type": "ClusterIP", "ipFamilies": ["IPv6"]}), None, &Taken::default()).unwrap();
    assert!(text(&six["spec"]["clusterIP"]).starts_with("fd53::"));
}

#[test]
fn a_single_stack_cluster() {
    let one = ranges(ServiceCidrs::parse("10.96.0.0/24").unwrap());
    let mut prefer = service(json!({"type": "ClusterIP", "ipFamilyPolicy": "PreferDualStack"}));
    allocate(&mut prefer, None, &one, &Taken::default(), 1).unwrap();
    assert_eq!(prefer["spec"]["ipFamilies"], json!(["IPv4"]));
    let mut require = service(json!({"type": "ClusterIP", "ipFamilyPolicy": "RequireDualStack"}));
    let status = allocate(&mut require, None, &one, &Taken::default(), 1).unwrap_err();
    assert_eq!(status.details.unwrap().causes[0].field, "spec.ipFamilyPolicy");
    let mut six = service(json!({"type": "ClusterIP", "ipFamilies": ["IPv6"]}));
    let status = allocate(&mut six, None, &one, &Taken::default(), 1).unwrap_err();
    assert_eq!(status.details.unwrap().causes[0].field, "spec.ipFamilies[0]");
}

#[test]
fn asked_addresses_are_checked() {
    let mut taken = Taken::default();
    taken.add(&service(json!({"clusterIPs": ["10.96.0.5"]})));
    for (ip, good) in [
        ("10.96.0.1", true),
        ("10.96.0.5", false),
        ("10.97.0.1", false),
        ("10.96.0.0", false),
        ("10.96.255.255", false),
        ("x", false),
    ] {
        let got = given(json!({"type": "ClusterIP", "clusterIP": ip}), None, &taken);
        assert_eq!(got.is_ok(), good, "{ip}");
        if let Err(status) = got {
            assert!(status.details.unwrap().causes[0].field.starts_with("spec.clusterIPs"));
        }
    }
}

#[test]
fn every_address_is_given_once_and_then_no_more() {
    let small = ranges(ServiceCidrs::parse("10.0.0.0/29").unwrap());
    let mut taken = Taken::default();
    for random in 0..5 {
        let mut object = service(json!({"type": "ClusterIP"}));
        allocate(&mut object, None, &small, &taken, random).unwrap();
        let before = taken.addresses.len();
        taken.add(&object);
        assert_eq!(taken.addresses.len(), before + 1);
    }
    let mut object = service(json!({"type": "ClusterIP"}));
    assert_eq!(allocate(&mut object, None, &small, &taken, 9).unwrap_err().code, 500);
    let mut first = service(json!({"type": "ClusterIP", "clusterIP": "10.0.0.1"}));
    allocate(&mut first, None, &small, &taken, 9).unwrap();
}

#[test]
fn the_address_of_cluster_dns_is_given_to_who_asks_for_it() {
    let small = ranges(ServiceCidrs::parse("10.0.0.0/28").unwrap());
    let mut taken = Taken::default();
    let dns: IpAddr = "10.0.0.10".parse().unwrap();
    // All of 14 but the first and the tenth.
    for random in 0..12 {
        let mut object = service(json!({"type": "ClusterIP"}));
        allocate(&mut object, None, &small, &taken, random).unwrap();
        taken.add(&object);
    }
    assert!(taken.addresses.len() == 12 && !taken.addresses.contains(&dns), "{taken:?}");
    let mut asking = service(json!({"type": "ClusterIP", "clusterIP": "10.0.0.10"}));
    allocate(&mut asking, None, &small, &taken, 9).unwrap();
}

#[test]
fn headless_and_external_services_take_nothing() {
    let headless =
        given(json!({"type": "ClusterIP", "clusterIP": "None", "selector": {"a": "b"}}), None, &Taken::default())
            .unwrap();
    assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
    assert_eq!(headless["spec"]["ipFamilies"], json!(["IPv4"]));
    let external = given(json!({"type": "ExternalName", "externalName": "x.y"}), None, &Taken::default()).unwrap();
    assert!(external["spec"].get("clusterIP").is_none());
}

#[test]
fn an_update_keeps_and_widens_and_narrows() {
    let mut taken = Taken::default();
    let old = given(json!({"type": "ClusterIP"}), None, &taken).unwrap();
    taken.add(&old);
    let mut wide = old.clone();
    set(child(&mut wide, "spec"), "ipFamilyPolicy", "PreferDualStack");
    allocate(&mut wide, Some(&old), &ranges(cidrs()), &taken, 3).unwrap();
    assert_eq!(wide["spec"]["clusterIP"], old["spec"]["clusterIP"]);
    assert_eq!(items(&wide["spec"]["clusterIPs"]).len(), 2);
    let mut narrow = wide.clone();
    set(child(&mut narrow, "spec"), "ipFamilyPolicy", "SingleStack");
    allocate(&mut narrow, Some(&wide), &ranges(cidrs()), &taken, 3).unwrap();
    assert_eq!(narrow["spec"]["clusterIPs"], json!([old["spec"]["clusterIP"]]));
    assert_eq!(narrow["spec"]["ipFamilies"], json!(["IPv4"]));
}

#[test]
fn node_ports_are_given_and_checked() {
    let mut taken = Taken::default();
    taken.add(&service(json!({"ports": [{"protocol": "TCP", "nodePort": 30_001}], "healthCheckNodePort": 30_002})));
    let object = given(json!({"type": "NodePort", "ports": [{"port": 80, "protocol": "TCP"}]}), None, &taken).unwrap();
    let chosen = object["spec"]["ports"][0]["nodePort"].as_u64().unwrap();
    assert!((30_000..=32_767).contains(&chosen));
    for (port, protocol, text) in [
        (30_001, "TCP", "provided port is already allocated"),
        // A number is one Service's, whatever the protocol.
        (30_001, "UDP", "provided port is already allocated"),
        (30_002, "TCP", "provided port is already allocated"),
        (80, "TCP", "provided port is not in the valid range. The range of valid ports is 30000-32767"),
    ] {
        let ports = json!([{"port": 80, "protocol": protocol, "nodePort": port}]);
        let status = given(json!({"type": "NodePort", "ports": ports}), None, &taken).unwrap_err();
        let cause = status.details.unwrap().causes.remove(0);
        assert_eq!(cause.field, "spec.ports[0].nodePort");
        assert_eq!(cause.message, format!("Invalid value: {port}: {text}"));
    }
}

#[test]
fn one_port_over_two_protocols_has_one_node_port() {
    let dns = |tcp: Value, udp: Value| {
        let mut ports =
            json!([{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}, {"port": 80, "protocol": "TCP"}]);
        ports[0]["nodePort"] = tcp;
        ports[1]["nodePort"] = udp;
        let object = given(json!({"type": "NodePort", "ports": ports}), None, &Taken::default()).unwrap();
        let number = |index: usize| object["spec"]["ports"][index]["nodePort"].as_u64().unwrap();
        (number(0), number(1), number(2))
    };
    let (tcp, udp, other) = dns(Value::Null, Value::Null);
    assert_eq!(tcp, udp);
    assert_ne!(tcp, other);
    assert_eq!(dns(Value::Null, json!(30_053)).0, 30_053);
    assert_eq!(dns(json!(30_053), Value::Null).1, 30_053);
    let (tcp, udp, _) = dns(json!(30_053), json!(30_054));
    assert_eq!((tcp, udp), (30_053, 30_054));
    // Two ports cannot share one.
    let ports = json!([{"port": 80, "protocol": "TCP", "nodePort": 30_001}, {"port": 90, "protocol": "UDP", "nodePort": 30_001}]);
    let status = given(json!({"type": "NodePort", "ports": ports}), None, &Taken::default()).unwrap_err();
    assert_eq!(status.details.unwrap().causes[0].field, "spec.ports[1].nodePort");
}

#[test]
fn a_range_of_node_ports_is_used_up_and_no_more() {
    let two = ServiceRanges { cidrs: cidrs(), node_ports: "31000-31001".parse().unwrap() };
    let mut taken = Taken::default();
    for random in 0..2 {
        let mut object = service(json!({"type": "NodePort", "ports": [{"port": 80, "protocol": "TCP"}]}));
        allocate(&mut object, None, &two, &taken, random).unwrap();
        taken.add(&object);
    }
    assert_eq!(taken.node_ports, [31_000, 31_001].into());
    let mut object = service(json!({"type": "NodePort", "ports": [{"port": 80, "protocol": "TCP"}]}));
    let status = allocate(&mut object, None, &two, &taken, 9).unwrap_err();
    assert_eq!((status.code, status.message.contains("range is full")), (500, true), "{}", status.message);
    for bad in ["", "1", "2-1", "0-5", "a-b", "30000-70000"] {
        assert!(bad.parse::<NodePorts>().is_err(), "{bad}");
    }
}

#[test]
fn what_was_given_from_another_range_is_kept() {
    let spec =
        json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80, "protocol": "TCP"}]});
    let old = given(spec, None, &Taken::default()).unwrap();
    let elsewhere = ServiceRanges {
        cidrs: ServiceCidrs::parse("10.99.0.0/16,fd99::/112").unwrap(),
        node_ports: "20000-20010".parse().unwrap(),
    };
    let mut taken = Taken::default();
    taken.add(&old);
    let mut new = old.clone();
    allocate(&mut new, Some(&old), &elsewhere, &taken, 1).unwrap();
    assert_eq!(new, old);
    // What is added comes from the new one.
    let more = json!([old["spec"]["ports"][0], {"port": 81, "protocol": "TCP"}]);
    set(child(&mut new, "spec"), "ports", more);
    allocate(&mut new, Some(&old), &elsewhere, &taken, 1).unwrap();
    assert_eq!(new["spec"]["ports"][0], old["spec"]["ports"][0]);
    assert!((20_000..=20_010).contains(&new["spec"]["ports"][1]["nodePort"].as_u64().unwrap()));
}

#[test]
fn health_checks_have_a_port_of_their_own() {
    let local = |extra: Value| {
        let mut spec = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30_001}]});
        spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        spec
    };
    let mut taken = Taken::default();
    taken.add(&service(json!({"healthCheckNodePort": 30_007})));
    let object = given(local(json!({})), None, &taken).unwrap();
    let port = object["spec"]["healthCheckNodePort"].as_u64().unwrap();
    assert!((30_000..=32_767).contains(&port) && ![30_001, 30_007].contains(&port));
    let mut held = Taken::default();
    held.add(&object);
    assert_eq!(held.node_ports.len(), 2);
    // It stays on an update.
    assert_eq!(given(object["spec"].clone(), Some(&object), &held).unwrap()["spec"], object["spec"]);
    for asked in [30_007, 30_001, 9] {
        let status = given(local(json!({"healthCheckNodePort": asked})), None, &taken).unwrap_err();
        let expected = format!("failed to allocate requested HealthCheck NodePort {asked}: provided port is ");
        assert!(status.code == 500 && status.message.contains(&expected), "{}", status.message);
    }
    let cluster = given(json!({"type": "LoadBalancer", "externalTrafficPolicy": "Cluster", "ports": []}), None, &taken);
    assert!(cluster.unwrap()["spec"].get("healthCheckNodePort").is_none());
}
