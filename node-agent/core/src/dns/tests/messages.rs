//! Messages of clients and of other servers, byte by byte.

use ::domain::base::iana::Class;
use ::domain::base::{Message, MessageBuilder};
use ::domain::rdata::AllRecordData;
use bytes::Bytes;
use proptest::prelude::*;

use super::*;

/// A question as a client sends it; EDNS with that payload size and DO.
fn question(text: &str, rtype: Rtype, edns: Option<(u16, bool)>) -> Vec<u8> {
    let mut builder = MessageBuilder::new_vec().question();
    builder.header_mut().set_id(0x1234);
    builder.header_mut().set_rd(true);
    builder.push((name(text), rtype)).unwrap();
    let mut builder = builder.additional();
    if let Some((size, dnssec_ok)) = edns {
        builder
            .opt(|opt| {
                opt.set_udp_payload_size(size);
                opt.set_dnssec_ok(dnssec_ok);
                Ok(())
            })
            .unwrap();
    }
    builder.finish()
}

fn query(message: &[u8]) -> Query {
    match read(message) {
        Request::Query(query) => query,
        other => panic!("{other:?}"),
    }
}

fn refusal(message: &[u8]) -> String {
    match read(message) {
        Request::Refused(_, reply) => Message::from_octets(reply).unwrap().opt_rcode().to_string(),
        Request::Noise => "silence".to_owned(),
        Request::Query(query) => panic!("{query:?}"),
    }
}

fn answer(zone: &Zone, query: &Query, limit: usize) -> Message<Vec<u8>> {
    let Resolution::Reply(reply) = zone.resolve(&domain(), query.name(), query.rtype()) else { panic!() };
    let message = reply.write(query, limit);
    assert!(message.len() <= limit, "{} bytes of {limit}", message.len());
    Message::from_octets(message).unwrap()
}

#[test]
fn a_question_is_answered_as_it_was_asked() {
    let query = query(&question("Web.Shop.svc.Cluster.Local", Rtype::A, None));
    let message = answer(&shop(), &query, query.udp_limit());
    let header = message.header();
    assert_eq!(header.id(), 0x1234);
    assert!(header.qr() && header.aa() && header.rd() && header.ra() && !header.tc());
    let asked = message.sole_question().unwrap();
    assert_eq!(asked.qname().to_string(), "Web.Shop.svc.Cluster.Local", "clients check the case (RFC 1035, 0x20)");
    let record = message.answer().unwrap().next().unwrap().unwrap();
    assert_eq!(record.owner().to_string(), "Web.Shop.svc.Cluster.Local");
    assert_eq!(record.ttl().as_secs(), TTL);
    assert!(message.opt().is_none(), "only who speaks EDNS is spoken to in it");
}

#[test]
fn edns_is_answered_with_edns() {
    let query = query(&question("web.shop.svc.cluster.local", Rtype::A, Some((4096, true))));
    assert_eq!(query.edns(), Some(Edns { udp_payload: 4096, dnssec_ok: true }));
    assert_eq!(query.udp_limit(), 1232);
    let message = answer(&shop(), &query, query.udp_limit());
    let opt = message.opt().unwrap();
    assert!(opt.dnssec_ok() && opt.version() == 0);
    assert_eq!(opt.udp_payload_size(), 1232);
    let small = self::query(&question("web.shop.svc.cluster.local", Rtype::A, Some((1, false))));
    assert_eq!(small.udp_limit(), 512);
}

fn many(count: u32) -> Zone {
    let addresses: Vec<String> = (0..count).map(|n| format!("10.244.{}.{}", n / 250, n % 250 + 1)).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    synced([service("many", &[]), slice("many-a", "many", &addresses)])
}

#[test]
fn what_does_not_fit_is_cut_and_said_so() {
    let zone = many(1000);
    let asked = "many.shop.svc.cluster.local";
    for (edns, fit) in [(None, 29), (Some((1232, false)), 73)] {
        let query = query(&question(asked, Rtype::A, edns));
        let message = answer(&zone, &query, query.udp_limit());
        assert!(message.header().tc());
        assert_eq!(message.header_counts().ancount(), fit);
        assert_eq!(message.opt().is_some(), edns.is_some());
    }
    let query = query(&question(asked, Rtype::A, Some((1232, false))));
    let whole = answer(&zone, &query, u16::MAX.into());
    assert!(!whole.header().tc());
    assert_eq!(whole.header_counts().ancount(), 1000);
}

#[test]
fn additional_records_are_left_out_without_a_word() {
    let zone = many(12);
    let query = query(&question("_http._tcp.many.shop.svc.cluster.local", Rtype::SRV, Some((1232, false))));
    let all = answer(&zone, &query, 1232);
    assert_eq!((all.header_counts().ancount(), all.header_counts().arcount()), (12, 13));
    let length = all.as_slice().len();
    let some = answer(&zone, &query, length - 1);
    assert!(!some.header().tc());
    assert_eq!((some.header_counts().ancount(), some.header_counts().arcount()), (12, 12));
    assert!(some.opt().is_some());
}

#[test]
fn an_absence_carries_the_zone() {
    let query = query(&question("www.example.com.shop.svc.cluster.local", Rtype::AAAA, None));
    let message = answer(&shop(), &query, 512);
    assert_eq!(message.header().rcode(), Rcode::NXDOMAIN);
    assert_eq!((message.header_counts().ancount(), message.header_counts().nscount()), (0, 1));
}

#[test]
fn what_is_not_served_is_refused_by_name() {
    let plain = question("a.example", Rtype::A, None);
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut message = plain.clone();
        change(&mut message);
        refusal(&message)
    };
    assert_eq!(refusal(b""), "silence");
    assert_eq!(refusal(&[0; 11]), "silence");
    assert_eq!(with(&|message| message[2] |= 0x80), "silence", "an answer is never answered");
    assert_eq!(with(&|message| message[2] |= 2 << 3), "NOTIMP", "STATUS");
    assert_eq!(with(&|message| message[2] |= 5 << 3), "NOTIMP", "UPDATE");
    assert_eq!(with(&|message| message[5] = 0), "FORMERR", "no question");
    assert_eq!(with(&|message| message[5] = 2), "FORMERR", "two questions");
    assert_eq!(with(&|message| message.truncate(20)), "FORMERR", "half a question");
    assert_eq!(with(&|message| message[11] = 1), "FORMERR", "a record that is not there");
    let end = plain.len();
    assert_eq!(with(&|message| message[end - 1] = 3), "REFUSED", "class CHAOS");
    for rtype in [Rtype::AXFR, Rtype::IXFR] {
        assert_eq!(refusal(&question("cluster.local", rtype, None)), "REFUSED");
    }
    let mut twice = question("a.example", Rtype::A, Some((512, false)));
    let opt = twice[end..].to_vec();
    twice.extend(&opt);
    twice[11] = 2;
    assert_eq!(refusal(&twice), "FORMERR", "two OPT records");
    let mut version = question("a.example", Rtype::A, Some((512, false)));
    version[end + 6] = 1;
    assert_eq!(refusal(&version), "BADVERS");
}

#[test]
fn what_another_server_says_is_checked() {
    let asked = name("www.example.com");
    let reply = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut builder = MessageBuilder::new_vec().question();
        builder.header_mut().set_id(7);
        builder.header_mut().set_qr(true);
        builder.push((&asked, Rtype::A)).unwrap();
        let mut builder = builder.answer();
        builder.push((&asked, Class::IN, 60, ::domain::rdata::A::from_octets(192, 0, 2, 1))).unwrap();
        let mut message = builder.finish();
        change(&mut message);
        Reply::read(Bytes::from(message), 7, &name("WWW.example.com"), Rtype::A)
    };
    let good = reply(&|_| {}).unwrap();
    assert_eq!(good.answers.len(), 1);
    assert_eq!(good.answers[0].data().to_string(), "192.0.2.1");
    assert_eq!(reply(&|message| message[1] = 8), Err(BadReply::Other), "another ID");
    assert_eq!(reply(&|message| message[2] &= 0x7f), Err(BadReply::Other), "a question");
    assert_eq!(reply(&|message| message[13] = b'x'), Err(BadReply::Other), "another name");
    assert_eq!(reply(&|message| message[30] = 28), Err(BadReply::Other), "another type");
    assert_eq!(reply(&|message| message[2] |= 2), Err(BadReply::Truncated));
    assert_eq!(reply(&|message| message.truncate(message.len() - 1)), Err(BadReply::Malformed));
    assert_eq!(reply(&|message| message.truncate(5)), Err(BadReply::Other));
}

#[test]
fn the_age_of_an_answer_is_taken_off() {
    let query = query(&question("web.shop.svc.cluster.local", Rtype::A, None));
    let Resolution::Reply(reply) = shop().resolve(&domain(), query.name(), Rtype::A) else { panic!() };
    let left = |age| {
        let message = Message::from_octets(reply.behind(Vec::new(), age).write(&query, 512)).unwrap();
        message.answer().unwrap().next().unwrap().unwrap().ttl().as_secs()
    };
    assert_eq!((left(0), left(3), left(9)), (5, 2, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_it_stumble(message in prop::collection::vec(any::<u8>(), 0..300)) {
        survives(&message)?;
    }

    /// Near to what it takes, where the corners are.
    #[test]
    fn no_damage_makes_it_stumble(at in 0..80_usize, byte: u8, cut in 0..80_usize, edns: bool) {
        let edns = edns.then_some((1232, true));
        let mut message = question("_http._tcp.db.shop.svc.cluster.local", Rtype::SRV, edns);
        let at = at % message.len();
        message[at] = byte;
        message.truncate(message.len().saturating_sub(cut.saturating_sub(40)));
        survives(&message)?;
    }

    #[test]
    fn no_reply_makes_it_stumble(message in prop::collection::vec(any::<u8>(), 0..300)) {
        // As far as it goes without being thrown away at the first look.
        let mut reply = question("a.example", Rtype::A, None);
        reply[2] |= 0x80;
        reply[7] = 1;
        reply.extend(&message);
        let _any = Reply::read(Bytes::from(reply), 0x1234, &name("a.example"), Rtype::A);
        let _any = Reply::read(Bytes::from(message), 0x1234, &name("a.example"), Rtype::A);
    }
}

/// Whatever comes, what goes out is a message.
fn survives(message: &[u8]) -> Result<(), TestCaseError> {
    let reply = match read(message) {
        Request::Noise => return Ok(()),
        Request::Refused(_, reply) => reply,
        Request::Query(query) => match shop_once().resolve(&domain(), query.name(), query.rtype()) {
            Resolution::Reply(reply) => reply.write(&query, query.udp_limit()),
            Resolution::NotReady | Resolution::Elsewhere { .. } => {
                Reply::error(Rcode::SERVFAIL).write(&query, query.udp_limit())
            }
        },
    };
    prop_assert!(reply.len() <= 1232);
    let reply = Message::from_octets(reply).unwrap();
    prop_assert!(reply.header().qr());
    prop_assert_eq!(&reply.as_slice()[..2], &message[..2]);
    for section in [reply.answer(), reply.authority(), reply.additional()] {
        let Ok(section) = section else { return Err(TestCaseError::fail("unreadable")) };
        for record in section {
            let record = record.unwrap();
            prop_assert!(record.to_any_record::<AllRecordData<_, _>>().is_ok());
        }
    }
    Ok(())
}

fn shop_once() -> &'static Zone {
    static SHOP: std::sync::OnceLock<Zone> = std::sync::OnceLock::new();
    SHOP.get_or_init(shop)
}
