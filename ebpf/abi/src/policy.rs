use crate::Addr;

/// Direction of a packet or a policy, from the pod's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Direction {
    /// To the pod.
    Ingress = 0,
    /// From the pod.
    Egress = 1,
}

/// A local pod, found by the index of its host-side interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Endpoint {
    /// The pod's identity: a hash of its Namespace and labels (see the agent's core).
    pub identity: u64,
    /// Addresses that the pod may use as source.
    pub addr4: Addr,
    /// IPv6 address, or [`Addr::NONE`].
    pub addr6: Addr,
    /// Number of this endpoint; never reused while the node is up.
    pub id: u32,
    /// Bits of [`endpoint_flags`].
    pub flags: u32,
    /// Rule list of each [`Direction`]; 0 is none (everything allowed).
    pub rule_list: [u32; 2],
    /// Number of 256-rule words of each list.
    pub words: [u16; 2],
    /// MAC address of the pod's side of the interface.
    pub mac: [u8; 6],
    /// Zero.
    pub pad: [u8; 6],
}

/// Flags of [`Endpoint`].
pub mod endpoint_flags {
    /// Nothing passes, because policies for this pod could not be written to the maps (fail closed).
    pub const CLOSED: u32 = 1 << 0;
}

/// A vector of 256 rules: bit `i % 64` of element `i / 64` is rule `i` of the word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Bits(pub [u64; 4]);

/// One 256-rule word of a rule list.
///
/// A connection is allowed by rule `i` of a list when bit `i` is set in both of
/// `any_peer | peer_rules[identity] | prefixes[address]` and `any_port | port_rules[protocol, port]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct RuleListKey {
    /// Number of the list; never reused while the node is up.
    pub list: u32,
    /// `0..Endpoint::words[direction]`.
    pub word: u32,
}

/// What holds for a word of a rule list whatever the peer or port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RuleList {
    /// Rules that name no peer.
    pub any_peer: Bits,
    /// Rules that name no port.
    pub any_port: Bits,
    /// Bits of [`rule_list_flags`].
    pub flags: u32,
    /// Zero.
    pub pad: u32,
}

/// Flags of [`RuleList`]: which maps need to be asked at all.
pub mod rule_list_flags {
    /// Some rule has peers by selector.
    pub const PEERS: u32 = 1 << 0;
    /// Some rule has peers by `ipBlock`.
    pub const PREFIXES: u32 = 1 << 1;
    /// Some rule has ports.
    pub const PORTS: u32 = 1 << 2;
}

/// Rules of a word that select an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct PeerKey {
    /// The peer's identity.
    pub identity: u64,
    /// [`RuleListKey::list`].
    pub list: u32,
    /// [`RuleListKey::word`].
    pub word: u32,
}

/// Data of an LPM key: rules of a word that allow a port. The prefix length, kept beside it, is [`PortKey::BASE_BITS`] for
/// every port of the protocol and up to 16 more for a port prefix. A port range is a set of prefixes; a longer prefix repeats the bits of
/// the shorter ones that cover it, because only the longest match is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct PortKey {
    /// [`RuleListKey::list`].
    pub list: u32,
    /// [`RuleListKey::word`].
    pub word: u16,
    /// IP protocol number.
    pub proto: u8,
    /// Zero.
    pub pad: u8,
    /// Destination port, network byte order.
    pub port_be: u16,
    /// Zero; never part of the prefix. Keeps the value, which the kernel puts right behind the key, aligned.
    pub tail: [u8; 6],
}

impl PortKey {
    /// Prefix length of list, word and protocol together.
    pub const BASE_BITS: u32 = 64;
}

/// Data of an LPM key: the prefix length, kept beside it, is [`PrefixKey::BASE_BITS`] plus the length of the prefix in the
/// 128-bit address. Value: rules of a word whose `ipBlock` holds an address (with `except` taken out by longer prefixes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct PrefixKey {
    /// [`RuleListKey::list`].
    pub list: u32,
    /// [`RuleListKey::word`].
    pub word: u32,
    /// The address.
    pub addr: Addr,
}

impl PrefixKey {
    /// Prefix length of list and word together.
    pub const BASE_BITS: u32 = 64;
}

const _: () = {
    assert!(core::mem::size_of::<Endpoint>() == 72);
    assert!(core::mem::size_of::<Bits>() == 32);
    assert!(core::mem::size_of::<RuleListKey>() == 8);
    assert!(core::mem::size_of::<RuleList>() == 72);
    assert!(core::mem::size_of::<PeerKey>() == 16);
    assert!(core::mem::size_of::<PortKey>() == 16);
    assert!(core::mem::size_of::<PrefixKey>() == 24);
};
