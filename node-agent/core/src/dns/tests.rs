//! The zone is fed with messages as they come over the wire, and asked by text.

mod absences;
mod caching;
mod folding;
mod messages;
mod records;
mod texts;

use std::str::FromStr as _;

use skep_proto::dataplane::v1 as proto;
use skep_proto::dataplane::v1::watch_event::Event as Wire;

use super::*;

const DNS: &str = "10.96.0.10";

fn domain() -> Domain {
    Domain::new("cluster.local", vec![DNS.parse().unwrap(), "fd00:96::a".parse().unwrap()]).unwrap()
}

fn name(text: &str) -> Name {
    Name::bytes_from_str(text).unwrap()
}

fn apply(zone: &mut Zone, revision: u64, event: Wire) {
    let event = proto::WatchEvent { revision, event: Some(event), ..Default::default() };
    let change = Change::read(&event).unwrap_or_else(|refused| Some(refused.change()));
    if let Some(change) = change {
        zone.apply(revision, change);
    }
}

/// A zone that is complete with these objects.
fn synced(events: impl IntoIterator<Item = Wire>) -> Zone {
    let mut zone = Zone::default();
    apply(&mut zone, 7, Wire::SnapshotBegin(proto::SnapshotBegin {}));
    for event in events {
        apply(&mut zone, 7, event);
    }
    apply(&mut zone, 7, Wire::Synced(proto::Synced {}));
    zone
}

fn namespace(name: &str) -> Wire {
    Wire::Namespace(proto::Namespace { name: name.to_owned(), ..Default::default() })
}

fn deleted(kind: proto::Kind, namespace: &str, name: &str) -> Wire {
    Wire::Deleted(proto::Deleted { kind: kind.into(), namespace: namespace.to_owned(), name: name.to_owned() })
}

fn ports(ports: &[(&str, proto::Protocol, u32)]) -> Vec<proto::ServicePort> {
    let port = |&(name, protocol, port): &(&str, proto::Protocol, u32)| proto::ServicePort {
        name: name.to_owned(),
        protocol: protocol.into(),
        port,
        node_port: 0,
    };
    ports.iter().map(port).collect()
}

fn a_service(name: &str, ips: &[&str]) -> proto::Service {
    proto::Service {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        uid: format!("{name}-uid"),
        r#type: proto::ServiceType::ClusterIp.into(),
        cluster_ips: ips.iter().map(|&ip| ip.to_owned()).collect(),
        headless: ips.is_empty(),
        ports: ports(&[("http", proto::Protocol::Tcp, 80), ("dns", proto::Protocol::Udp, 53)]),
        ..Default::default()
    }
}

fn service(name: &str, ips: &[&str]) -> Wire {
    Wire::Service(a_service(name, ips))
}

fn external(name: &str, target: &str) -> Wire {
    Wire::Service(proto::Service {
        r#type: proto::ServiceType::ExternalName.into(),
        external_name: target.to_owned(),
        ports: Vec::new(),
        headless: false,
        ..a_service(name, &[])
    })
}

/// Endpoints as `ADDRESS`, `ADDRESS=HOSTNAME`, with `!` before those that are not ready.
fn slice(name: &str, service: &str, endpoints: &[&str]) -> Wire {
    let endpoint = |text: &&str| {
        let (ready, text) = text.strip_prefix('!').map_or((true, *text), |rest| (false, rest));
        let (address, hostname) = text.split_once('=').unwrap_or((text, ""));
        proto::Endpoint {
            addresses: vec![address.to_owned()],
            ready,
            serving: ready,
            hostname: hostname.to_owned(),
            ..Default::default()
        }
    };
    let port = |name: &str, protocol: proto::Protocol, port| proto::EndpointPort {
        name: name.to_owned(),
        protocol: protocol.into(),
        port,
    };
    Wire::EndpointSlice(proto::EndpointSlice {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        service: service.to_owned(),
        endpoints: endpoints.iter().map(endpoint).collect(),
        ports: vec![port("http", proto::Protocol::Tcp, 8080), port("dns", proto::Protocol::Udp, 5353)],
    })
}

/// One of everything.
fn shop() -> Zone {
    synced([
        namespace("shop"),
        namespace("empty"),
        service("web", &["10.96.0.20", "fd00:96::20"]),
        service("four", &["10.96.0.4"]),
        slice("web-a", "web", &["10.244.1.5", "fd00:244:1::5"]),
        service("db", &[]),
        slice("db-4", "db", &["10.244.1.1=db-0", "10.244.2.1=db-1", "!10.244.3.1=db-2", "10.244.4.1"]),
        slice("db-6", "db", &["fd00:244:1::1=db-0"]),
        service("nobody", &[]),
        slice("nobody-4", "nobody", &["!10.244.9.1"]),
        external("away", "www.example.com"),
        external("inside", "db.shop.svc.cluster.local"),
        external("nowhere", "none.shop.svc.cluster.local"),
        external("ring", "gnir.shop.svc.cluster.local"),
        external("gnir", "ring.shop.svc.cluster.local."),
        Wire::Service(proto::Service { publish_not_ready_addresses: true, ..a_service("eager", &[]) }),
        slice("eager-4", "eager", &["!10.244.8.1=early"]),
        Wire::Service(proto::Service {
            ports: ports(&[("", proto::Protocol::Tcp, 6379)]),
            ..a_service("unnamed", &["10.96.0.30"])
        }),
    ])
}

/// What a record says, with names without the dot at their ends.
fn data(record: &Record) -> String {
    let text = record.data().to_string().replace(". ", " ");
    text.strip_suffix('.').map(str::to_owned).unwrap_or(text)
}

/// The answer as text: the code, then the records of the answer without the owner when it is the question.
fn ask(zone: &Zone, question: &str, rtype: &str) -> Vec<String> {
    let asked = name(question);
    let rtype = Rtype::from_str(rtype).unwrap();
    let show = |record: &Record| {
        let owner = if record.owner() == &asked { String::new() } else { format!("{} ", record.owner()) };
        format!("{owner}{} {}", record.rtype(), data(record))
    };
    match zone.resolve(&domain(), &asked, rtype) {
        Resolution::NotReady => vec!["not ready".to_owned()],
        Resolution::Elsewhere { records, name } => {
            records.iter().map(show).chain([format!("elsewhere: {name}")]).collect()
        }
        Resolution::Reply(reply) => {
            let soa = reply.authority.iter().map(|record| format!("{} of {}", record.rtype(), record.owner()));
            [reply.rcode.to_string()].into_iter().chain(reply.answers.iter().map(show)).chain(soa).collect()
        }
    }
}

/// Checks `(question, type, answer)`.
fn check(zone: &Zone, table: &[(&str, &str, &[&str])]) {
    for (question, rtype, expected) in table {
        assert_eq!(ask(zone, question, rtype), *expected, "{question} {rtype}");
    }
}
