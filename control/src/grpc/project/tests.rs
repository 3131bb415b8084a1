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
fn services_without_a_cluster_address_are_of_use_to_dns() {
    let found = service(json!({
        "clusterIP": "None", "clusterIPs": ["None"], "type": "ClusterIP", "ipFamilies": ["IPv6", "IPv4"],
        "publishNotReadyAddresses": true, "ports": [{"name": "http", "port": 80}],
    }));
    let found = found.unwrap();
    assert_eq!((found.headless, found.publish_not_ready_addresses, found.cluster_ips.len()), (true, true, 0));
    assert_eq!(found.ip_families, ["IPv6", "IPv4"]);
    // Addresses of a time before it became a name are nothing to serve.
    let named = json!({
        "type": "ExternalName", "externalName": "db.example.org", "externalIPs": ["192.0.2.1"], "clusterIP": "10.96.0.9",
    });
    let expected = wire::Service {
        namespace: "shop".into(),
        name: "web".into(),
        uid: "u".into(),
        r#type: wire::ServiceType::ExternalName.into(),
        external_name: "db.example.org".into(),
        ..wire::Service::default()
    };
    assert_eq!(service(named), Some(expected));
    assert_eq!(project::<Service>(json!({"metadata": {"name": "web"}})), None);
}

#[test]
fn a_load_balancer_is_all_that_nodes_have_to_serve() {
    let object = |kind: &str| {
        json!({
            "metadata": {
                "namespace": "shop", "name": "web", "uid": "u",
                "annotations": {"service.skep.io/load-balancing": "maglev"},
            },
            "spec": {
                "type": kind, "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "ipFamilies": ["IPv4"],
                "ports": [{"name": "http", "port": 80, "nodePort": 30080}],
                "externalIPs": ["198.51.100.1"], "loadBalancerSourceRanges": ["203.0.113.0/24"],
                "internalTrafficPolicy": "Local", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30999,
                "trafficDistribution": "PreferClose",
            },
            "status": {"loadBalancer": {"ingress": [
                {"ip": "192.0.2.10", "ipMode": "VIP"}, {"ip": "2001:db8::10"}, {"ip": "192.0.2.11", "ipMode": "Proxy"},
                {"hostname": "lb.example.org"},
            ]}},
        })
    };
    let found = |kind| match project::<Service>(object(kind)) {
        Some(Event::Service(service)) => service,
        other => panic!("{other:?}"),
    };
    let expected = wire::Service {
        namespace: "shop".into(),
        name: "web".into(),
        uid: "u".into(),
        cluster_ips: vec!["10.96.0.9".into()],
        ports: vec![wire::ServicePort {
            name: "http".into(),
            protocol: Protocol::Tcp.into(),
            port: 80,
            node_port: 30_080,
        }],
        r#type: wire::ServiceType::LoadBalancer.into(),
        external_ips: vec!["198.51.100.1".into()],
        load_balancer_ips: vec!["192.0.2.10".into(), "2001:db8::10".into()],
        load_balancer_source_ranges: vec!["203.0.113.0/24".into()],
        internal_local: true,
        external_local: true,
        health_check_node_port: 30_999,
        maglev: true,
        traffic_distribution: "PreferClose".into(),
        ip_families: vec!["IPv4".into()],
        ..wire::Service::default()
    };
    assert_eq!(found("LoadBalancer"), expected);
    // What is left of a status from before a change of the type is not served.
    let other = found("NodePort");
    assert_eq!((other.r#type(), other.load_balancer_ips.len()), (wire::ServiceType::NodePort, 0));
    assert_eq!((other.load_balancer_source_ranges.len(), other.health_check_node_port), (0, 0));
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
                {
                    "addresses": ["10.0.0.2"], "conditions": {"ready": false, "serving": true, "terminating": true},
                    "hostname": "b", "zone": "z1",
                    "hints": {"forZones": [{"name": "z1"}, {"name": "z2"}], "forNodes": [{"name": "n2"}]},
                },
            ],
        }))
    };
    let labels = json!({"kubernetes.io/service-name": "web"});
    let Some(Event::EndpointSlice(found)) = slice(labels.clone(), "IPv4") else { panic!("no slice") };
    assert_eq!((found.service.as_str(), found.ports.len()), ("web", 1));
    let [first, second] = &found.endpoints[..] else { panic!("{:?}", found.endpoints) };
    assert_eq!((first.ready, first.serving, first.terminating, first.pod.as_str()), (true, true, false, "web-a"));
    assert_eq!((second.ready, second.serving, second.terminating, second.pod.as_str()), (false, true, true, ""));
    assert_eq!((second.hostname.as_str(), second.zone.as_str()), ("b", "z1"));
    assert_eq!((second.for_zones.join(","), second.for_nodes.join(",")), ("z1,z2".into(), "n2".into()));
    assert_eq!((first.for_zones.len(), first.for_nodes.len()), (0, 0));
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

fn route(node: Value) -> Option<wire::NodeRoute> {
    match project::<Node>(node) {
        Some(Event::NodeRoute(route)) => Some(route),
        None => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_node_route_has_next_hops_and_ranges() {
    let node = |spec: Value, addresses: Value| {
        route(json!({"metadata": {"name": "n1"}, "spec": spec, "status": {"addresses": addresses}}))
    };
    let addresses = json!([{"type": "Hostname", "address": "n1"}, {"type": "InternalIP", "address": "192.0.2.1"}]);
    let spec = json!({"podCIDR": "10.244.0.0/24", "podCIDRs": ["10.244.0.0/24", "fd00::/64"]});
    let found = node(spec.clone(), addresses.clone()).unwrap();
    assert_eq!(found.addresses, ["192.0.2.1"]);
    assert_eq!(found.pod_cidrs, ["10.244.0.0/24", "fd00::/64"]);
    // A node without pods' addresses still has node ports.
    assert_eq!(node(json!({}), addresses).unwrap().pod_cidrs.len(), 0);
    assert_eq!(node(spec, json!([])), None);
}

#[test]
fn a_node_route_says_zone_and_readiness_and_nothing_of_the_rest() {
    let node = |ready: &str, beat: &str, labels: Value| {
        route(json!({
            "metadata": {"name": "n1", "labels": labels, "resourceVersion": beat},
            "status": {
                "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}],
                "conditions": [
                    {"type": "MemoryPressure", "status": "True"},
                    {"type": "Ready", "status": ready, "lastHeartbeatTime": beat},
                ],
            },
        }))
        .unwrap()
    };
    let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:10Z");
    let labels = json!({"topology.kubernetes.io/zone": "z1", "x": "y"});
    let first = node("True", early, labels.clone());
    assert_eq!((first.zone.as_str(), first.ready, first.exclude_from_load_balancers), ("z1", true, false));
    assert_eq!(node("True", late, labels.clone()), first);
    assert!(!node("False", early, labels.clone()).ready);
    assert!(!node("Unknown", early, labels).ready);
    let excluded = node("True", early, json!({"node.kubernetes.io/exclude-from-external-load-balancers": ""}));
    assert!(excluded.exclude_from_load_balancers);
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
