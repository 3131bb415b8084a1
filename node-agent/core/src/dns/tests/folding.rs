//! Objects come, change and go, in snapshots and one by one.

use proptest::prelude::*;

use super::*;

const WEB: &str = "web.shop.svc.cluster.local";

#[test]
fn changes_are_seen_and_leave_nothing_behind() {
    let mut zone = shop();
    apply(&mut zone, 8, service("web", &["10.96.0.21"]));
    apply(&mut zone, 9, slice("web-a", "web", &["10.244.1.6"]));
    check(
        &zone,
        &[
            (WEB, "A", &["NOERROR", "A 10.96.0.21"]),
            (WEB, "AAAA", &["NOERROR", "SOA of cluster.local"]),
            ("20.0.96.10.in-addr.arpa", "PTR", &["elsewhere: 20.0.96.10.in-addr.arpa"]),
            ("5.1.244.10.in-addr.arpa", "PTR", &["elsewhere: 5.1.244.10.in-addr.arpa"]),
            ("6.1.244.10.in-addr.arpa", "PTR", &["NOERROR", "PTR 10-244-1-6.web.shop.svc.cluster.local"]),
        ],
    );
    assert_eq!(zone.revision(), 9);
    apply(&mut zone, 10, deleted(proto::Kind::Service, "shop", "web"));
    check(
        &zone,
        &[
            (WEB, "A", &["NXDOMAIN", "SOA of cluster.local"]),
            ("21.0.96.10.in-addr.arpa", "PTR", &["elsewhere: 21.0.96.10.in-addr.arpa"]),
            // An endpoint is named after its Service.
            ("6.1.244.10.in-addr.arpa", "PTR", &["elsewhere: 6.1.244.10.in-addr.arpa"]),
        ],
    );
    apply(&mut zone, 11, service("web", &["10.96.0.20"]));
    assert_eq!(ask(&zone, "6.1.244.10.in-addr.arpa", "PTR").len(), 2, "the slice was there all the time");
    apply(&mut zone, 12, deleted(proto::Kind::EndpointSlice, "shop", "web-a"));
    assert_eq!(ask(&zone, "6.1.244.10.in-addr.arpa", "PTR"), ["elsewhere: 6.1.244.10.in-addr.arpa"]);
    apply(&mut zone, 13, deleted(proto::Kind::Namespace, "", "empty"));
    assert_eq!(ask(&zone, "empty.svc.cluster.local", "A"), ["NXDOMAIN", "SOA of cluster.local"]);
}

#[test]
fn a_slice_can_move_to_another_service() {
    let mut zone = synced([service("a", &[]), service("b", &[]), slice("s", "a", &["10.244.1.1"])]);
    apply(&mut zone, 8, slice("s", "b", &["10.244.1.1"]));
    check(
        &zone,
        &[
            ("a.shop.svc.cluster.local", "A", &["NXDOMAIN", "SOA of cluster.local"]),
            ("b.shop.svc.cluster.local", "A", &["NOERROR", "A 10.244.1.1"]),
        ],
    );
}

#[test]
fn a_snapshot_prunes_only_when_it_is_complete() {
    let mut zone = shop();
    apply(&mut zone, 20, Wire::SnapshotBegin(proto::SnapshotBegin {}));
    apply(&mut zone, 20, service("db", &[]));
    apply(&mut zone, 20, slice("db-4", "db", &["10.244.1.1=db-0"]));
    // Not readable, and there all the same.
    apply(&mut zone, 20, service("four", &["10.96.0.x"]));
    apply(&mut zone, 20, namespace("shop"));
    assert_eq!(ask(&zone, WEB, "A"), ["NOERROR", "A 10.96.0.20"]);
    // Cut short: the next stream begins anew.
    zone.begin_stream();
    apply(&mut zone, 20, Wire::Synced(proto::Synced {}));
    assert_eq!(ask(&zone, WEB, "A"), ["NOERROR", "A 10.96.0.20"]);

    apply(&mut zone, 21, Wire::SnapshotBegin(proto::SnapshotBegin {}));
    apply(&mut zone, 21, service("db", &[]));
    apply(&mut zone, 21, slice("db-4", "db", &["10.244.1.1=db-0"]));
    apply(&mut zone, 21, service("four", &["10.96.0.x"]));
    apply(&mut zone, 21, namespace("shop"));
    apply(&mut zone, 21, Wire::Synced(proto::Synced {}));
    check(
        &zone,
        &[
            (WEB, "A", &["NXDOMAIN", "SOA of cluster.local"]),
            ("db.shop.svc.cluster.local", "A", &["NOERROR", "A 10.244.1.1"]),
            ("db.shop.svc.cluster.local", "AAAA", &["NOERROR", "SOA of cluster.local"]),
            ("four.shop.svc.cluster.local", "A", &["NOERROR", "A 10.96.0.4"]),
            ("empty.svc.cluster.local", "A", &["NXDOMAIN", "SOA of cluster.local"]),
        ],
    );
    assert_eq!(zone.services(), 2);
}

#[test]
fn what_cannot_be_read_names_the_field() {
    let refused = |event: Wire| {
        let event = proto::WatchEvent { revision: 1, event: Some(event), ..Default::default() };
        Change::read(&event).unwrap_err().to_string()
    };
    assert_eq!(
        refused(service("web", &["10.96.0.x"])),
        "Service shop/web: spec.clusterIPs \"10.96.0.x\" must be an IP address"
    );
    assert_eq!(refused(external("away", "a..b")), "Service shop/away: spec.externalName \"a..b\" must be a DNS name");
    assert_eq!(
        refused(slice("s", "web", &["10.0.0.1=Big_Name"])),
        "Slice shop/s: endpoints.hostname \"Big_Name\" must be a DNS label in lower case"
    );
    let mut wrong = a_service("web", &["10.96.0.1"]);
    wrong.ports = ports(&[("http", proto::Protocol::Tcp, 70_000)]);
    assert_eq!(refused(Wire::Service(wrong)), "Service shop/web: ports.port \"70000\" must be in 1-65535");
}

#[derive(Clone, Debug)]
enum Step {
    Service(u8, u8),
    Slice(u8, u8, Vec<u8>),
    DeleteService(u8),
    DeleteSlice(u8),
}

fn a_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..4_u8, 0..4_u8).prop_map(|(service, ip)| Step::Service(service, ip)),
        (0..4_u8, 0..4_u8, prop::collection::vec(0..6_u8, 0..4)).prop_map(|(at, of, to)| Step::Slice(at, of, to)),
        (0..4_u8).prop_map(Step::DeleteService),
        (0..4_u8).prop_map(Step::DeleteSlice),
    ]
}

fn wire(step: &Step) -> Wire {
    let text = |n: &u8| format!("10.244.0.{n}");
    match step {
        Step::Service(at, 0) => service(&format!("s{at}"), &[]),
        // Each has addresses of its own, as the API has it.
        Step::Service(at, ip) => service(&format!("s{at}"), &[&format!("10.96.{at}.{ip}")]),
        Step::Slice(at, of, to) => {
            let texts: Vec<String> = to.iter().map(text).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            slice(&format!("e{at}"), &format!("s{of}"), &texts)
        }
        Step::DeleteService(at) => deleted(proto::Kind::Service, "shop", &format!("s{at}")),
        Step::DeleteSlice(at) => deleted(proto::Kind::EndpointSlice, "shop", &format!("e{at}")),
    }
}

fn everything(zone: &Zone) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for n in 0..4 {
        for rtype in ["A", "SRV"] {
            all.push(ask(zone, &format!("s{n}.shop.svc.cluster.local"), rtype));
        }
        all.extend((0..4).map(|ip| ask(zone, &format!("{ip}.{n}.96.10.in-addr.arpa"), "PTR")));
    }
    for n in 0..6 {
        let mut pointers = ask(zone, &format!("{n}.0.244.10.in-addr.arpa"), "PTR");
        pointers.sort();
        all.push(pointers);
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the way, the zone answers as one that was given only what is left.
    #[test]
    fn the_way_does_not_matter(steps in prop::collection::vec(a_step(), 0..40)) {
        let mut zone = synced([]);
        let mut left: Vec<(String, Wire)> = Vec::new();
        for step in &steps {
            apply(&mut zone, 8, wire(step));
            let (key, gone) = match step {
                Step::Service(at, _) => (format!("s{at}"), false),
                Step::Slice(at, ..) => (format!("e{at}"), false),
                Step::DeleteService(at) => (format!("s{at}"), true),
                Step::DeleteSlice(at) => (format!("e{at}"), true),
            };
            left.retain(|(other, _)| *other != key);
            if !gone {
                left.push((key, wire(step)));
            }
        }
        let fresh = synced(left.into_iter().map(|(_, event)| event));
        prop_assert_eq!(everything(&zone), everything(&fresh));
    }
}
