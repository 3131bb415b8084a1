//! What the maps say, looked up as the kernel programs do and decided by the classifier that they inline: the other side
//! of the compiler's tests.

use std::net::IpAddr;

use skep_abi::{Direction, PeerKey, PortKey, PrefixKey, RuleListKey, endpoint_flags, rule_list_flags};
use skep_verdict::policy::{first_common, merge};

use crate::dataplane::{MapContents, Protocol, abi_addr};

/// A connection as one local pod sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connection {
    pub(crate) ifindex: u32,
    pub(crate) direction: Direction,
    /// The other side's address.
    pub(crate) remote: IpAddr,
    pub(crate) protocol: Protocol,
    /// Destination port.
    pub(crate) port: u16,
}

/// Whether the maps allow a connection; `None` when they do not know the endpoint.
pub(crate) fn allows(contents: &MapContents, connection: Connection) -> Option<bool> {
    let endpoint = contents.endpoints.get(&connection.ifindex)?;
    let direction = connection.direction as usize;
    if endpoint.flags & endpoint_flags::CLOSED != 0 {
        return Some(false);
    }
    let list = endpoint.rule_list[direction];
    if list == 0 {
        return Some(true);
    }
    let words = 0..u32::from(endpoint.words[direction]);
    Some(words.into_iter().any(|word| word_allows(contents, list, word, connection)))
}

fn word_allows(contents: &MapContents, list: u32, word: u32, connection: Connection) -> bool {
    let addr = abi_addr(connection.remote);
    let Some(rules) = contents.rule_lists.get(&RuleListKey { list, word }) else { return false };
    let asks = |flag| rules.flags & flag != 0;
    let identity = contents.identities.get(&addr).filter(|_| asks(rule_list_flags::PEERS));
    let peer = identity.and_then(|&identity| contents.peer_rules.get(&PeerKey { identity, list, word }));
    let prefix = |len| {
        let masked = u128::from_be_bytes(addr.0) & u128::MAX.checked_shl(128 - len).unwrap_or(0);
        let key = PrefixKey { list, word, addr: skep_abi::Addr::v6(masked.to_be_bytes()) };
        contents.prefixes.get(&(PrefixKey::BASE_BITS + len, key))
    };
    let prefix = (0..=128).rev().find_map(prefix).filter(|_| asks(rule_list_flags::PREFIXES));
    let port = |len| {
        let masked = connection.port & u16::MAX.checked_shl(16 - len).unwrap_or(0);
        let (word, proto) = (word.try_into().unwrap(), connection.protocol.number());
        let key = PortKey { list, word, proto, pad: 0, port_be: masked.to_be(), tail: [0; 6] };
        contents.port_rules.get(&(PortKey::BASE_BITS + len, key))
    };
    let port = (0..=16).rev().find_map(port).filter(|_| asks(rule_list_flags::PORTS));
    let (mut peers, mut ports) = (rules.any_peer, rules.any_port);
    merge(&mut peers, peer);
    merge(&mut peers, prefix);
    merge(&mut ports, port);
    first_common(&peers, &ports).is_some()
}
