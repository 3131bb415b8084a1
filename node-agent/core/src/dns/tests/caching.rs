//! Answers of other servers, and how long they are kept.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::domain::base::iana::Class;
use ::domain::base::{Serial, Ttl};
use ::domain::rdata::{A, Soa};

use super::*;

fn record(owner: &str, ttl: u32, data: Data) -> Record {
    Record::new(name(owner), Class::IN, Ttl::from_secs(ttl), data)
}

fn address(owner: &str, ttl: u32, last: u8) -> Record {
    record(owner, ttl, Data::A(A::from_octets(192, 0, 2, last)))
}

fn soa(ttl: u32, minimum: u32) -> Record {
    let second = Ttl::from_secs(1);
    let (host, mail) = (name("ns.example"), name("mail.example"));
    let minimum = Ttl::from_secs(minimum);
    record("example", ttl, Data::Soa(Soa::new(host, mail, Serial::from(1), second, second, second, minimum)))
}

fn topic(text: &str) -> Topic {
    Topic::new(&Query::new(name(text), Rtype::A), name(text))
}

fn absence(rcode: Rcode, authority: Vec<Record>) -> Arc<Reply> {
    Arc::new(Reply { rcode, authority, ..Reply::default() })
}

#[test]
fn answers_live_as_long_as_their_shortest_record() {
    let mut cache = Cache::new(10);
    let now = Instant::now();
    let answers = vec![address("a.example", 60, 1), address("a.example", 30, 2)];
    cache.insert(topic("a.example"), Arc::new(Reply { answers, ..Reply::default() }), now);
    let after = |seconds| cache.get(&topic("A.EXAMPLE"), now + Duration::from_secs(seconds)).map(|found| found.age);
    assert_eq!((after(0), after(29), after(30)), (Some(0), Some(29), None));
}

#[test]
fn absences_live_as_the_zone_says() {
    let mut cache = Cache::new(10);
    let now = Instant::now();
    for (at, (reply, lifetime)) in [
        (absence(Rcode::NXDOMAIN, vec![soa(60, 20)]), Some(20)),
        (absence(Rcode::NOERROR, vec![soa(10, 20)]), Some(10)),
        (absence(Rcode::NXDOMAIN, vec![soa(86_400, 86_400)]), Some(300)),
        (absence(Rcode::NXDOMAIN, Vec::new()), None),
        (absence(Rcode::NOERROR, Vec::new()), None),
        (absence(Rcode::SERVFAIL, Vec::new()), Some(1)),
        (Arc::new(Reply { answers: vec![address("x.example", 0, 1)], ..Reply::default() }), None),
        (Arc::new(Reply { answers: vec![address("x.example", 90_000, 1)], ..Reply::default() }), Some(3600)),
    ]
    .into_iter()
    .enumerate()
    {
        let topic = topic(&format!("n{at}.example"));
        cache.insert(topic.clone(), reply, now);
        let Some(lifetime) = lifetime else {
            assert!(cache.get(&topic, now).is_none(), "{at}");
            continue;
        };
        assert!(cache.get(&topic, now + Duration::from_secs(lifetime - 1)).is_some(), "{at}");
        assert!(cache.get(&topic, now + Duration::from_secs(lifetime)).is_none(), "{at}");
    }
}

#[test]
fn the_cache_is_bounded_and_keeps_what_lives_longest() {
    let mut cache = Cache::new(3);
    let now = Instant::now();
    for (text, ttl) in [("a.example", 10), ("b.example", 40), ("c.example", 20), ("d.example", 30)] {
        let answers = vec![address(text, ttl, 1)];
        cache.insert(topic(text), Arc::new(Reply { answers, ..Reply::default() }), now);
    }
    assert_eq!(cache.len(), 3);
    let held = ["a", "b", "c", "d"].map(|text| cache.get(&topic(&format!("{text}.example")), now).is_some());
    assert_eq!(held, [false, true, true, true]);
    // What has ended makes room first.
    let later = now + Duration::from_secs(25);
    cache.insert(topic("e.example"), absence(Rcode::NXDOMAIN, vec![soa(5, 5)]), later);
    assert_eq!(cache.len(), 3);
    assert!(cache.get(&topic("d.example"), later).is_some());
    cache.clear();
    assert!(cache.is_empty());
}

#[test]
fn a_new_answer_replaces_the_old_one() {
    let mut cache = Cache::new(2);
    let now = Instant::now();
    for last in 1..=3 {
        let answers = vec![address("a.example", 10, last)];
        cache.insert(topic("a.example"), Arc::new(Reply { answers, ..Reply::default() }), now);
    }
    assert_eq!(cache.len(), 1);
    assert_eq!(cache.get(&topic("a.example"), now).unwrap().reply.answers, [address("a.example", 10, 3)]);
    // One that may not be kept takes the old one with it.
    cache.insert(topic("a.example"), Arc::new(Reply::default()), now);
    assert!(cache.is_empty());
}

#[test]
fn the_first_address_rotates_and_aliases_stay_in_front() {
    let alias = record("www.example", 60, Data::Cname(::domain::rdata::Cname::new(name("a.example"))));
    let rotated = |by| {
        let answers = vec![alias.clone(), address("a.example", 60, 1), address("a.example", 60, 2)];
        let mut reply = Reply { answers, ..Reply::default() };
        reply.rotate(by);
        reply.answers.iter().map(data).collect::<Vec<_>>()
    };
    assert_eq!(rotated(0), ["a.example", "192.0.2.1", "192.0.2.2"]);
    assert_eq!(rotated(5), ["a.example", "192.0.2.2", "192.0.2.1"]);
    let mut empty = Reply::default();
    empty.rotate(3);
    assert_eq!(empty, Reply::default());
}
