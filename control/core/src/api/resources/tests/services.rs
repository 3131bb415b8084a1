//! For every rule of Services and address pools: the change that breaks it, and the cause that tells.

use serde_json::json;

use super::valid::faults;
use super::{causes, create, service, with};

#[test]
fn plain_services() {
    faults(
        "services",
        &service(),
        &[
            ("/metadata/name", json!("1web"), &["metadata.name Invalid"]),
            ("/spec/ports", json!([]), &["spec.ports Required"]),
            ("/spec/ports", json!([{"port": 0}]), &["spec.ports[0].port Invalid", "spec.ports[0].targetPort Invalid"]),
            ("/spec/ports", json!([{"port": 80, "targetPort": "Bad_Name"}]), &["spec.ports[0].targetPort Invalid"]),
            ("/spec/ports", json!([{"name": "a", "port": 80}, {"port": 81}]), &["spec.ports[1].name Required"]),
            (
                "/spec/ports",
                json!([{"name": "a", "port": 80}, {"name": "a", "port": 81}]),
                &["spec.ports[1].name Duplicate"],
            ),
            (
                "/spec/ports",
                json!([{"name": "a", "port": 80}, {"name": "b", "port": 80}]),
                &["spec.ports[1] Duplicate"],
            ),
            ("/spec/ports", json!([{"name": "a", "port": 53}, {"name": "b", "port": 53, "protocol": "UDP"}]), &[]),
            ("/spec/ports", json!([{"port": 80, "protocol": "X"}]), &["spec.ports[0].protocol NotSupported"]),
            ("/spec/ports", json!([{"port": 80, "nodePort": 30_000}]), &["spec.ports[0].nodePort Forbidden"]),
            ("/spec/type", json!("Other"), &["spec.type NotSupported"]),
            ("/spec/type", json!("ExternalName"), &["spec.externalName Required"]),
            ("/spec/sessionAffinity", json!("Cookie"), &["spec.sessionAffinity NotSupported"]),
            ("/spec/selector", json!({"a": "b c"}), &["spec.selector Invalid"]),
            ("/spec/externalIPs", json!(["x"]), &["spec.externalIPs[0] Invalid"]),
            ("/spec/externalIPs", json!(["192.0.2.1", "2001:db8::1"]), &[]),
            ("/spec/externalIPs", json!(["127.0.0.1"]), &["spec.externalIPs[0] Invalid"]),
            ("/spec/externalIPs", json!(["192.0.2.1", "0.0.0.0"]), &["spec.externalIPs[1] Invalid"]),
            ("/spec/externalIPs", json!(["fe80::1"]), &["spec.externalIPs[0] Invalid"]),
            ("/spec/sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": 0}}), &[]),
            ("/spec/externalTrafficPolicy", json!("Local"), &["spec.externalTrafficPolicy Invalid"]),
            ("/spec/internalTrafficPolicy", json!("Local"), &[]),
            ("/spec/internalTrafficPolicy", json!("Near"), &["spec.internalTrafficPolicy NotSupported"]),
            ("/spec/trafficDistribution", json!("PreferClose"), &[]),
            ("/spec/trafficDistribution", json!("PreferSameZone"), &[]),
            ("/spec/trafficDistribution", json!("PreferSameNode"), &[]),
            ("/spec/trafficDistribution", json!("PreferFar"), &["spec.trafficDistribution NotSupported"]),
            ("/spec/healthCheckNodePort", json!(30_000), &["spec.healthCheckNodePort Invalid"]),
            ("/spec/allocateLoadBalancerNodePorts", json!(true), &["spec.allocateLoadBalancerNodePorts Forbidden"]),
            ("/spec/loadBalancerClass", json!("a/b"), &["spec.loadBalancerClass Forbidden"]),
            ("/spec/loadBalancerSourceRanges", json!(["10.0.0.0/8"]), &["spec.LoadBalancerSourceRanges Forbidden"]),
            ("/spec/ports", json!([{"port": 80, "appProtocol": "a b"}]), &["spec.ports[0].appProtocol Invalid"]),
        ],
    );
    let headless = with(&with(&service(), "/spec/clusterIP", json!("None")), "/spec/ports", json!(null));
    create("services", headless).unwrap();
}

#[test]
fn services_with_affinity_and_names() {
    let sticky = with(&service(), "/spec/sessionAffinity", json!("ClientIP"));
    let timeout = |seconds: i64| json!({"clientIP": {"timeoutSeconds": seconds}});
    let place = "spec.sessionAffinityConfig.clientIP.timeoutSeconds Invalid";
    faults(
        "services",
        &sticky,
        &[
            ("/spec/sessionAffinityConfig", timeout(1), &[]),
            ("/spec/sessionAffinityConfig", timeout(86_400), &[]),
            ("/spec/sessionAffinityConfig", timeout(0), &[place]),
            ("/spec/sessionAffinityConfig", timeout(-1), &[place]),
            ("/spec/sessionAffinityConfig", timeout(86_401), &[place]),
        ],
    );
    let named = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {
        "type": "ExternalName", "externalName": "db.example.org"}});
    faults(
        "services",
        &named,
        &[
            ("/spec/externalName", json!("db.example.org."), &[]),
            ("/spec/externalName", json!("db.example.org.."), &["spec.externalName Invalid"]),
            ("/spec/externalName", json!("Not_A_Name"), &["spec.externalName Invalid"]),
            ("/spec/externalName", json!("-a.example"), &["spec.externalName Invalid"]),
            ("/spec/externalName", json!(""), &["spec.externalName Required"]),
            ("/spec/clusterIP", json!("10.96.0.7"), &["spec.clusterIPs Forbidden"]),
            ("/spec/clusterIP", json!("None"), &["spec.clusterIPs Forbidden"]),
            ("/spec/ipFamilies", json!(["IPv4"]), &["spec.ipFamilies Forbidden"]),
            ("/spec/ipFamilyPolicy", json!("SingleStack"), &["spec.ipFamilyPolicy Forbidden"]),
        ],
    );
}

#[test]
fn load_balancers() {
    let balancer = with(&service(), "/spec/type", json!("LoadBalancer"));
    let annotated = |value: &str| json!({"service.beta.kubernetes.io/load-balancer-source-ranges": value});
    let annotation = "metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]";
    faults(
        "services",
        &balancer,
        &[
            ("/spec/clusterIP", json!("None"), &["spec.clusterIPs[0] Invalid"]),
            ("/spec/ports", json!([{"port": 10_250}]), &["spec.ports[0] Invalid"]),
            ("/spec/loadBalancerSourceRanges", json!(["10.0.0.0/8", " 2001:db8::/32 "]), &[]),
            (
                "/spec/loadBalancerSourceRanges",
                json!(["10.0.0.0/8", "10.0.0.0"]),
                &["spec.LoadBalancerSourceRanges[1] Invalid"],
            ),
            ("/metadata/annotations", annotated("10.0.0.0/8, 10.9.0.0/16"), &[]),
            ("/metadata/annotations", annotated(" "), &[]),
            ("/metadata/annotations", annotated("10.0.0.0/8,x"), &[format!("{annotation} Invalid").as_str()]),
            ("/spec/loadBalancerClass", json!("skep.io/address-pool"), &[]),
            ("/spec/loadBalancerClass", json!("no good"), &["spec.loadBalancerClass Invalid"]),
            ("/spec/allocateLoadBalancerNodePorts", json!(false), &[]),
            ("/spec/externalTrafficPolicy", json!("Local"), &[]),
            ("/spec/externalTrafficPolicy", json!("Near"), &["spec.externalTrafficPolicy NotSupported"]),
            ("/spec/healthCheckNodePort", json!(30_000), &["spec.healthCheckNodePort Invalid"]),
        ],
    );
    let local = with(&balancer, "/spec/externalTrafficPolicy", json!("Local"));
    faults(
        "services",
        &local,
        &[
            ("/spec/healthCheckNodePort", json!(30_000), &[]),
            ("/spec/healthCheckNodePort", json!(70_000), &["spec.healthCheckNodePort Invalid"]),
        ],
    );
    let plain = with(&service(), "/metadata/annotations", annotated("10.0.0.0/8"));
    assert_eq!(causes(&create("services", plain).unwrap_err()), [format!("{annotation} Forbidden")]);
}

#[test]
fn address_pools() {
    let pool = json!({"apiVersion": "skep.io/v1alpha1", "kind": "AddressPool", "metadata": {"name": "outside"},
        "spec": {"addresses": ["192.0.2.0/28", "2001:db8::10-2001:db8::20"]}});
    let first = "spec.addresses[0] Invalid";
    faults(
        "addresspools",
        &pool,
        &[
            ("/spec/addresses", json!([]), &["spec.addresses Required"]),
            ("/spec/addresses", json!(["192.0.2.0"]), &[first]),
            ("/spec/addresses", json!(["192.0.2.1/28"]), &[first]),
            ("/spec/addresses", json!(["192.0.2.9-192.0.2.1"]), &[first]),
            ("/spec/addresses", json!(["192.0.2.9-2001:db8::1"]), &[first]),
            ("/spec/addresses", json!(["127.0.0.0/24"]), &[first]),
            ("/spec/addresses", json!(["0.0.0.0/0"]), &[first]),
            ("/spec/addresses", json!(["192.0.2.0/24", "192.0.2.7-192.0.3.1"]), &["spec.addresses[1] Invalid"]),
            ("/spec/addresses", json!(vec!["192.0.2.0/32"; 101]), &["spec.addresses TooMany"]),
            ("/spec/namespaces", json!(["team", "a.b"]), &["spec.namespaces[1] Invalid"]),
            (
                "/spec/serviceSelector",
                json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
                &["spec.serviceSelector.matchExpressions[0].values Required"],
            ),
        ],
    );
    let made = create("addresspools", with(&pool, "/status", json!({"ipv4": {"assigned": 7}}))).unwrap();
    assert_eq!((&made["spec"]["autoAssign"], made.get("status")), (&json!(true), None));
    assert!(made["metadata"].get("namespace").is_none());
}
