//! Messages of the stream become events, or errors that name the field.

use std::collections::HashMap;

use skep_proto::dataplane::v1 as proto;

use crate::dataplane::samples::{selector, service, slice};
use crate::dataplane::{
    Change, Cidr, Event, Family, IpBlock, Kind, ObjectName, PodPeer, PolicyPeer, PolicyPorts, Protocol, Requirement,
    Selector, ServiceKind,
};

fn read(event: proto::watch_event::Event) -> Result<Change, String> {
    let wire = proto::WatchEvent { revision: 3, event: Some(event), ..Default::default() };
    Event::try_from(wire).map(|event| event.change).map_err(|invalid| invalid.to_string())
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

fn wire_service(ips: &[&str], ports: &[(&str, i32, u32)]) -> proto::watch_event::Event {
    let port = |&(name, protocol, port): &(&str, i32, u32)| proto::ServicePort {
        name: name.to_owned(),
        protocol,
        port,
        node_port: 0,
    };
    proto::watch_event::Event::Service(proto::Service {
        namespace: "ns".to_owned(),
        name: "web".to_owned(),
        uid: "u".to_owned(),
        cluster_ips: texts(ips),
        ports: ports.iter().map(port).collect(),
        r#type: proto::ServiceType::ClusterIp.into(),
        ..Default::default()
    })
}

fn wire_slice(addresses: &[&str], ports: &[(&str, i32, u32)]) -> proto::watch_event::Event {
    let port =
        |&(name, protocol, port): &(&str, i32, u32)| proto::EndpointPort { name: name.to_owned(), protocol, port };
    proto::watch_event::Event::EndpointSlice(proto::EndpointSlice {
        namespace: "ns".to_owned(),
        name: "web-1".to_owned(),
        service: "web".to_owned(),
        endpoints: vec![proto::Endpoint {
            addresses: texts(addresses),
            ready: true,
            serving: true,
            node: "n1".to_owned(),
            pod: "pod-10.0.0.1".to_owned(),
            ..Default::default()
        }],
        ports: ports.iter().map(port).collect(),
    })
}

fn wire_policy(ingress: Vec<proto::PolicyRule>) -> proto::watch_event::Event {
    let match_labels = HashMap::from([("app".to_owned(), "web".to_owned())]);
    proto::watch_event::Event::NetworkPolicy(proto::NetworkPolicy {
        namespace: "ns".to_owned(),
        name: "p".to_owned(),
        pod_selector: Some(proto::LabelSelector { match_labels, match_expressions: vec![] }),
        ingress_isolated: true,
        ingress,
        ..Default::default()
    })
}

fn block(cidr: &str, except: &[&str]) -> proto::PolicyPeer {
    let block = proto::IpBlock { cidr: cidr.to_owned(), except: texts(except) };
    proto::PolicyPeer { peer: Some(proto::policy_peer::Peer::IpBlock(block)) }
}

fn port(protocol: i32, port: Option<proto::policy_port::Port>, end_port: u32) -> proto::PolicyPort {
    proto::PolicyPort { protocol, port, end_port }
}

#[test]
fn services_and_slices() {
    assert_eq!(
        read(wire_service(&["10.96.0.1", "::ffff:10.96.0.2"], &[("http", 1, 80)])),
        Ok(Change::Service(service("ns/web", &["10.96.0.1", "10.96.0.2"], &["http:80"])))
    );
    assert_eq!(
        read(wire_slice(&["10.0.0.1", "10.0.0.2"], &[("http", 0, 8080)])),
        Ok(Change::EndpointSlice(slice("ns/web-1", "web", &["http:8080"], &["10.0.0.1"])))
    );
    let ip: &[&str] = &["10.96.0.1"];
    let cases = [
        (wire_service(&[], &[]), "Service ns/web: cluster_ips: required"),
        (wire_service(&["10.96.0.1", "nine"], &[]), "Service ns/web: cluster_ips[1]: not an IP address: \"nine\""),
        (wire_service(ip, &[("a", 1, 0)]), "Service ns/web: ports[0].port: 0 is not in 1-65535"),
        (wire_service(ip, &[("a", 1, 65536)]), "Service ns/web: ports[0].port: 65536 is not in 1-65535"),
        (wire_service(ip, &[("a", 9, 80)]), "Service ns/web: ports[0].protocol: unknown protocol 9"),
        (wire_service(ip, &[("a", 1, 80), ("a", 1, 81)]), "Service ns/web: ports[1].name: duplicate of \"a\""),
        (wire_service(ip, &[("a", 1, 80), ("b", 1, 80)]), "Service ns/web: ports[1].port: duplicate of 80"),
        (wire_slice(&[], &[]), "EndpointSlice ns/web-1: endpoints[0].addresses: required"),
        (
            wire_slice(&["10.0.0.256"], &[]),
            "EndpointSlice ns/web-1: endpoints[0].addresses[0]: not an IP address: \"10.0.0.256\"",
        ),
        (wire_slice(&["10.0.0.1"], &[("a", 1, 0)]), "EndpointSlice ns/web-1: ports[0].port: 0 is not in 1-65535"),
    ];
    for (wire, error) in cases {
        assert_eq!(read(wire), Err(error.to_owned()));
    }
}

#[test]
fn every_kind_of_service() {
    let wire = proto::Service {
        namespace: "ns".to_owned(),
        name: "web".to_owned(),
        cluster_ips: texts(&["fd00::1", "10.96.0.1"]),
        ports: vec![proto::ServicePort { name: "http".to_owned(), protocol: 1, port: 80, node_port: 30080 }],
        affinity_timeout_seconds: 10_800,
        r#type: proto::ServiceType::LoadBalancer.into(),
        external_ips: texts(&["203.0.113.1"]),
        load_balancer_ips: texts(&["198.51.100.1"]),
        load_balancer_source_ranges: texts(&[" 192.0.2.0/24 "]),
        internal_local: true,
        external_local: true,
        health_check_node_port: 32000,
        publish_not_ready_addresses: true,
        maglev: true,
        traffic_distribution: "PreferClose".to_owned(),
        ip_families: texts(&["IPv6", "IPv4"]),
        ..Default::default()
    };
    let read = |wire: &proto::Service| read(proto::watch_event::Event::Service(wire.clone()));
    let mut expected = service("ns/web", &["fd00::1", "10.96.0.1"], &["http:80:30080"]);
    expected.kind = ServiceKind::LoadBalancer;
    expected.affinity_timeout_seconds = 10_800;
    expected.external_ips = vec!["203.0.113.1".parse().unwrap()];
    expected.load_balancer_ips = vec!["198.51.100.1".parse().unwrap()];
    expected.load_balancer_source_ranges = vec!["192.0.2.0/24".parse().unwrap()];
    (expected.internal_local, expected.external_local) = (true, true);
    expected.health_check_node_port = Some(32000);
    (expected.publish_not_ready_addresses, expected.maglev) = (true, true);
    expected.traffic_distribution = "PreferClose".to_owned();
    assert_eq!(expected.families, [Family::V6, Family::V4]);
    assert_eq!(read(&wire), Ok(Change::Service(expected)));

    let names = |kind: proto::ServiceType, headless, external_name: &str, ips: &[&str]| proto::Service {
        r#type: kind.into(),
        headless,
        external_name: external_name.to_owned(),
        cluster_ips: texts(ips),
        ip_families: texts(&["IPv4"]),
        ports: vec![],
        ..wire.clone()
    };
    let (cluster, alias) = (proto::ServiceType::ClusterIp, proto::ServiceType::ExternalName);
    let Ok(Change::Service(headless)) = read(&names(cluster, true, "", &[])) else { panic!("not read") };
    assert!(headless.headless && headless.families == [Family::V4]);
    let Ok(Change::Service(alias_read)) = read(&names(alias, false, "example.org", &[])) else { panic!("not read") };
    assert_eq!((alias_read.kind, alias_read.external_name.as_str()), (ServiceKind::ExternalName, "example.org"));
    let with = |change: fn(&mut proto::Service)| {
        let mut wire = wire.clone();
        change(&mut wire);
        wire
    };
    let cases = [
        (names(cluster, false, "", &[]), "cluster_ips: required"),
        (names(cluster, true, "", &["10.96.0.1"]), "cluster_ips: must be empty: the Service is headless"),
        (names(alias, false, "", &[]), "external_name: required"),
        (names(alias, false, "x", &["10.96.0.1"]), "cluster_ips: must be empty: the Service is of type ExternalName"),
        (with(|wire| wire.r#type = 9), "type: unknown type of Service 9"),
        (
            with(|wire| wire.ip_families[1] = "IPX".to_owned()),
            "ip_families[1]: not an address family (IPv4, IPv6): \"IPX\"",
        ),
        (with(|wire| wire.external_ips[0] = "x".to_owned()), "external_ips[0]: not an IP address: \"x\""),
        (with(|wire| wire.load_balancer_ips[0] = "x".to_owned()), "load_balancer_ips[0]: not an IP address: \"x\""),
        (
            with(|wire| wire.load_balancer_source_ranges[0] = "x".to_owned()),
            "load_balancer_source_ranges[0]: not a CIDR: \"x\"",
        ),
        (
            with(|wire| wire.affinity_timeout_seconds = 86_401),
            "affinity_timeout_seconds: 86401 is not in 0-86400 seconds",
        ),
        (with(|wire| wire.health_check_node_port = 65_536), "health_check_node_port: 65536 is not in 1-65535"),
        (with(|wire| wire.ports[0].node_port = 65_536), "ports[0].node_port: 65536 is not in 1-65535"),
        (
            with(|wire| {
                let port = proto::ServicePort { name: "b".to_owned(), port: 81, ..wire.ports[0].clone() };
                wire.ports.push(port);
            }),
            "ports[1].node_port: duplicate of 30080",
        ),
    ];
    for (wire, error) in cases {
        assert_eq!(read(&wire), Err(format!("Service ns/web: {error}")));
    }
}

#[test]
fn policies() {
    use proto::policy_port::Port;

    let pods = proto::PodPeer { namespace_selector: Some(proto::LabelSelector::default()), pod_selector: None };
    let pods = proto::PolicyPeer { peer: Some(proto::policy_peer::Peer::Pods(pods)) };
    let rule = proto::PolicyRule {
        peers: vec![block("10.0.0.0/8", &["10.1.0.0/16"]), pods],
        ports: vec![
            port(0, None, 0),
            port(2, Some(Port::Number(53)), 0),
            port(1, Some(Port::Number(80)), 90),
            port(3, Some(Port::Name("x".to_owned())), 0),
        ],
    };
    let Ok(Change::NetworkPolicy(policy)) = read(wire_policy(vec![rule])) else { panic!("not a policy") };
    assert_eq!(policy.pod_selector, selector("app=web"));
    assert_eq!(policy.egress, None);
    let rule = &policy.ingress.as_ref().unwrap()[0];
    let cidr = |text: &str| text.parse::<Cidr>().unwrap();
    assert_eq!(
        rule.peers,
        [
            PolicyPeer::IpBlock(IpBlock { cidr: cidr("10.0.0.0/8"), except: vec![cidr("10.1.0.0/16")] }),
            PolicyPeer::Pods(PodPeer { namespace_selector: Some(Selector::all()), pod_selector: Selector::all() }),
        ]
    );
    let ports: Vec<_> = rule.ports.iter().map(|port| (port.protocol, port.ports.clone())).collect();
    assert_eq!(
        ports,
        [
            (Protocol::Tcp, PolicyPorts::All),
            (Protocol::Udp, PolicyPorts::Range(53, 53)),
            (Protocol::Tcp, PolicyPorts::Range(80, 90)),
            (Protocol::Sctp, PolicyPorts::Named("x".to_owned())),
        ]
    );
}

#[test]
fn bad_policies_name_the_field_and_say_whom_they_select() {
    use proto::policy_port::Port;

    let peers = |peer| proto::PolicyRule { peers: vec![peer], ports: vec![] };
    let ports = |port| proto::PolicyRule { peers: vec![], ports: vec![port] };
    let cases = [
        (peers(block("10.0.0.0", &[])), "peers[0].ip_block.cidr: not a CIDR: \"10.0.0.0\""),
        (peers(block("10.0.0.0/8", &["x"])), "peers[0].ip_block.except[0]: not a CIDR: \"x\""),
        (peers(block("10.0.0.0/8", &["11.0.0.0/16"])), "peers[0].ip_block.except[0]: 11.0.0.0/16 is not in 10.0.0.0/8"),
        (peers(proto::PolicyPeer { peer: None }), "peers[0].peer: required"),
        (ports(port(1, None, 9)), "ports[0].end_port: 9 does not end a range that begins at `number`"),
        (ports(port(1, Some(Port::Number(9)), 8)), "ports[0].end_port: 8 does not end a range that begins at `number`"),
        (ports(port(1, Some(Port::Number(70000)), 0)), "ports[0].number: 70000 is not in 1-65535"),
        (ports(port(1, Some(Port::Name(String::new())), 0)), "ports[0].name: required"),
    ];
    for (rule, error) in cases {
        let event = wire_policy(vec![proto::PolicyRule::default(), rule]);
        let invalid =
            Event::try_from(proto::WatchEvent { revision: 3, event: Some(event), ..Default::default() }).unwrap_err();
        assert_eq!(invalid.to_string(), format!("NetworkPolicy ns/p: ingress[1].{error}"));
        assert_eq!(invalid.selects, Some(selector("app=web")));
    }
}

#[test]
fn selectors() {
    use proto::label_selector_requirement::Operator;

    let requirement = |key: &str, operator: Operator, values: &[&str]| proto::LabelSelectorRequirement {
        key: key.to_owned(),
        operator: operator.into(),
        values: texts(values),
    };
    let with =
        |requirement| proto::LabelSelector { match_labels: HashMap::new(), match_expressions: vec![requirement] };
    let good = with(requirement("a", Operator::NotIn, &["x"]));
    assert_eq!(
        Selector::from_wire(good).unwrap().requirements,
        [Requirement::NotIn("a".to_owned(), vec!["x".to_owned()])]
    );
    for (bad, field) in [
        (requirement("", Operator::Exists, &[]), "match_expressions[0].key"),
        (requirement("a", Operator::In, &[]), "match_expressions[0].values"),
        (requirement("a", Operator::Exists, &["x"]), "match_expressions[0].values"),
        (requirement("a", Operator::Unspecified, &[]), "match_expressions[0].operator"),
    ] {
        assert_eq!(Selector::from_wire(with(bad)).unwrap_err().field, field);
    }
}

#[test]
fn other_events() {
    let deleted = |kind| proto::Deleted { kind, namespace: "ns".to_owned(), name: "x".to_owned() };
    assert_eq!(
        read(proto::watch_event::Event::Deleted(deleted(proto::Kind::Workload.into()))),
        Ok(Change::Deleted(Kind::Workload, ObjectName::new("ns", "x")))
    );
    assert_eq!(
        read(proto::watch_event::Event::Deleted(deleted(99))),
        Err("event ns/x: kind: unknown kind 99".to_owned())
    );
    let empty = proto::WatchEvent { revision: 3, event: None, ..Default::default() };
    assert_eq!(Event::try_from(empty).unwrap_err().to_string(), "event at 3: event: required");
    let mut workload = proto::Workload { namespace: "ns".to_owned(), name: "x".to_owned(), ..Default::default() };
    assert_eq!(
        read(proto::watch_event::Event::Workload(workload.clone())),
        Err("Workload ns/x: addresses: required".to_owned())
    );
    workload.addresses = texts(&["10.0.0.1"]);
    assert_eq!(read(proto::watch_event::Event::Workload(workload)), Err("Workload ns/x: uid: required".to_owned()));
    let route = proto::NodeRoute {
        name: "n2".to_owned(),
        addresses: vec![],
        pod_cidrs: texts(&["x"]),
        ..proto::NodeRoute::default()
    };
    assert_eq!(
        read(proto::watch_event::Event::NodeRoute(route)),
        Err("NodeRoute n2: pod_cidrs[0]: not a CIDR: \"x\"".to_owned())
    );
}
