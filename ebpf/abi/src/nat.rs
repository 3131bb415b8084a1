use crate::Addr;

/// A packet's tuple as it meets the uplink program, before translation.
///
/// A translated connection has two entries, each of which says what becomes of packets in one direction. Each is found
/// from the other: the key of the reverse entry is the translated tuple with source and destination exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct NatKey {
    /// Source address.
    pub src: Addr,
    /// Destination address.
    pub dst: Addr,
    /// Source port, network byte order; an ICMP echo identifier for ICMP.
    pub src_port_be: u16,
    /// Destination port, network byte order; 0 for ICMP.
    pub dst_port_be: u16,
    /// IP protocol number.
    pub proto: u8,
    /// Zero.
    pub pad: [u8; 3],
}

/// What becomes of the packets of a [`NatKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct NatValue {
    /// Expiry, nanoseconds of the boot-time clock. The pair lives as long as one of its entries.
    pub expires: u64,
    /// Packets translated by this entry.
    pub packets: u64,
    /// New source address.
    pub src: Addr,
    /// New destination address.
    pub dst: Addr,
    /// New source port, network byte order; an ICMP echo identifier for ICMP.
    pub src_port_be: u16,
    /// New destination port, network byte order.
    pub dst_port_be: u16,
    /// A [`ConnState`](crate::ConnState), of the connection as this direction knows it.
    pub state: u8,
    /// Bits of [`nat_flags`].
    pub flags: u8,
    /// Zero.
    pub pad: u16,
    /// Id of the backend when a Service was translated, else 0.
    pub backend: u32,
    /// [`Frontend::service`](crate::Frontend::service) when a Service was translated, else 0.
    pub service: u32,
}

/// Flags of [`NatValue`].
pub mod nat_flags {
    /// This entry is the direction of the packet that opened the connection.
    pub const FORWARD: u8 = 1 << 0;
    /// The source port was allocated on this node.
    pub const SNAT: u8 = 1 << 1;
    /// Nothing is rewritten: packets go on to the backend's node as they are, which answers the client itself (direct
    /// server return). There is no reverse entry; `dst` is that node's address.
    pub const DSR: u8 = 1 << 2;
}

/// An address of one of the cluster's nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct NodeAddr {
    /// Bits of [`node_addr_flags`].
    pub flags: u32,
}

/// Flags of [`NodeAddr`].
pub mod node_addr_flags {
    /// It is this node's.
    pub const LOCAL: u32 = 1 << 0;
    /// A loopback address: node ports are there for processes of the host only, not for pods, which have their own.
    pub const HOST_ONLY: u32 = 1 << 1;
}

/// Data of an LPM key of `routes`; the prefix length, kept beside it, counts in the 128-bit address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct RouteKey {
    /// The address.
    pub addr: Addr,
}

/// What is known about addresses of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Route {
    /// Address of the node behind which they are; [`Addr::NONE`] when that is this node or nobody.
    pub node: Addr,
    /// Bits of [`route_flags`].
    pub flags: u32,
    /// Zero.
    pub pad: u32,
}

/// Flags of [`Route`].
pub mod route_flags {
    /// Pods of this node.
    pub const LOCAL_PODS: u32 = 1 << 0;
    /// Pods of another node.
    pub const REMOTE_PODS: u32 = 1 << 1;
    /// Not a pod's, and yet reached with the pod's own address: no masquerade.
    pub const NO_MASQUERADE: u32 = 1 << 2;
}

/// Things that are counted beside drops. Index of the `counters` map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Counter {
    /// Source ports allocated.
    SnatAllocated = 0,
    /// Source ports tried that were in use.
    SnatRetried = 1,
    /// Connections that found no free source port.
    SnatExhausted = 2,
    /// Connections from outside that were given a backend.
    ExternalConnections = 3,
    /// Packets from pods that were given the node's address.
    Masqueraded = 4,
    /// Packets sent to another node for it to answer the client itself.
    DirectReturn = 5,
    /// Packets that left by the overlay.
    Encapsulated = 6,
    /// Packets that came by the overlay.
    Decapsulated = 7,
    /// ARP requests and neighbour solicitations answered for load balancer addresses.
    NeighbourAnswers = 8,
    /// Datagram flows moved to another backend because theirs was gone.
    Moved = 9,
    /// Packets of known flows that left for pods of other nodes past this node's routing.
    RedirectedOut = 10,
    /// Packets of known flows from other machines that went into their pod at once.
    RedirectedIn = 11,
    /// Packets of known flows from other machines that went to their pod's interface past this node's routing.
    RedirectedToPod = 12,
    /// Packets that did not fit into the overlay and whose senders were told.
    TooBig = 13,
    /// Packets of known flows sent on at the driver of the uplink (XDP).
    XdpForwarded = 14,
}

impl Counter {
    /// Number of counters.
    pub const COUNT: u32 = 15;

    /// Every counter, in numeric order.
    pub const ALL: [Self; Self::COUNT as usize] = [
        Self::SnatAllocated,
        Self::SnatRetried,
        Self::SnatExhausted,
        Self::ExternalConnections,
        Self::Masqueraded,
        Self::DirectReturn,
        Self::Encapsulated,
        Self::Decapsulated,
        Self::NeighbourAnswers,
        Self::Moved,
        Self::RedirectedOut,
        Self::RedirectedIn,
        Self::RedirectedToPod,
        Self::TooBig,
        Self::XdpForwarded,
    ];

    /// The name shown to people and used as a metric label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SnatAllocated => "snat_allocated",
            Self::SnatRetried => "snat_retried",
            Self::SnatExhausted => "snat_exhausted",
            Self::ExternalConnections => "external_connections",
            Self::Masqueraded => "masqueraded",
            Self::DirectReturn => "direct_return",
            Self::Encapsulated => "encapsulated",
            Self::Decapsulated => "decapsulated",
            Self::NeighbourAnswers => "neighbour_answers",
            Self::Moved => "moved",
            Self::RedirectedOut => "redirected_out",
            Self::RedirectedIn => "redirected_in",
            Self::RedirectedToPod => "redirected_to_pod",
            Self::TooBig => "too_big",
            Self::XdpForwarded => "xdp_forwarded",
        }
    }
}

const _: () = {
    assert!(core::mem::size_of::<NatKey>() == 40);
    assert!(core::mem::size_of::<NatValue>() == 64);
    assert!(core::mem::size_of::<NodeAddr>() == 4);
    assert!(core::mem::size_of::<RouteKey>() == 16);
    assert!(core::mem::size_of::<Route>() == 24);
};
