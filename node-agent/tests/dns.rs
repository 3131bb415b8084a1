//! Cluster DNS on real sockets: a network namespace for each test, with an interface made by the agent's own code, clients,
//! and name servers that answer as the test says.
//!
//! Needs root; skipped, with the reason printed, where it is missing.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "a test that cannot go on fails, and nothing of it is public"
)]

#[path = "dns/client.rs"]
mod client;
#[path = "dns/outside.rs"]
mod outside;
#[path = "dns/world.rs"]
mod world;

use client::{Answer, ask, ask_over_tcp, pipelined, raw};
use domain::base::iana::{Rcode, Rtype};
use outside::Outside;
use skep_agent::dns::{ClusterDns, INTERFACE, Lookup, Outcome, Settings};
use world::{CLUSTER_DNS, eventually, service, slice, synced};

const WEB: &str = "web.shop.svc.cluster.local";

#[test]
fn cluster_names_are_answered_over_udp_and_tcp_in_both_families() {
    world::run(async |world| {
        world.feed(synced([service("web", &["10.96.0.20", "fd00:96::20"])]));
        for server in CLUSTER_DNS {
            for (rtype, data) in [(Rtype::A, "10.96.0.20"), (Rtype::AAAA, "fd00:96::20")] {
                let answer = ask(server, WEB, rtype, None).await.unwrap();
                assert_eq!((answer.rcode, answer.data()), (Rcode::NOERROR, vec![data.to_owned()]));
                assert!(answer.authoritative && !answer.truncated);
                assert_eq!(ask_over_tcp(server, WEB, rtype).await.unwrap(), answer);
            }
            let answer = ask(server, "www.example.com.shop.svc.cluster.local", Rtype::A, Some(1232)).await.unwrap();
            assert_eq!((answer.rcode, answer.answers.len()), (Rcode::NXDOMAIN, 0));
            assert_eq!(answer.edns, Some(1232));
        }
        let all =
            pipelined(CLUSTER_DNS[0], &[(WEB, Rtype::A), ("none.cluster.local", Rtype::A), (WEB, Rtype::AAAA)]).await;
        let codes: Vec<Rcode> = all.iter().map(|answer| answer.rcode).collect();
        assert_eq!(codes, [Rcode::NOERROR, Rcode::NXDOMAIN, Rcode::NOERROR]);
        let status = world.dns.status();
        assert_eq!(status.counts.queries.get("A"), Some(&8));
        assert_eq!(status.counts.answers.get("NXDOMAIN"), Some(&3));
        assert_eq!((status.counts.tcp_queries, status.services, status.revision), (7, 1, 7));
    });
}

#[test]
fn a_long_answer_is_cut_over_udp_and_whole_over_tcp() {
    world::run(async |world| {
        let addresses: Vec<String> = (1..=200).map(|n| format!("10.244.1.{n}")).collect();
        let endpoints: Vec<&str> = addresses.iter().map(String::as_str).collect();
        world.feed(synced([service("many", &[]), slice("many", "many-a", &endpoints)]));
        let many = "many.shop.svc.cluster.local";
        for (edns, most) in [(None, 512), (Some(1232), 1232), (Some(4096), 1232), (Some(100), 512)] {
            let answer = ask(CLUSTER_DNS[0], many, Rtype::A, edns).await.unwrap();
            assert!(answer.truncated && answer.length <= most, "{} bytes of {most}", answer.length);
            assert!(answer.length > most - 28, "{} bytes of {most}", answer.length);
        }
        let whole = ask_over_tcp(CLUSTER_DNS[0], many, Rtype::A).await.unwrap();
        assert!(!whole.truncated);
        let mut data = whole.data();
        data.sort();
        let mut expected = addresses.clone();
        expected.sort();
        assert_eq!(data, expected);
        // Clients that take the first address do not all take the same.
        let mut first = std::collections::HashSet::new();
        for _ in 0..50 {
            first.insert(ask(CLUSTER_DNS[0], many, Rtype::A, None).await.unwrap().data().remove(0));
        }
        assert!(first.len() > 10, "{first:?}");
        assert!(world.dns.status().counts.truncated >= 54);
    });
}

#[test]
fn until_the_names_are_complete_only_others_are_known() {
    world::run(async |world| {
        let outside = Outside::start("127.0.0.53").await;
        world.use_servers(&["127.0.0.53"]).await;
        let code = async |name: &str| ask(CLUSTER_DNS[0], name, Rtype::A, None).await.unwrap().rcode;
        assert_eq!(code(WEB).await, Rcode::SERVFAIL);
        assert_eq!(code("www.example.com").await, Rcode::NOERROR);
        world.feed(synced([service("web", &["10.96.0.20"])]));
        assert_eq!(code(WEB).await, Rcode::NOERROR);
        drop(outside);
    });
}

#[test]
fn names_outside_are_asked_for_once_and_kept() {
    world::run(async |world| {
        let outside = Outside::start("127.0.0.53").await;
        world.use_servers(&["127.0.0.53"]).await;
        world.feed(synced([]));
        for _ in 0..3 {
            let answer = ask(CLUSTER_DNS[0], "WWW.example.com", Rtype::A, None).await.unwrap();
            assert_eq!((answer.rcode, answer.data()), (Rcode::NOERROR, vec!["192.0.2.1".to_owned()]));
            assert!(!answer.authoritative && answer.ttl() <= 60);
        }
        assert_eq!(outside.times("www.example.com"), 1);
        // Another type and another name are other questions; absences are kept, too.
        for _ in 0..3 {
            let answer = ask(CLUSTER_DNS[0], "none.example", Rtype::A, None).await.unwrap();
            assert_eq!((answer.rcode, answer.authority), (Rcode::NXDOMAIN, 1));
            let answer = ask(CLUSTER_DNS[0], "www.example.com", Rtype::MX, None).await.unwrap();
            assert_eq!((answer.rcode, answer.answers.len()), (Rcode::NOERROR, 0));
        }
        assert_eq!((outside.times("none.example"), outside.times("www.example.com")), (1, 2));
        let counts = world.dns.status().counts;
        assert_eq!((counts.cache_hits, counts.cache_misses), (6, 3));
        assert_eq!(world.dns.status().cached, 3);
        // Nothing with a suffix of the cluster ever leaves the node.
        for name in ["www.example.com.cluster.local", "www.example.com.svc.cluster.local"] {
            assert_eq!(ask(CLUSTER_DNS[0], name, Rtype::A, None).await.unwrap().rcode, Rcode::NXDOMAIN);
            assert_eq!(outside.times(name), 0);
        }
    });
}

#[test]
fn identical_questions_share_one() {
    world::run(async |world| {
        let outside = Outside::start("127.0.0.53").await;
        world.use_servers(&["127.0.0.53"]).await;
        let clients: Vec<_> =
            (0..20).map(|_| tokio::spawn(ask(CLUSTER_DNS[0], "held.example", Rtype::A, None))).collect();
        eventually("all wait", async || (world.dns.status().counts.cache_misses >= 20).then_some(())).await;
        outside.release();
        for client in clients {
            assert_eq!(client.await.unwrap().unwrap().data(), ["192.0.2.1"]);
        }
        assert_eq!(outside.times("held.example"), 1);
        assert_eq!(world.dns.status().counts.shared_queries, 19);
    });
}

#[test]
fn what_is_too_long_for_udp_is_fetched_over_tcp() {
    world::run(async |world| {
        let outside = Outside::start("127.0.0.53").await;
        world.use_servers(&["127.0.0.53"]).await;
        let whole = ask_over_tcp(CLUSTER_DNS[0], "long.example", Rtype::A).await.unwrap();
        assert_eq!((whole.answers.len(), outside.times_over_tcp("long.example")), (100, 1));
        let cut = ask(CLUSTER_DNS[0], "long.example", Rtype::A, None).await.unwrap();
        assert!(cut.truncated);
        assert_eq!(outside.times("long.example"), 2);
    });
}

#[test]
fn servers_that_fail_are_passed_over() {
    world::run(async |world| {
        let (first, second) = (Outside::start("127.0.0.53").await, Outside::start("127.0.0.54").await);
        // Nobody is at the third.
        world.use_servers(&["127.0.0.55", "127.0.0.53", "127.0.0.54"]).await;
        let answer = ask(CLUSTER_DNS[0], "www.example.com", Rtype::A, None).await.unwrap();
        assert_eq!(answer.data(), ["192.0.2.1"]);
        assert_eq!((first.times("www.example.com"), second.times("www.example.com")), (1, 0));
        first.make_silent();
        for name in ["a.example", "b.example"] {
            assert_eq!(ask(CLUSTER_DNS[0], name, Rtype::A, None).await.unwrap().data(), ["192.0.2.1"]);
        }
        assert_eq!((first.times("a.example"), second.times("a.example")), (1, 1));
        assert_eq!(
            (first.times("b.example"), second.times("b.example")),
            (0, 1),
            "the one that answers is asked first"
        );
        second.make_silent();
        let answer = ask(CLUSTER_DNS[0], "c.example", Rtype::A, None).await.unwrap();
        assert_eq!(answer.rcode, Rcode::SERVFAIL);
        let counts = world.dns.status().counts;
        assert_eq!(counts.upstream_failures, 1);
        assert!(counts.upstream_timeouts >= 2 && counts.upstream_errors >= 1, "{counts:?}");
    });
}

#[test]
fn odd_servers_are_coped_with() {
    world::run(async |world| {
        let (first, second) = (Outside::start("127.0.0.53").await, Outside::start("127.0.0.54").await);
        world.use_servers(&["127.0.0.53", "127.0.0.54"]).await;
        let data = async |name: &str| ask(CLUSTER_DNS[0], name, Rtype::A, None).await.unwrap();
        assert_eq!(data("forged.example").await.data(), ["192.0.2.1"], "neither another ID nor another name is taken");
        assert_eq!(data("no-edns.example").await.data(), ["192.0.2.1"]);
        assert_eq!(first.times("no-edns.example"), 2);
        first.refuse("picky.example");
        assert_eq!(data("picky.example").await.data(), ["192.0.2.1"]);
        assert_eq!(second.times("picky.example"), 1);
        first.refuse("nobody.example");
        second.refuse("nobody.example");
        assert_eq!(data("nobody.example").await.rcode, Rcode::REFUSED);
        assert_eq!(data("garbage.example").await.rcode, Rcode::SERVFAIL);
    });
}

#[test]
fn external_names_lead_outside() {
    world::run(async |world| {
        let outside = Outside::start("127.0.0.53").await;
        world.use_servers(&["127.0.0.53"]).await;
        world.feed(synced([world::external("away", "www.example.com"), world::external("gone", "none.example")]));
        for _ in 0..2 {
            let answer = ask(CLUSTER_DNS[0], "away.shop.svc.cluster.local", Rtype::A, None).await.unwrap();
            assert_eq!(answer.data(), ["www.example.com.", "192.0.2.1"]);
        }
        assert_eq!(outside.times("www.example.com"), 1);
        let answer = ask(CLUSTER_DNS[0], "gone.shop.svc.cluster.local", Rtype::A, None).await.unwrap();
        assert_eq!((answer.rcode, answer.data()), (Rcode::NXDOMAIN, vec!["none.example.".to_owned()]));
        let lookup = Lookup { name: "away".to_owned(), rtype: Some("a".to_owned()), namespace: "shop".to_owned() };
        let explained = world.dns.explain(&lookup).await.unwrap();
        assert!(explained.found && explained.steps.len() == 1);
        let step = &explained.steps[0];
        assert_eq!(step.origin.as_ref().unwrap().objects, ["Service shop/away"]);
        assert!(step.cached && step.upstream == ["127.0.0.53:53".parse().unwrap()]);
        assert_eq!(step.records.iter().map(|record| record.rtype.as_str()).collect::<Vec<_>>(), ["CNAME", "A"]);
    });
}

#[test]
fn a_lookup_is_explained_step_by_step() {
    world::run(async |world| {
        let outside = Outside::start("127.0.0.53").await;
        world.use_servers(&["127.0.0.53"]).await;
        world.feed(synced([service("web", &["10.96.0.20"])]));
        let explain = async |name: &str, rtype: Option<&str>, namespace: &str| {
            let (name, namespace) = (name.to_owned(), namespace.to_owned());
            world.dns.explain(&Lookup { name, rtype: rtype.map(str::to_owned), namespace }).await
        };
        let found = explain("web.shop", None, "other").await.unwrap();
        let steps: Vec<(&str, &str, Outcome)> =
            found.steps.iter().map(|step| (step.name.as_str(), step.rtype.as_str(), step.outcome)).collect();
        assert_eq!(
            steps,
            [
                ("web.shop.other.svc.cluster.local", "A", Outcome::NoName),
                ("web.shop.other.svc.cluster.local", "AAAA", Outcome::NoName),
                ("web.shop.svc.cluster.local", "A", Outcome::Found),
                ("web.shop.svc.cluster.local", "AAAA", Outcome::NoData),
            ]
        );
        let outer = explain("www.example.com", Some("A"), "shop").await.unwrap();
        assert_eq!(outer.steps.len(), 4);
        assert!(outer.found && outer.steps[3].origin.is_none());
        assert_eq!(outside.times("www.example.com"), 1);
        let missing = explain("none.example", Some("A"), "shop").await.unwrap();
        assert!(!missing.found && missing.steps.len() == 4);
        let reverse = explain("10.96.0.20", None, "shop").await.unwrap();
        assert_eq!(reverse.steps[0].records[0].data, "web.shop.svc.cluster.local.");
        for (name, rtype) in [("a..b", None), ("a", Some("nonsense"))] {
            assert!(explain(name, rtype, "shop").await.is_err());
        }
    });
}

#[test]
fn what_is_no_question_harms_nobody() {
    world::run(async |world| {
        world.feed(synced([service("web", &["10.96.0.20"])]));
        let server = CLUSTER_DNS[0];
        assert_eq!(raw(server, b"\x12\x34\x01\x00\x00\x01\0\0\0\0\0\0\x07half").await.unwrap()[3] & 15, 1, "FORMERR");
        assert_eq!(raw(server, b"\x12\x34\x28\x00\x00\x00\0\0\0\0\0\0").await.unwrap()[3] & 15, 4, "NOTIMP");
        for noise in [&b""[..], b"x", b"\x12\x34\x81\x80\x00\x00\0\0\0\0\0\0", &[0xff; 2000]] {
            assert_eq!(raw(server, noise).await, None);
        }
        client::garbage_over_tcp(server).await;
        let answer: Answer = ask(server, WEB, Rtype::A, None).await.unwrap();
        assert_eq!(answer.data(), ["10.96.0.20"]);
        assert!(world.dns.status().counts.noise >= 4);
    });
}

#[test]
fn nobody_asks_himself() {
    world::run(async |world| {
        world.feed(synced([]));
        world.use_servers(&["10.96.0.10", "127.0.0.53", "fd00:96::a"]).await;
        assert_eq!(world.dns.status().upstream, ["127.0.0.53:53".parse().unwrap()]);
        // One that hands everything back to this node.
        let _mirror = outside::mirror("127.0.0.54", CLUSTER_DNS[0]).await;
        let outside = Outside::start("127.0.0.53").await;
        world.write_resolv_conf(&["127.0.0.54", "127.0.0.53"]);
        eventually("the mirror is found out", async || {
            (outside.any() && world.dns.status().upstream == ["127.0.0.53:53".parse().unwrap()]).then_some(())
        })
        .await;
        assert_eq!(ask(CLUSTER_DNS[0], "www.example.com", Rtype::A, None).await.unwrap().data(), ["192.0.2.1"]);
    });
}

#[test]
fn the_interface_is_adopted_moved_and_removed() {
    world::run(async |world| {
        world.feed(synced([service("web", &["10.96.0.20"])]));
        let before = world.netlink.link(INTERFACE).await.unwrap().unwrap();
        world.restart().await;
        assert_eq!(world.netlink.link(INTERFACE).await.unwrap().unwrap(), before, "an interface that is there is kept");
        assert_eq!(ask(CLUSTER_DNS[0], WEB, Rtype::A, None).await.unwrap().rcode, Rcode::NOERROR);

        let moved = ClusterDns { servers: vec!["10.97.0.10".parse().unwrap()], domain: "corp.example".to_owned() };
        world.settings.send_replace(Settings { dns: Some(moved), settled: true });
        eventually("the new address", async || {
            (world.dns.status().listening == ["10.97.0.10:53".parse().unwrap()]).then_some(())
        })
        .await;
        let answer = ask("10.97.0.10".parse().unwrap(), "web.shop.svc.corp.example", Rtype::A, None).await.unwrap();
        assert_eq!(answer.data(), ["10.96.0.20"]);
        let addresses = world.netlink.addresses().await.unwrap();
        assert!(!addresses.iter().any(|found| CLUSTER_DNS.contains(&found.addr)), "{addresses:?}");

        world.settings.send_replace(Settings { dns: None, settled: false });
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        assert!(world.netlink.link(INTERFACE).await.unwrap().is_some(), "not knowing is no reason to stop");
        world.settings.send_replace(Settings { dns: None, settled: true });
        eventually("no interface", async || world.netlink.link(INTERFACE).await.unwrap().is_none().then_some(())).await;
        assert!(world.dns.status().listening.is_empty());
    });
}
