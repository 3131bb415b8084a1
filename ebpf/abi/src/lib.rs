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
mod nat;
mod policy;
mod service;

pub use addr::Addr;
pub use conntrack::{ConnKey, ConnState, ConnValue, FragmentKey, FragmentValue, OriginKey, OriginValue, conn_flags};
pub use event::{Drops, FlowEvent, Reason, Verdict};
pub use nat::{Counter, NatKey, NatValue, NodeAddr, Route, RouteKey, nat_flags, node_addr_flags, route_flags};
pub use policy::{
    Bits, Direction, Endpoint, PeerKey, PortKey, PrefixKey, RuleList, RuleListKey, endpoint_flags, rule_list_flags,
};
pub use service::{
    AffinityKey, AffinityValue, Backend, BackendState, Frontend, FrontendKey, SlotKey, SourceRangeKey, backend_flags,
    frontend_flags, scope,
};

/// Version of every layout in this crate; part of the pin directory's name.
pub const VERSION: u32 = 3;

/// UDP port of the overlay, host byte order: what Linux used before a port was assigned, so that a VXLAN of somebody else on
/// port 4789 is not in the way.
pub const OVERLAY_PORT: u16 = 8472;

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
    /// [`ConnKey`](crate::ConnKey) -> [`ConnValue`](crate::ConnValue). Hash.
    pub const CONNTRACK: &str = "conntrack";
    /// [`FragmentKey`](crate::FragmentKey) -> [`FragmentValue`](crate::FragmentValue). LRU hash.
    pub const FRAGMENTS: &str = "fragments";
    /// Host-side interface index (`u32`) -> [`Endpoint`](crate::Endpoint). Hash.
    pub const ENDPOINTS: &str = "endpoints";
    /// [`Addr`](crate::Addr) -> identity (`u64`). Hash.
    pub const IDENTITIES: &str = "identities";
    /// Identity (`u64`) -> its tail (`u64`): more bits of the hash that it is, which the overlay carries with it. Only identities
    /// that mean the same on every node are there. Hash.
    pub const IDENTITY_TAILS: &str = "identity_tails";
    /// [`RuleListKey`](crate::RuleListKey) -> [`RuleList`](crate::RuleList). Hash.
    pub const RULE_LISTS: &str = "rule_lists";
    /// [`PeerKey`](crate::PeerKey) -> [`Bits`](crate::Bits). Hash.
    pub const PEER_RULES: &str = "peer_rules";
    /// [`PortKey`](crate::PortKey) -> [`Bits`](crate::Bits). LPM trie.
    pub const PORT_RULES: &str = "port_rules";
    /// [`PrefixKey`](crate::PrefixKey) -> [`Bits`](crate::Bits). LPM trie.
    pub const PREFIXES: &str = "prefixes";
    /// [`AffinityKey`](crate::AffinityKey) -> [`AffinityValue`](crate::AffinityValue). LRU hash.
    pub const AFFINITY: &str = "affinity";
    /// [`SourceRangeKey`](crate::SourceRangeKey) -> 1 (`u32`). LPM trie.
    pub const SOURCE_RANGES: &str = "source_ranges";
    /// [`NatKey`](crate::NatKey) -> [`NatValue`](crate::NatValue). Hash; the agent removes pairs that have expired.
    pub const NAT: &str = "nat";
    /// [`Addr`](crate::Addr) -> [`NodeAddr`](crate::NodeAddr). Hash.
    pub const NODE_ADDRS: &str = "node_addrs";
    /// [`RouteKey`](crate::RouteKey) -> [`Route`](crate::Route). LPM trie.
    pub const ROUTES: &str = "routes";
    /// [`Addr`](crate::Addr) -> 1 (`u32`): load balancer addresses for which this node answers ARP and NDP. Hash.
    pub const ANNOUNCED: &str = "announced";
    /// [`Frontend::service`](crate::Frontend::service) -> connections given a backend (`u64`). Per-CPU hash; programs make
    /// the entries.
    pub const SERVICE_HITS: &str = "service_hits";
    /// [`Counter`](crate::Counter) as `u32` -> `u64`. Per-CPU array.
    pub const COUNTERS: &str = "counters";
    /// `Reason as u32 * 2 + Direction as u32` -> [`Drops`](crate::Drops). Per-CPU array.
    pub const DROPS: &str = "drops";
    /// Ring buffer of [`FlowEvent`](crate::FlowEvent).
    pub const EVENTS: &str = "events";
    /// Index 0 -> [`Config`](crate::Config). Array.
    pub const CONFIG: &str = "config";

    /// Every map.
    pub const ALL: [&str; 24] = [
        FRONTENDS,
        SLOTS,
        BACKENDS,
        AFFINITY,
        SOURCE_RANGES,
        SERVICE_HITS,
        ORIGINS,
        CONNTRACK,
        FRAGMENTS,
        NAT,
        NODE_ADDRS,
        ROUTES,
        ANNOUNCED,
        ENDPOINTS,
        IDENTITIES,
        IDENTITY_TAILS,
        RULE_LISTS,
        PEER_RULES,
        PORT_RULES,
        PREFIXES,
        DROPS,
        COUNTERS,
        EVENTS,
        CONFIG,
    ];
}

/// Node-wide settings, read by every program. One entry, index 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// Cookie of the host's network namespace (`SO_NETNS_COOKIE`), 0 when unknown.
    pub host_netns: u64,
    /// First node port, host byte order.
    pub node_port_first: u16,
    /// Last node port, inclusive, host byte order.
    pub node_port_last: u16,
    /// First source port for connections that leave with the node's address, host byte order.
    pub snat_port_first: u16,
    /// Last such port, inclusive, host byte order.
    pub snat_port_last: u16,
    /// Index of the overlay's interface, 0 for direct routes.
    pub tunnel_ifindex: u32,
    /// Index of the interface that leads to other nodes and out of the cluster, 0 when there is none.
    pub uplink_ifindex: u32,
    /// Link-layer address of that interface, with which load balancer addresses are announced.
    pub uplink_mac: [u8; 6],
    /// Zero.
    pub pad: [u8; 2],
}

/// Flags of [`Config`].
pub mod config_flags {
    /// Record a flow event for every new allowed connection too, not only for drops.
    pub const EVENTS_ALLOWED: u32 = 1 << 0;
    /// The tc programs leave Services to the socket hooks. Off means that tc translates what the socket hooks did not.
    pub const NO_TC_SERVICES: u32 = 1 << 1;
    /// Pod traffic that leaves the cluster gets the node's address.
    pub const MASQUERADE: u32 = 1 << 2;
    /// Connections from outside to a backend on another node are answered by that node (direct server return); off means
    /// that they get this node's address and come back through it.
    pub const DSR: u32 = 1 << 3;
    /// The uplink is one side of a veth pair: what XDP sends out of it again is redirected to it. Frames that are sent back the
    /// plain way lie about until something else wakes the other side up, unless that has a program of its own.
    pub const XDP_REDIRECT: u32 = 1 << 4;
}

const _: () = assert!(core::mem::size_of::<Config>() == 72);

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
        AffinityKey,
        AffinityValue,
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
        NatKey,
        NatValue,
        NodeAddr,
        OriginKey,
        OriginValue,
        PeerKey,
        RuleList,
        RuleListKey,
        Route,
        RouteKey,
        SlotKey,
        SourceRangeKey,
        PortKey,
        PrefixKey,
    );
}
