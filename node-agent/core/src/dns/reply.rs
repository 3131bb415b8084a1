use bytes::Bytes;
use domain::base::iana::{Class, Opcode, Rcode, Rtype};
use domain::base::message_builder::{HashCompressor, PushError};
use domain::base::name::{FlattenInto as _, ParsedName};
use domain::base::wire::ParseError;
use domain::base::{Message, MessageBuilder, ParsedRecord, RecordSection, Ttl};
use domain::rdata::ZoneRecordData;

use super::{Data, Name, Query, Record};

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// `NOERROR` with nothing in [`answers`](Self::answers) says that there are no records of the type.
    pub rcode: Rcode,
    /// Whoever answers knows by himself.
    pub authoritative: bool,
    /// The server that was asked has verified signatures.
    pub authentic: bool,
    /// The answer, aliases first.
    pub answers: Vec<Record>,
    /// With an empty answer, the zone's `SOA` record.
    pub authority: Vec<Record>,
    /// What the client would ask for next.
    pub additional: Vec<Record>,
}

impl Default for Reply {
    fn default() -> Self {
        Self {
            rcode: Rcode::NOERROR,
            authoritative: false,
            authentic: false,
            answers: Vec::new(),
            authority: Vec::new(),
            additional: Vec::new(),
        }
    }
}

/// What another server answered is of no use.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadReply {
    /// It is no reply to this question: a late or forged one.
    #[error("not a reply to the question")]
    Other,
    /// It cannot be read.
    #[error("malformed reply")]
    Malformed,
    /// It was cut off; it is to be asked for over TCP.
    #[error("truncated reply")]
    Truncated,
}

impl From<ParseError> for BadReply {
    fn from(_: ParseError) -> Self {
        Self::Malformed
    }
}

impl Reply {
    /// Nothing but a code.
    #[must_use]
    pub fn error(rcode: Rcode) -> Self {
        Self { rcode, ..Self::default() }
    }

    /// How long it may be kept, seconds: the shortest life of its records, and that of an absence by RFC 2308, 5. `None`
    /// when it may not.
    #[must_use]
    pub fn lifetime(&self) -> Option<u32> {
        let shortest = |records: &[Record]| records.iter().map(|record| record.ttl().as_secs()).min();
        let conclusive = matches!(self.rcode, Rcode::NOERROR | Rcode::NXDOMAIN);
        let soa = self.authority.iter().find_map(|record| match record.data() {
            Data::Soa(soa) => Some(soa.minimum().as_secs().min(record.ttl().as_secs())),
            _ => None,
        });
        // An alias whose target has no records is an absence too, as the SOA record tells.
        match (shortest(&self.answers), soa) {
            _ if !conclusive => None,
            (Some(answers), Some(soa)) => Some(answers.min(soa)),
            (Some(answers), None) if self.rcode == Rcode::NOERROR => Some(answers),
            (_, soa) => soa,
        }
    }

    /// Moves the first address of the answer, so that clients that take the first one spread over all. `by` is any number.
    pub fn rotate(&mut self, by: usize) {
        let is_address = |record: &Record| matches!(record.rtype(), Rtype::A | Rtype::AAAA);
        let Some(first) = self.answers.iter().position(is_address) else { return };
        let end = self.answers[first..].iter().position(|record| !is_address(record));
        let end = end.map_or(self.answers.len(), |length| first + length);
        let addresses = &mut self.answers[first..end];
        addresses.rotate_left(by % addresses.len());
    }

    /// The reply as it is after `age` seconds, with `before` in front of its answer.
    #[must_use]
    pub fn behind(&self, before: Vec<Record>, age: u32) -> Self {
        let aged = |records: &[Record]| records.iter().map(|record| aged(record, age)).collect::<Vec<_>>();
        let mut answers = before;
        answers.extend(aged(&self.answers));
        Self { answers, authority: aged(&self.authority), additional: aged(&self.additional), ..self.clone() }
    }

    /// The message that answers `query`, of at most `limit` bytes. What does not fit of the answer is left out, and the
    /// message says so (TC); of the additional records it is left out silently (RFC 2181, 9).
    #[must_use]
    pub fn write(&self, query: &Query, limit: usize) -> Vec<u8> {
        self.compose(query, limit).unwrap_or_else(|_| {
            // The smallest limit holds any question: never to be reached. A header still tells the client.
            let mut message = query.header().as_slice().to_vec();
            message.resize(12, 0);
            message
        })
    }

    fn compose(&self, query: &Query, limit: usize) -> Result<Vec<u8>, PushError> {
        let target = HashCompressor::new(Vec::with_capacity(512));
        let mut builder = MessageBuilder::from_target(target).map_err(|_| PushError::ShortBuf)?;
        let mut header = query.header();
        header.set_rcode(self.rcode);
        header.set_aa(self.authoritative);
        header.set_ad(self.authentic && query.wants_authentic());
        *builder.header_mut() = header;
        builder.set_push_limit(limit.saturating_sub(if query.edns().is_some() { OPT_LENGTH } else { 0 }));
        let mut builder = builder.question();
        builder.push((query.name(), query.rtype(), Class::IN))?;
        let mut builder = builder.answer();
        let mut whole = self.answers.iter().all(|record| builder.push(record).is_ok());
        let mut builder = builder.authority();
        whole = whole && self.authority.iter().all(|record| builder.push(record).is_ok());
        let mut builder = builder.additional();
        if whole {
            let _all = self.additional.iter().all(|record| builder.push(record).is_ok());
        } else {
            builder.header_mut().set_tc(true);
        }
        builder.clear_push_limit();
        if let Some(edns) = query.edns() {
            builder.opt(|opt| {
                opt.set_udp_payload_size(super::message::OWN_UDP_PAYLOAD);
                opt.set_dnssec_ok(edns.dnssec_ok);
                Ok(())
            })?;
        }
        Ok(builder.finish().into_target())
    }

    /// Reads what another server answered to the question `name`, `rtype` that was sent under `id`.
    ///
    /// # Errors
    /// [`BadReply`].
    pub fn read(message: Bytes, id: u16, name: &Name, rtype: Rtype) -> Result<Self, BadReply> {
        let message = Message::from_octets(message).map_err(|_| BadReply::Other)?;
        let header = message.header();
        if header.id() != id || !header.qr() || header.opcode() != Opcode::QUERY {
            return Err(BadReply::Other);
        }
        let question = message.sole_question();
        match &question {
            Ok(question) if question.qname() == name && question.qtype() == rtype => {}
            // Some servers leave the question out of a refusal.
            Err(_) if message.header_counts().qdcount() == 0 && header.rcode() != Rcode::NOERROR => {
                return Ok(Self::error(header.rcode()));
            }
            _ => return Err(BadReply::Other),
        }
        if header.tc() {
            return Err(BadReply::Truncated);
        }
        let mut section = message.answer()?;
        let answers = records(&mut section)?;
        let mut section = section.next_section()?.ok_or(BadReply::Malformed)?;
        let authority = records(&mut section)?;
        Ok(Self {
            rcode: header.rcode(),
            authoritative: false,
            authentic: header.ad(),
            answers,
            authority,
            additional: Vec::new(),
        })
    }
}

/// Bytes of an OPT record without options (RFC 6891, 6.1.2).
const OPT_LENGTH: usize = 11;

fn aged(record: &Record, age: u32) -> Record {
    let mut record = record.clone();
    record.set_ttl(Ttl::from_secs(record.ttl().as_secs().saturating_sub(age)));
    record
}

fn records(section: &mut RecordSection<'_, Bytes>) -> Result<Vec<Record>, BadReply> {
    let mut records = Vec::new();
    for parsed in section {
        let parsed: ParsedRecord<'_, Bytes> = parsed?;
        let record = parsed.to_record::<ZoneRecordData<Bytes, ParsedName<Bytes>>>()?.ok_or(BadReply::Malformed)?;
        let flat: Record = record.flatten_into();
        records.push(flat);
    }
    Ok(records)
}
