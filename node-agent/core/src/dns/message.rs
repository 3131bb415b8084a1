use bytes::Bytes;
use domain::base::iana::{Class, Opcode, OptRcode, Rcode, Rtype};
use domain::base::opt::{Opt, OptRecord};
use domain::base::{Header, Message, MessageBuilder, ToName as _};

use super::{Name, Reply};

/// What UDP messages may have when the client does not say more (RFC 1035, 4.2.1), bytes.
pub const SMALLEST_UDP: u16 = 512;
/// What is sent and taken over UDP at most, bytes: no path between nodes has to cut it in pieces (RFC 9715, 3.1: at most
/// 1400; the DNS flag day 2020 agreed on this).
pub(super) const OWN_UDP_PAYLOAD: u16 = 1232;

/// A question that can be answered.
#[derive(Clone, Debug)]
pub struct Query {
    header: Header,
    name: Name,
    rtype: Rtype,
    edns: Option<Edns>,
}

/// What the client says in its OPT record (RFC 6891).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edns {
    /// How much it takes over UDP, bytes.
    pub udp_payload: u16,
    /// It wants signatures.
    pub dnssec_ok: bool,
}

/// What a message from a client is.
#[derive(Clone, Debug)]
pub enum Request {
    /// A question.
    Query(Query),
    /// Nothing that is served; this says so.
    Refused(Rcode, Vec<u8>),
    /// Nothing that can be answered: too short, or itself an answer (which must never be answered: two servers would
    /// talk for ever).
    Noise,
}

/// Reads a message. Never fails: whatever is wrong with it is answered.
#[must_use]
pub fn read(message: &[u8]) -> Request {
    let Ok(message) = Message::from_slice(message) else { return Request::Noise };
    let header = message.header();
    if header.qr() {
        return Request::Noise;
    }
    let refused = |rcode| Request::Refused(rcode, bare(header, rcode));
    if header.opcode() != Opcode::QUERY {
        return refused(Rcode::NOTIMP);
    }
    // RFC 9619: one question, no more and no less.
    let Ok(question) = message.sole_question() else { return refused(Rcode::FORMERR) };
    let Ok(edns) = edns(message) else { return refused(Rcode::FORMERR) };
    let query = Query {
        header,
        name: question.qname().to_name::<Bytes>(),
        rtype: question.qtype(),
        edns: edns.as_ref().map(|opt| Edns { udp_payload: opt.udp_payload_size(), dnssec_ok: opt.dnssec_ok() }),
    };
    if edns.is_some_and(|opt| opt.version() != 0) {
        return Request::Refused(Rcode::NOERROR, query.bad_version());
    }
    // Zones are not given away (RFC 5936), and there are no questions about the server.
    if question.qclass() != Class::IN || matches!(query.rtype, Rtype::AXFR | Rtype::IXFR) {
        return Request::Refused(Rcode::REFUSED, Reply::error(Rcode::REFUSED).write(&query, SMALLEST_UDP.into()));
    }
    Request::Query(query)
}

/// There is one OPT record at most (RFC 6891, 6.1.1), and all records can be read.
fn edns(message: &Message<[u8]>) -> Result<Option<OptRecord<&[u8]>>, ()> {
    let mut found = None;
    for record in message.additional().map_err(|_| ())? {
        let record = record.map_err(|_| ())?;
        if record.rtype() == Rtype::OPT {
            let opt = record.to_record::<Opt<_>>().map_err(|_| ())?.ok_or(())?;
            if found.replace(OptRecord::from(opt)).is_some() {
                return Err(());
            }
        }
    }
    Ok(found)
}

/// A header that answers, and nothing more.
fn bare(query: Header, rcode: Rcode) -> Vec<u8> {
    let mut header = answering(query);
    header.set_opcode(query.opcode());
    header.set_rcode(rcode);
    let mut message = header.as_slice().to_vec();
    message.resize(12, 0);
    message
}

fn answering(query: Header) -> Header {
    let mut header = Header::new();
    header.set_id(query.id());
    header.set_qr(true);
    header.set_rd(query.rd());
    header.set_cd(query.cd());
    header.set_ra(true);
    header
}

impl Query {
    /// A question as a client of this machine would ask it.
    #[must_use]
    pub fn new(name: Name, rtype: Rtype) -> Self {
        let mut header = Header::new();
        header.set_rd(true);
        Self { header, name, rtype, edns: None }
    }

    /// What is asked for.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Type of the records that are asked for.
    #[must_use]
    pub fn rtype(&self) -> Rtype {
        self.rtype
    }

    /// What the client says of itself.
    #[must_use]
    pub fn edns(&self) -> Option<Edns> {
        self.edns
    }

    /// Others may be asked.
    #[must_use]
    pub fn recursion_desired(&self) -> bool {
        self.header.rd()
    }

    /// Others are not to check signatures.
    #[must_use]
    pub fn checking_disabled(&self) -> bool {
        self.header.cd()
    }

    /// The client understands that signatures were verified (RFC 6840, 5.7).
    #[must_use]
    pub fn wants_authentic(&self) -> bool {
        self.header.ad() || self.edns.is_some_and(|edns| edns.dnssec_ok)
    }

    /// How long the answer may be over UDP, bytes.
    #[must_use]
    pub fn udp_limit(&self) -> usize {
        self.edns.map_or(SMALLEST_UDP, |edns| edns.udp_payload.clamp(SMALLEST_UDP, OWN_UDP_PAYLOAD)).into()
    }

    /// Header of an answer.
    pub(super) fn header(&self) -> Header {
        answering(self.header)
    }

    /// RFC 6891, 6.1.3.
    fn bad_version(&self) -> Vec<u8> {
        let compose = || {
            let mut builder = MessageBuilder::new_vec().question();
            *builder.header_mut() = self.header();
            builder.push((&self.name, self.rtype, Class::IN)).ok()?;
            let mut builder = builder.additional();
            builder
                .opt(|opt| {
                    opt.set_udp_payload_size(OWN_UDP_PAYLOAD);
                    opt.set_rcode(OptRcode::BADVERS);
                    Ok(())
                })
                .ok()?;
            Some(builder.finish())
        };
        // A vector takes it all.
        compose().unwrap_or_else(|| bare(self.header, Rcode::FORMERR))
    }
}
