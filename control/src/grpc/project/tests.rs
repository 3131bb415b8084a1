//! Objects as a user would write them, and what is left of them.

use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde_json::{Value, json};
use skep_proto::dataplane::v1 as wire;
use skep_proto::dataplane::v1::label_selector_requirement::Operator;

use super::*;

fn project<K: Project>(value: Value) -> Option<Event> {
    serde_json::from_value::<K>(value).unwrap().project()
}

fn service(spec: Value) -> Option<wire::Service> {
    let object = json!({"metadata": {"namespace": "shop", "name": "web", "uid": "u"}, "spec": spec});
    match project::<Service>(object) {
        Some(Event::Service(service)) => Some(service),
        None => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_service_keeps_its_addresses_and_ports() {
    let found = service(json!({
        "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9", "fd00::9"],
        "ports": [{"name": "http", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": "dns"}],
    }));
    let expected = wire::Service {
        namespace: "shop".into(),
        name: "web".into(),
        uid: "u".into(),
        cluster_ips: vec!["10.96.0.9".into(), "fd00::9".into()],
        ports: vec![
            wire::ServicePort { name: "http".into(), protocol: Protocol::Tcp.into(), port: 80, node_port: 0 },
            wire::ServicePort { name: "dns".into(), protocol: Protocol::Udp.into(), port: 53, node_port: 0 },
        ],
        r#type: wire::ServiceType::ClusterIp.into(),
        ..wire::Service::default()
    };
    assert_eq!(found, Some(expected));
}

#[test]
fn affinity_has_a_default_time() {
    let timeout = |extra: Value| {
        let mut spec = json!({"clusterIP": "10.96.0.9", "sessionAffinity": "ClientIP"});
        spec["sessionAffinityConfig"] = extra;
        service(spec).unwrap().affinity_timeout_seconds
    };
    assert_eq!(timeout(Value::Null), 10_800);
    assert_eq!(timeout(json!({"clientIP": {"timeoutSeconds": 60}})), 60);
}

#[test]
fn services_without_a_cluster_address_are_none() {
    assert_eq!(service(json!({"clusterIP": "None", "clusterIPs": ["None"]})), None);
    assert_eq!(service(json!({"type": "ExternalName", "externalName": "a.example"})), None);
    assert_eq!(service(json!({})), None);
}

#[test]
fn endpoints_have_conditions_with_defaults() {
    let slice = |labels: Value, kind: &str| {
        project::<EndpointSlice>(json!({
            "metadata": {"namespace": "shop", "name": "web-1", "labels": labels},
            "addressType": kind,
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}, {"name": "all"}],
            "endpoints": [
                {"addresses": ["10.0.0.1"], "nodeName": "n1", "targetRef": {"kind": "Pod", "name": "web-a"}},
                {"addresses": ["10.0.0.2"], "conditions": {"ready": false, "serving": true, "terminating": true}},
            ],
        }))
    };
    let labels = json!({"kubernetes.io/service-name": "web"});
    let Some(Event::EndpointSlice(found)) = slice(labels.clone(), "IPv4") else { panic!("no slice") };
    assert_eq!((found.service.as_str(), found.ports.len()), ("web", 1));
    let [first, second] = &found.endpoints[..] else { panic!("{:?}", found.endpoints) };
    assert_eq!((first.ready, first.serving, first.terminating, first.pod.as_str()), (true, true, false, "web-a"));
    assert_eq!((second.ready, second.serving, second.terminating, second.pod.as_str()), (false, true, true, ""));
    assert_eq!(slice(labels, "FQDN"), None);
    assert_eq!(slice(json!({}), "IPv4"), None);
}

fn pod(spec: Value, status: Value) -> Option<wire::Workload> {
    let metadata = json!({"namespace": "shop", "name": "web-a", "uid": "u", "labels": {"app": "web"}});
    let pod: Pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap();
    workload(&pod)
}

#[test]
fn a_workload_is_a_pod_with_addresses_that_has_not_ended() {
    let ports = json!([{"name": "http", "containerPort": 8080}, {"containerPort": 9}]);
    let spec = json!({"nodeName": "n1", "containers": [{"name": "c", "ports": ports}]});
    let addresses = json!([{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]);
    let running = json!({"phase": "Running", "podIP": "10.0.0.1", "podIPs": addresses});
    let found = pod(spec.clone(), running.clone()).unwrap();
    assert_eq!((found.node.as_str(), &found.addresses[..]), ("n1", &["10.0.0.1".to_owned(), "fd00::1".to_owned()][..]));
    assert_eq!(found.labels["app"], "web");
    let http = wire::EndpointPort { name: "http".into(), protocol: Protocol::Tcp.into(), port: 8080 };
    assert_eq!(found.named_ports, [http]);

    assert_eq!(pod(spec.clone(), json!({"phase": "Pending"})), None);
    assert_eq!(pod(spec.clone(), json!({"phase": "Succeeded", "podIP": "10.0.0.1"})), None);
    assert_eq!(pod(json!({"containers": []}), running.clone()), None);
    let mut host = spec;
    host["hostNetwork"] = true.into();
    assert_eq!(pod(host, running), None);
}

#[test]
fn a_node_route_has_next_hops_and_ranges() {
    let node = |spec: Value, addresses: Value| {
        project::<Node>(json!({"metadata": {"name": "n1"}, "spec": spec, "status": {"addresses": addresses}}))
    };
    let addresses = json!([{"type": "Hostname", "address": "n1"}, {"type": "InternalIP", "address": "192.0.2.1"}]);
    let spec = json!({"podCIDR": "10.244.0.0/24", "podCIDRs": ["10.244.0.0/24", "fd00::/64"]});
    let Some(Event::NodeRoute(route)) = node(spec.clone(), addresses.clone()) else { panic!("no route") };
    assert_eq!(route.addresses, ["192.0.2.1"]);
    assert_eq!(route.pod_cidrs, ["10.244.0.0/24", "fd00::/64"]);
    assert_eq!(node(json!({}), addresses), None);
    assert_eq!(node(spec, json!([])), None);
}

#[test]
fn a_namespace_is_its_labels() {
    let found = project::<Namespace>(json!({"metadata": {"name": "shop", "labels": {"team": "a"}}}));
    let labels = [("team".to_owned(), "a".to_owned())].into();
    assert_eq!(found, Some(Event::Namespace(wire::Namespace { name: "shop".into(), labels })));
}

fn policy(spec: Value) -> wire::NetworkPolicy {
    match project::<NetworkPolicy>(json!({"metadata": {"namespace": "shop", "name": "p"}, "spec": spec})) {
        Some(Event::NetworkPolicy(policy)) => policy,
        other => panic!("{other:?}"),
    }
}

#[test]
fn policy_types_have_defaults() {
    let isolated = |spec: Value| {
        let policy = policy(spec);
        (policy.ingress_isolated, policy.egress_isolated)
    };
    assert_eq!(isolated(json!({"podSelector": {}})), (true, false));
    assert_eq!(isolated(json!({"podSelector": {}, "egress": [{}]})), (true, true));
    assert_eq!(isolated(json!({"podSelector": {}, "policyTypes": ["Egress"]})), (false, true));
    assert_eq!(isolated(json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})), (true, true));
}

#[test]
fn policy_rules_keep_peers_and_ports() {
    let found = policy(json!({
        "podSelector": {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["db"]}]},
        "ingress": [
            {},
            {
                "from": [
                    {"podSelector": {"matchLabels": {"app": "web"}}},
                    {"namespaceSelector": {}, "podSelector": {}},
                    {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
                ],
                "ports": [{"port": 80}, {"port": "dns", "protocol": "UDP"}, {"port": 8000, "endPort": 8999}, {}],
            },
        ],
    }));
    let requirement = &found.pod_selector.as_ref().unwrap().match_expressions[0];
    assert_eq!((requirement.operator(), &requirement.values[..]), (Operator::NotIn, &["db".to_owned()][..]));
    // A rule without peers and ports allows everything.
    assert_eq!(found.ingress[0], wire::PolicyRule::default());
    let [own, every, block] = &found.ingress[1].peers[..] else { panic!("{:?}", found.ingress[1].peers) };
    let Some(wire::policy_peer::Peer::Pods(own)) = &own.peer else { panic!("{own:?}") };
    assert!(own.namespace_selector.is_none() && own.pod_selector.is_some());
    let Some(wire::policy_peer::Peer::Pods(every)) = &every.peer else { panic!("{every:?}") };
    assert_eq!(every.namespace_selector, Some(wire::LabelSelector::default()));
    let Some(wire::policy_peer::Peer::IpBlock(block)) = &block.peer else { panic!("{block:?}") };
    assert_eq!((block.cidr.as_str(), &block.except[..]), ("10.0.0.0/8", &["10.1.0.0/16".to_owned()][..]));
    let ports: Vec<_> = found.ingress[1].ports.iter().map(|p| (p.protocol(), p.port.clone(), p.end_port)).collect();
    let number = |n| Some(wire::policy_port::Port::Number(n));
    let expected = [
        (Protocol::Tcp, number(80), 0),
        (Protocol::Udp, Some(wire::policy_port::Port::Name("dns".into())), 0),
        (Protocol::Tcp, number(8000), 8999),
        (Protocol::Tcp, None, 0),
    ];
    assert_eq!(ports, expected);
}
