use crate::Addr;

/// Why a packet was not passed on, or a connection not made.
///
/// Index of the `drops` map (times two plus the [`Direction`](crate::Direction)) and `reason` of a [`FlowEvent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Reason {
    /// Not dropped.
    None = 0,
    /// No rule of a policy that selects the pod allows the connection.
    PolicyDenied = 1,
    /// The endpoint is closed because its policies could not be written ([`endpoint_flags::CLOSED`](crate::endpoint_flags::CLOSED)).
    EndpointClosed = 2,
    /// The source address is not the pod's own.
    SpoofedSource = 3,
    /// The Service has no endpoint: refused with RST, ICMP port unreachable or ECONNREFUSED.
    NoEndpoints = 4,
    /// The packet ended before its headers did, or its headers contradict each other.
    Malformed = 5,
    /// Neither IPv4, IPv6, ARP nor what they need.
    UnsupportedProtocol = 6,
    /// A fragment of a translated or policed flow whose first fragment was not seen.
    UnknownFragment = 7,
    /// Two Service addresses chose the same backend for one source port, and no other backend was free.
    SourceCollision = 8,
    /// A helper or map write failed in a way that leaves no right answer.
    MapError = 9,
    /// The interface belongs to no known endpoint, or a packet to it is for another address.
    UnknownEndpoint = 10,
    /// The Service's traffic policy is Local and this node has no endpoint of it.
    NoLocalEndpoints = 11,
    /// The client is in none of the Service's `loadBalancerSourceRanges`.
    SourceRange = 12,
    /// No source port was free for a connection that leaves with the node's address.
    NatExhausted = 13,
    /// No way to the destination is known (no route, or its link-layer address is not known yet).
    NoRoute = 14,
}

impl Reason {
    /// Number of reasons; the `drops` map has twice as many entries.
    pub const COUNT: u32 = 15;

    /// Every reason, in numeric order.
    pub const ALL: [Self; Self::COUNT as usize] = [
        Self::None,
        Self::PolicyDenied,
        Self::EndpointClosed,
        Self::SpoofedSource,
        Self::NoEndpoints,
        Self::Malformed,
        Self::UnsupportedProtocol,
        Self::UnknownFragment,
        Self::SourceCollision,
        Self::MapError,
        Self::UnknownEndpoint,
        Self::NoLocalEndpoints,
        Self::SourceRange,
        Self::NatExhausted,
        Self::NoRoute,
    ];

    /// The name shown to people and used as a metric label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::PolicyDenied => "policy_denied",
            Self::EndpointClosed => "endpoint_closed",
            Self::SpoofedSource => "spoofed_source",
            Self::NoEndpoints => "no_endpoints",
            Self::Malformed => "malformed",
            Self::UnsupportedProtocol => "unsupported_protocol",
            Self::UnknownFragment => "unknown_fragment",
            Self::SourceCollision => "source_collision",
            Self::MapError => "map_error",
            Self::UnknownEndpoint => "unknown_endpoint",
            Self::NoLocalEndpoints => "no_local_endpoints",
            Self::SourceRange => "source_range",
            Self::NatExhausted => "nat_exhausted",
            Self::NoRoute => "no_route",
        }
    }
}

/// Counters of one reason and direction on one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Drops {
    /// Packets (for socket hooks: connection attempts).
    pub packets: u64,
    /// Bytes, headers included.
    pub bytes: u64,
}

/// What became of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Verdict {
    /// Allowed; `list` and `rule` name what allowed it when a policy applied.
    Allowed = 0,
    /// Dropped or refused for [`FlowEvent::reason`].
    Dropped = 1,
}

/// A new connection that was allowed, or a packet that was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct FlowEvent {
    /// Nanoseconds of the kernel's boot-time clock.
    pub timestamp: u64,
    /// Identity of the other side, 0 when unknown.
    pub remote_identity: u64,
    /// The pod's own address.
    pub local: Addr,
    /// The other side, after translation.
    pub remote: Addr,
    /// The Service address that the pod asked for, or [`Addr::NONE`].
    pub service: Addr,
    /// [`Endpoint::id`](crate::Endpoint::id).
    pub endpoint: u32,
    /// Rule list that was asked, 0 for none.
    pub list: u32,
    /// Rule that decided, `u32::MAX` for none.
    pub rule: u32,
    /// Bytes of the packet.
    pub bytes: u32,
    /// Port of the pod, network byte order.
    pub local_port_be: u16,
    /// Port of the other side, network byte order.
    pub remote_port_be: u16,
    /// Port of `service`, network byte order.
    pub service_port_be: u16,
    /// IP protocol number.
    pub proto: u8,
    /// A [`Direction`](crate::Direction).
    pub direction: u8,
    /// A [`Verdict`].
    pub verdict: u8,
    /// A [`Reason`].
    pub reason: u8,
    /// Zero.
    pub pad: [u8; 6],
}

const _: () = {
    assert!(core::mem::size_of::<Drops>() == 16);
    assert!(core::mem::size_of::<FlowEvent>() == 96);
};
