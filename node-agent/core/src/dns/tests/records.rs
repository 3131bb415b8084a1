//! Every kind of record.

use super::*;

#[test]
fn services_with_a_cluster_ip() {
    check(
        &shop(),
        &[
            ("web.shop.svc.cluster.local", "A", &["NOERROR", "A 10.96.0.20"]),
            ("web.shop.svc.cluster.local", "AAAA", &["NOERROR", "AAAA fd00:96::20"]),
            ("WEB.Shop.SVC.cluster.LOCAL.", "A", &["NOERROR", "A 10.96.0.20"]),
            ("_http._tcp.web.shop.svc.cluster.local", "SRV", &["NOERROR", "SRV 0 100 80 web.shop.svc.cluster.local"]),
            ("_dns._udp.web.shop.svc.cluster.local", "SRV", &["NOERROR", "SRV 0 100 53 web.shop.svc.cluster.local"]),
            ("unnamed.shop.svc.cluster.local", "SRV", &["NOERROR", "SRV 0 100 6379 unnamed.shop.svc.cluster.local"]),
            ("20.0.96.10.in-addr.arpa", "PTR", &["NOERROR", "PTR web.shop.svc.cluster.local"]),
            (
                "0.2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.0.D.F.ip6.arpa",
                "PTR",
                &["NOERROR", "PTR web.shop.svc.cluster.local"],
            ),
            ("10-244-1-5.web.shop.svc.cluster.local", "A", &["NOERROR", "A 10.244.1.5"]),
            ("fd00-244-1--5.web.shop.svc.cluster.local", "AAAA", &["NOERROR", "AAAA fd00:244:1::5"]),
            ("5.1.244.10.in-addr.arpa", "PTR", &["NOERROR", "PTR 10-244-1-5.web.shop.svc.cluster.local"]),
        ],
    );
}

#[test]
fn headless_services() {
    check(
        &shop(),
        &[
            ("db.shop.svc.cluster.local", "A", &["NOERROR", "A 10.244.1.1", "A 10.244.2.1", "A 10.244.4.1"]),
            ("db.shop.svc.cluster.local", "AAAA", &["NOERROR", "AAAA fd00:244:1::1"]),
            ("db-0.db.shop.svc.cluster.local", "A", &["NOERROR", "A 10.244.1.1"]),
            ("db-0.db.shop.svc.cluster.local", "AAAA", &["NOERROR", "AAAA fd00:244:1::1"]),
            ("10-244-4-1.db.shop.svc.cluster.local", "A", &["NOERROR", "A 10.244.4.1"]),
            (
                "_http._tcp.db.shop.svc.cluster.local",
                "SRV",
                &[
                    "NOERROR",
                    "SRV 0 100 8080 db-0.db.shop.svc.cluster.local",
                    "SRV 0 100 8080 db-1.db.shop.svc.cluster.local",
                    "SRV 0 100 8080 10-244-4-1.db.shop.svc.cluster.local",
                ],
            ),
            ("1.2.244.10.in-addr.arpa", "PTR", &["NOERROR", "PTR db-1.db.shop.svc.cluster.local"]),
            ("eager.shop.svc.cluster.local", "A", &["NOERROR", "A 10.244.8.1"]),
            ("early.eager.shop.svc.cluster.local", "A", &["NOERROR", "A 10.244.8.1"]),
            ("1.8.244.10.in-addr.arpa", "PTR", &["NOERROR", "PTR early.eager.shop.svc.cluster.local"]),
        ],
    );
}

#[test]
fn targets_come_with_their_addresses() {
    let zone = shop();
    let additional = |question: &str| {
        let Resolution::Reply(reply) = zone.resolve(&domain(), &name(question), Rtype::SRV) else { panic!() };
        let shown = reply.additional.iter().map(|record| format!("{} {}", record.owner(), record.data()));
        shown.collect::<Vec<_>>()
    };
    assert_eq!(
        additional("_http._tcp.web.shop.svc.cluster.local"),
        ["web.shop.svc.cluster.local 10.96.0.20", "web.shop.svc.cluster.local fd00:96::20"]
    );
    assert_eq!(
        additional("_dns._udp.db.shop.svc.cluster.local"),
        [
            "db-0.db.shop.svc.cluster.local 10.244.1.1",
            "db-1.db.shop.svc.cluster.local 10.244.2.1",
            "10-244-4-1.db.shop.svc.cluster.local 10.244.4.1",
            "db-0.db.shop.svc.cluster.local fd00:244:1::1",
        ]
    );
}

#[test]
fn an_endpoint_of_two_services_has_two_names() {
    let zone = synced([
        service("one", &[]),
        service("two", &["10.96.0.2"]),
        slice("one-a", "one", &["10.244.1.1=same"]),
        // The same endpoint twice, as while it moves from one slice to another.
        slice("one-b", "one", &["10.244.1.1=same"]),
        slice("two-a", "two", &["10.244.1.1"]),
    ]);
    check(
        &zone,
        &[
            (
                "1.1.244.10.in-addr.arpa",
                "PTR",
                &["NOERROR", "PTR same.one.shop.svc.cluster.local", "PTR 10-244-1-1.two.shop.svc.cluster.local"],
            ),
            ("one.shop.svc.cluster.local", "A", &["NOERROR", "A 10.244.1.1"]),
            (
                "one.shop.svc.cluster.local",
                "SRV",
                &[
                    "NOERROR",
                    "SRV 0 100 8080 same.one.shop.svc.cluster.local",
                    "SRV 0 100 5353 same.one.shop.svc.cluster.local",
                ],
            ),
        ],
    );
}

#[test]
fn external_names() {
    check(
        &shop(),
        &[
            ("away.shop.svc.cluster.local", "A", &["CNAME www.example.com", "elsewhere: www.example.com"]),
            ("away.shop.svc.cluster.local", "CNAME", &["NOERROR", "CNAME www.example.com"]),
            (
                "inside.shop.svc.cluster.local",
                "A",
                &[
                    "NOERROR",
                    "CNAME db.shop.svc.cluster.local",
                    "db.shop.svc.cluster.local A 10.244.1.1",
                    "db.shop.svc.cluster.local A 10.244.2.1",
                    "db.shop.svc.cluster.local A 10.244.4.1",
                ],
            ),
            (
                "nowhere.shop.svc.cluster.local",
                "A",
                &["NXDOMAIN", "CNAME none.shop.svc.cluster.local", "SOA of cluster.local"],
            ),
            (
                "inside.shop.svc.cluster.local",
                "TXT",
                &["NOERROR", "CNAME db.shop.svc.cluster.local", "SOA of cluster.local"],
            ),
            ("ring.shop.svc.cluster.local", "A", &["SERVFAIL"]),
        ],
    );
}

#[test]
fn the_zone_itself() {
    check(
        &shop(),
        &[
            ("dns-version.cluster.local", "TXT", &["NOERROR", "TXT \"1.1.0\""]),
            ("cluster.local", "NS", &["NOERROR", "NS ns.dns.cluster.local"]),
            ("ns.dns.cluster.local", "A", &["NOERROR", "A 10.96.0.10"]),
            ("ns.dns.cluster.local", "AAAA", &["NOERROR", "AAAA fd00:96::a"]),
            (
                "cluster.local",
                "SOA",
                &["NOERROR", "SOA ns.dns.cluster.local hostmaster.cluster.local 7 7200 1800 86400 5"],
            ),
        ],
    );
}

#[test]
fn pods_by_address() {
    check(
        &shop(),
        &[
            ("10-244-1-9.shop.pod.cluster.local", "A", &["NOERROR", "A 10.244.1.9"]),
            ("fd00-244--9.shop.pod.cluster.local", "AAAA", &["NOERROR", "AAAA fd00:244::9"]),
            ("10-244-1-9.shop.pod.cluster.local", "AAAA", &["NOERROR", "SOA of cluster.local"]),
            ("10-244-1-9.nowhere.pod.cluster.local", "A", &["NXDOMAIN", "SOA of cluster.local"]),
            ("10-244-1-999.shop.pod.cluster.local", "A", &["NXDOMAIN", "SOA of cluster.local"]),
            ("web.shop.pod.cluster.local", "A", &["NXDOMAIN", "SOA of cluster.local"]),
            ("x.10-244-1-9.shop.pod.cluster.local", "A", &["NXDOMAIN", "SOA of cluster.local"]),
        ],
    );
}

#[test]
fn any_is_answered_with_one_type() {
    check(
        &shop(),
        &[
            ("web.shop.svc.cluster.local", "ANY", &["NOERROR", "A 10.96.0.20"]),
            ("away.shop.svc.cluster.local", "ANY", &["NOERROR", "CNAME www.example.com"]),
            ("20.0.96.10.in-addr.arpa", "ANY", &["NOERROR", "PTR web.shop.svc.cluster.local"]),
            ("svc.cluster.local", "ANY", &["NOERROR", "SOA of cluster.local"]),
            ("no.cluster.local", "ANY", &["NXDOMAIN", "SOA of cluster.local"]),
        ],
    );
}

#[test]
fn origins_name_the_objects() {
    let zone = shop();
    let origin = |text: &str| {
        zone.origin(&domain(), &name(text)).map(|origin| format!("{}: {}", origin.meaning, origin.objects.join(" ")))
    };
    for (text, expected) in [
        ("web.shop.svc.cluster.local", "Service with cluster IP: Service shop/web"),
        (
            "db.shop.svc.cluster.local",
            "headless Service: Service shop/db EndpointSlice shop/db-4 EndpointSlice shop/db-6",
        ),
        ("db-1.db.shop.svc.cluster.local", "endpoint of a Service: Service shop/db EndpointSlice shop/db-4"),
        ("away.shop.svc.cluster.local", "Service of type ExternalName: Service shop/away"),
        ("20.0.96.10.in-addr.arpa", "cluster IP: Service shop/web"),
        ("1.2.244.10.in-addr.arpa", "address of an endpoint: Service shop/db EndpointSlice shop/db-4"),
        ("none.shop.svc.cluster.local", "no such name in the cluster: "),
    ] {
        assert_eq!(origin(text).as_deref(), Some(expected), "{text}");
    }
    assert_eq!(origin("www.example.com"), None);
}
