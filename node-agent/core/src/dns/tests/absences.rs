//! What is not there: the name, or only records of the type.

use super::*;

const NODATA: &[&str] = &["NOERROR", "SOA of cluster.local"];
const NXDOMAIN: &[&str] = &["NXDOMAIN", "SOA of cluster.local"];

#[test]
fn names_without_records_of_the_type() {
    let zone = shop();
    for (question, rtype) in [
        ("cluster.local", "A"),
        ("svc.cluster.local", "A"),
        ("pod.cluster.local", "AAAA"),
        ("dns.cluster.local", "A"),
        ("shop.svc.cluster.local", "A"),
        ("empty.svc.cluster.local", "SOA"),
        ("empty.pod.cluster.local", "A"),
        ("four.shop.svc.cluster.local", "AAAA"),
        ("web.shop.svc.cluster.local", "MX"),
        ("web.shop.svc.cluster.local", "TYPE65"),
        ("web.shop.svc.cluster.local", "CNAME"),
        ("db-1.db.shop.svc.cluster.local", "AAAA"),
        ("_http._tcp.web.shop.svc.cluster.local", "A"),
        ("_tcp.web.shop.svc.cluster.local", "SRV"),
        ("_udp.db.shop.svc.cluster.local", "A"),
        ("dns-version.cluster.local", "A"),
        ("ns.dns.cluster.local", "TXT"),
    ] {
        assert_eq!(ask(&zone, question, rtype), NODATA, "{question} {rtype}");
    }
    assert_eq!(ask(&zone, "20.0.96.10.in-addr.arpa", "A"), ["NOERROR", "SOA of 20.0.96.10.in-addr.arpa"]);
    assert_eq!(
        ask(&zone, "1.9.244.10.in-addr.arpa", "PTR"),
        ["NOERROR", "SOA of 1.9.244.10.in-addr.arpa"],
        "the endpoint is there, and not published"
    );
}

#[test]
fn names_that_are_not_there() {
    let zone = shop();
    for question in [
        "none.cluster.local",
        "web.cluster.local",
        "www.example.com.cluster.local",
        "www.example.com.svc.cluster.local",
        "www.example.com.shop.svc.cluster.local",
        "none.svc.cluster.local",
        "none.shop.svc.cluster.local",
        "web.none.svc.cluster.local",
        "web.empty.svc.cluster.local",
        "_http._udp.web.shop.svc.cluster.local",
        "_https._tcp.web.shop.svc.cluster.local",
        "_http.tcp.web.shop.svc.cluster.local",
        "_sctp.web.shop.svc.cluster.local",
        "_tcp.unnamed.shop.svc.cluster.local",
        "__tcp.unnamed.shop.svc.cluster.local",
        "x._http._tcp.web.shop.svc.cluster.local",
        "db-2.db.shop.svc.cluster.local",
        "db-9.db.shop.svc.cluster.local",
        // It has a host name, which takes the place of the address.
        "10-244-1-1.db.shop.svc.cluster.local",
        "10-244-9-9.web.shop.svc.cluster.local",
        "nobody.shop.svc.cluster.local",
        "_http._tcp.nobody.shop.svc.cluster.local",
        "x.away.shop.svc.cluster.local",
        "dns-version.svc.cluster.local",
        "x.dns-version.cluster.local",
    ] {
        for rtype in ["A", "AAAA", "SRV", "ANY"] {
            assert_eq!(ask(&zone, question, rtype), NXDOMAIN, "{question} {rtype}");
        }
    }
    let raw = Name::from_octets(bytes::Bytes::from_static(b"\x02\xff\xfe\x05local\0")).unwrap();
    let below = Name::from_octets(bytes::Bytes::from_static(b"\x02\xff\xfe\x07cluster\x05local\0")).unwrap();
    assert!(matches!(zone.resolve(&domain(), &raw, Rtype::A), Resolution::Elsewhere { .. }));
    let Resolution::Reply(reply) = zone.resolve(&domain(), &below, Rtype::A) else { panic!() };
    assert_eq!(reply.rcode, Rcode::NXDOMAIN);
}

#[test]
fn names_of_others() {
    check(
        &shop(),
        &[
            ("www.example.com", "A", &["elsewhere: www.example.com"]),
            ("local", "A", &["elsewhere: local"]),
            ("xcluster.local", "A", &["elsewhere: xcluster.local"]),
            ("9.9.9.10.in-addr.arpa", "PTR", &["elsewhere: 9.9.9.10.in-addr.arpa"]),
            ("0.96.10.in-addr.arpa", "PTR", &["elsewhere: 0.96.10.in-addr.arpa"]),
            ("020.0.96.10.in-addr.arpa", "PTR", &["elsewhere: 020.0.96.10.in-addr.arpa"]),
            ("1.0.96.10.ip6.arpa", "PTR", &["elsewhere: 1.0.96.10.ip6.arpa"]),
            ("in-addr.arpa", "PTR", &["elsewhere: in-addr.arpa"]),
        ],
    );
}

#[test]
fn before_the_state_is_complete_nothing_is_denied() {
    let mut zone = Zone::default();
    for (question, expected) in [
        ("web.shop.svc.cluster.local", "not ready"),
        ("20.0.96.10.in-addr.arpa", "not ready"),
        ("www.example.com", "elsewhere: www.example.com"),
    ] {
        assert_eq!(ask(&zone, question, "A"), [expected]);
    }
    apply(&mut zone, 3, Wire::SnapshotBegin(proto::SnapshotBegin {}));
    apply(&mut zone, 3, service("web", &["10.96.0.20"]));
    assert_eq!(ask(&zone, "web.shop.svc.cluster.local", "A"), ["not ready"]);
    apply(&mut zone, 3, Wire::Synced(proto::Synced {}));
    assert_eq!(ask(&zone, "web.shop.svc.cluster.local", "A"), ["NOERROR", "A 10.96.0.20"]);
}

#[test]
fn absences_are_kept_as_short_as_answers() {
    for question in ["none.shop.svc.cluster.local", "web.shop.svc.cluster.local"] {
        let Resolution::Reply(reply) = shop().resolve(&domain(), &name(question), Rtype::A) else { panic!() };
        assert!(reply.authoritative);
        assert_eq!(reply.lifetime(), Some(TTL));
    }
}
