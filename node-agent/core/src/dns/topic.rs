use domain::base::MessageBuilder;
use domain::base::iana::{Class, Rtype};

use super::message::OWN_UDP_PAYLOAD;
use super::{Name, Query};

/// What tells one question to other servers from another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Topic {
    /// What is asked for.
    pub name: Name,
    /// Type of the records.
    pub rtype: Rtype,
    /// Signatures are wanted.
    pub dnssec_ok: bool,
    /// Signatures are not to be checked.
    pub checking_disabled: bool,
}

impl Topic {
    /// What a client asks for, under another name when an alias led there.
    #[must_use]
    pub fn new(query: &Query, name: Name) -> Self {
        Self {
            name,
            rtype: query.rtype(),
            dnssec_ok: query.edns().is_some_and(|edns| edns.dnssec_ok),
            checking_disabled: query.checking_disabled(),
        }
    }

    /// The message that asks another server, with an OPT record when it is known to understand that. `None` only for a
    /// name that no message can hold.
    #[must_use]
    pub fn write(&self, id: u16, edns: bool) -> Option<Vec<u8>> {
        let mut builder = MessageBuilder::new_vec().question();
        let header = builder.header_mut();
        header.set_id(id);
        header.set_rd(true);
        header.set_cd(self.checking_disabled);
        // RFC 6840, 5.7: whether signatures were verified is understood.
        header.set_ad(true);
        builder.push((&self.name, self.rtype, Class::IN)).ok()?;
        let mut builder = builder.additional();
        if edns {
            let composed = builder.opt(|opt| {
                opt.set_udp_payload_size(OWN_UDP_PAYLOAD);
                opt.set_dnssec_ok(self.dnssec_ok);
                Ok(())
            });
            composed.ok()?;
        }
        Some(builder.finish())
    }
}
