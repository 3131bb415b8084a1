//! Network policy for a new connection.

use aya_ebpf::btf_maps::lpm_trie::Key;
use skep_abi::{
    Direction, Endpoint, PeerKey, PortKey, PrefixKey, Reason, RuleListKey, endpoint_flags, rule_list_flags,
};
use skep_verdict::policy::{MAX_WORDS, first_common, merge};
use skep_verdict::proto;

use super::scratch::Scratch;
use crate::maps;

/// Whether the endpoint lets nothing through.
#[inline(always)]
pub(crate) fn is_closed(endpoint: &Endpoint) -> bool {
    endpoint.flags & endpoint_flags::CLOSED != 0
}

/// Decides the connection whose key is in `s`, after translation, and notes there which rule decided.
#[inline(never)]
pub(crate) fn decide(endpoint: &Endpoint, s: &mut Scratch, direction: Direction) -> Result<(), Reason> {
    // SAFETY: entries of a map without preallocation are freed only after a grace period that outlasts the program.
    s.identity = unsafe { maps::identities.get(&s.key.remote) }.copied().unwrap_or(s.newcomer);
    let (list, words) = match direction {
        Direction::Ingress => (endpoint.rule_list[0], endpoint.words[0]),
        Direction::Egress => (endpoint.rule_list[1], endpoint.words[1]),
    };
    if list == 0 {
        return Ok(());
    }
    s.list = list;
    for word in 0..MAX_WORDS {
        if word >= words {
            break;
        }
        match word_decides(s, list, word, direction) {
            NONE => {}
            MISSING => return Err(Reason::MapError),
            rule => {
                s.rule = u32::from(word) * 256 + rule;
                return Ok(());
            }
        }
    }
    Err(Reason::PolicyDenied)
}

/// No rule of the word allows the connection.
const NONE: u32 = u32::MAX;
/// The word is not there.
const MISSING: u32 = u32::MAX - 1;

/// The first rule of a word that allows the connection, or [`NONE`] or [`MISSING`].
///
/// The vectors are gathered in scratch memory and not in registers: what the verifier knows is then the same whichever
/// entries there are, and it follows one path through the loop instead of each combination.
#[inline(never)]
fn word_decides(s: &mut Scratch, list: u32, word: u16, direction: Direction) -> u32 {
    let word_key = RuleListKey { list, word: u32::from(word) };
    // SAFETY: as in `decide`.
    let Some(rules) = (unsafe { maps::rule_lists.get(&word_key) }) else {
        // The agent writes a list before the endpoint names it: what is missing must not open the pod.
        return MISSING;
    };
    s.peers = rules.any_peer;
    s.ports = rules.any_port;
    if rules.flags & rule_list_flags::PEERS != 0 && s.identity != 0 {
        let key = PeerKey { identity: s.identity, list, word: u32::from(word) };
        // SAFETY: as in `decide`.
        merge(&mut s.peers, unsafe { maps::peer_rules.get(&key) });
    }
    if rules.flags & rule_list_flags::PREFIXES != 0 {
        let data = PrefixKey { list, word: u32::from(word), addr: s.key.remote };
        merge(&mut s.peers, maps::prefixes.get(&Key::new(PrefixKey::BASE_BITS + 128, data)));
    }
    if rules.flags & rule_list_flags::PORTS != 0 && proto::has_ports(s.key.proto) {
        let port_be = match direction {
            Direction::Ingress => s.key.local_port_be,
            Direction::Egress => s.key.remote_port_be,
        };
        let data = PortKey { list, word, proto: s.key.proto, pad: 0, port_be, tail: [0; 6] };
        merge(&mut s.ports, maps::port_rules.get(&Key::new(PortKey::BASE_BITS + 16, data)));
    }
    first_common(&s.peers, &s.ports).unwrap_or(NONE)
}
