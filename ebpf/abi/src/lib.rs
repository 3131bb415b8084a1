//! Layouts of the maps that the kernel programs and the node agent share.
//!
//! This crate is the only place where kernel and agent meet. Every type is `repr(C)`, has explicit padding, and is
//! made of plain integers and byte arrays only, so that any bit pattern is valid and `bpftool map dump` can show it by
//! BTF. Ports are in network byte order exactly where the field name ends in `_be`.
//!
//! # Addresses
//!
//! An address is 16 bytes. IPv4 is carried IPv4-mapped (`::ffff:a.b.c.d`, RFC 4291 section 2.5.5.2), so that each map
//! serves both families.
//!
//! # Changing a layout
//!
//! Bump [`VERSION`]. Maps are pinned under a directory that carries it, and an agent adopts only what has its version.
#![no_std]

mod addr;
mod conntrack;
mod event;
mod policy;
mod service;

pub use addr::Addr;
pub use conntrack::{ConnKey, ConnState, ConnValue, FragmentKey, FragmentValue, OriginKey, OriginValue, conn_flags};
pub use event::{Drops, FlowEvent, Reason, Verdict};
pub use policy::{
    Bits, Direction, Endpoint, PeerKey, PortKey, PrefixKey, RuleList, RuleListKey, endpoint_flags, rule_list_flags,
};
pub use service::{Backend, BackendState, Frontend, FrontendKey, SlotKey, frontend_flags};

/// Version of every layout in this crate; part of the pin directory's name.
pub const VERSION: u32 = 1;

/// Names of the maps, as pinned and as shown by `skep maps` and `bpftool map`.
///
/// Kernel map names have at most 15 bytes.
pub mod map {
    /// [`FrontendKey`](crate::FrontendKey) -> [`Frontend`](crate::Frontend). Hash.
    pub const FRONTENDS: &str = "frontends";
    /// [`SlotKey`](crate::SlotKey) -> backend id (`u32`). Hash.
    pub const SLOTS: &str = "slots";
    /// Backend id (`u32`) -> [`Backend`](crate::Backend). Hash.
    pub const BACKENDS: &str = "backends";
    /// [`OriginKey`](crate::OriginKey) -> [`OriginValue`](crate::OriginValue). LRU hash.
    pub const ORIGINS: &str = "socket_origin";
    /// [`ConnKey`](crate::ConnKey) -> [`ConnValue`](crate::ConnValue). LRU hash.
    pub const CONNTRACK: &str = "conntrack";
    /// [`FragmentKey`](crate::FragmentKey) -> [`FragmentValue`](crate::FragmentValue). LRU hash.
    pub const FRAGMENTS: &str = "fragments";
    /// Host-side interface index (`u32`) -> [`Endpoint`](crate::Endpoint). Hash.
    pub const ENDPOINTS: &str = "endpoints";
    /// [`Addr`](crate::Addr) -> identity (`u64`). Hash.
    pub const IDENTITIES: &str = "identities";
    /// [`RuleListKey`](crate::RuleListKey) -> [`RuleList`](crate::RuleList). Hash.
    pub const RULE_LISTS: &str = "rule_lists";
    /// [`PeerKey`](crate::PeerKey) -> [`Bits`](crate::Bits). Hash.
    pub const PEER_RULES: &str = "peer_rules";
    /// [`PortKey`](crate::PortKey) -> [`Bits`](crate::Bits). LPM trie.
    pub const PORT_RULES: &str = "port_rules";
    /// [`PrefixKey`](crate::PrefixKey) -> [`Bits`](crate::Bits). LPM trie.
    pub const PREFIXES: &str = "prefixes";
    /// `Reason as u32 * 2 + Direction as u32` -> [`Drops`](crate::Drops). Per-CPU array.
    pub const DROPS: &str = "drops";
    /// Ring buffer of [`FlowEvent`](crate::FlowEvent).
    pub const EVENTS: &str = "events";
    /// Index 0 -> [`Config`](crate::Config). Array.
    pub const CONFIG: &str = "config";

    /// Every map.
    pub const ALL: [&str; 15] = [
        FRONTENDS, SLOTS, BACKENDS, ORIGINS, CONNTRACK, FRAGMENTS, ENDPOINTS, IDENTITIES, RULE_LISTS, PEER_RULES,
        PORT_RULES, PREFIXES, DROPS, EVENTS, CONFIG,
    ];
}

/// Node-wide settings, read by every program. One entry, index 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Config {
    /// [`VERSION`] of the agent that wrote this.
    pub version: u32,
    /// Bits of [`config_flags`].
    pub flags: u32,
    /// The node's own IPv4 address (mapped), or all zero. Traffic from it to a local pod is always allowed, as the
    /// NetworkPolicy API says ("traffic to and from the node where a Pod is running is always allowed").
    pub node_addr4: Addr,
    /// The node's own IPv6 address, or all zero.
    pub node_addr6: Addr,
}

/// Flags of [`Config`].
pub mod config_flags {
    /// Record a flow event for every new allowed connection too, not only for drops.
    pub const EVENTS_ALLOWED: u32 = 1 << 0;
    /// The tc programs leave Services to the socket hooks. Off means that tc translates what the socket hooks did not.
    pub const NO_TC_SERVICES: u32 = 1 << 1;
}

const _: () = assert!(core::mem::size_of::<Config>() == 40);

#[cfg(feature = "user")]
mod user {
    use super::*;

    /// Marks each layout as plain data for aya.
    macro_rules! pod {
        ($($t:ty),* $(,)?) => {$(
            // SAFETY: repr(C), no implicit padding (size asserted beside the type), only integers and byte arrays.
            #[allow(unsafe_code, reason = "aya::Pod is an unsafe marker trait")]
            unsafe impl aya::Pod for $t {}
        )*};
    }

    pod!(
        Addr,
        Backend,
        Bits,
        Config,
        ConnKey,
        ConnValue,
        Drops,
        Endpoint,
        FlowEvent,
        FragmentKey,
        FragmentValue,
        Frontend,
        FrontendKey,
        OriginKey,
        OriginValue,
        PeerKey,
        RuleList,
        RuleListKey,
        SlotKey,
        PortKey,
        PrefixKey,
    );
}
