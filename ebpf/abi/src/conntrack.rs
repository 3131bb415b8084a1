use crate::Addr;

/// A connection as one local pod sees it.
///
/// Keys are oriented by endpoint, not by packet: the hooks on a pod's interface see both directions, so one entry
/// serves both and no half of a pair can be evicted alone. A connection between two pods of one node has an entry for
/// each of them. The endpoint number is never reused while the node is up, so that a pod that gets the address of a
/// deleted one inherits nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct ConnKey {
    /// The pod's own address.
    pub local: Addr,
    /// The other side's address as the pod sees it on the wire; for an entry that translates a Service, the Service's.
    pub remote: Addr,
    /// [`Endpoint::id`](crate::Endpoint::id).
    pub endpoint: u32,
    /// The pod's port, network byte order; an ICMP echo identifier for ICMP.
    pub local_port_be: u16,
    /// The other side's port, network byte order; 0 for ICMP.
    pub remote_port_be: u16,
    /// IP protocol number.
    pub proto: u8,
    /// 0: the flow itself. 1: Service translation, `remote` is the Service's address.
    pub kind: u8,
    /// Zero.
    pub pad: u16,
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ConnValue {
    /// Expiry, nanoseconds of the kernel's boot-time clock (`bpf_ktime_get_boot_ns`).
    pub expires: u64,
    /// Packets that the pod sent.
    pub tx_packets: u64,
    /// Packets that the pod received. In a `kind` 1 entry, which counts what the pod sent only, the endpoint set that the
    /// backend was chosen from: [`Frontend::service`](crate::Frontend::service) in the upper half,
    /// [`Frontend::generation`](crate::Frontend::generation) in the lower.
    pub rx_packets: u64,
    /// The address on the other side of a translation: in a `kind` 0 entry the Service address that the pod asked for,
    /// in a `kind` 1 entry the backend. [`Addr::NONE`] when nothing is translated.
    pub nat_addr: Addr,
    /// Port to `nat_addr`, network byte order.
    pub nat_port_be: u16,
    /// A [`ConnState`].
    pub state: u8,
    /// Bits of [`conn_flags`].
    pub flags: u8,
    /// In a `kind` 1 entry the backend id. In a `kind` 0 entry the index of the interface behind which the other side is, when
    /// that is a pod and packets have come from it: another pod's of this node, or the one that leads to other nodes. Else 0.
    pub backend: u32,
}

/// State of a [`ConnValue`]; decides its expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ConnState {
    /// Packets in one direction only.
    New = 0,
    /// Packets in both directions.
    Established = 1,
    /// TCP FIN seen.
    Closing = 2,
    /// TCP RST seen, or FIN in both directions.
    Closed = 3,
}

/// Flags of [`ConnValue`].
pub mod conn_flags {
    /// The pod opened the connection (else the other side did).
    pub const OUTBOUND: u8 = 1 << 0;
    /// FIN seen from the pod.
    pub const FIN_TX: u8 = 1 << 1;
    /// FIN seen towards the pod.
    pub const FIN_RX: u8 = 1 << 2;
    /// A pod that reaches itself through a Service. In the `kind` 0 entry `remote` is the Service's address and
    /// `remote_port_be` the port that the pod connected from, as the serving half of the pod sees them.
    pub const HAIRPIN: u8 = 1 << 3;
    /// The other side's packets come in by the uplink.
    pub const BY_UPLINK: u8 = 1 << 4;
    /// The other side's packets come in by the overlay.
    pub const BY_OVERLAY: u8 = 1 << 5;
}

/// A translated socket: which Service address the program asked for when it reached a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct OriginKey {
    /// Socket cookie (`bpf_get_socket_cookie`).
    pub cookie: u64,
    /// Backend address.
    pub addr: Addr,
    /// Backend port, network byte order.
    pub port_be: u16,
    /// IP protocol number.
    pub proto: u8,
    /// Zero.
    pub pad: [u8; 5],
}

/// The Service address to an [`OriginKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct OriginValue {
    /// Service address.
    pub addr: Addr,
    /// Service port, network byte order.
    pub port_be: u16,
    /// Zero.
    pub pad: u16,
    /// The backend that was chosen.
    pub backend: u32,
    /// Cookie of the socket's network namespace, by which the agent finds it when the backend is gone.
    pub netns: u64,
}

/// A datagram in fragments, of which only the first has the ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct FragmentKey {
    /// Source address as in the packet.
    pub src: Addr,
    /// Destination address as in the packet.
    pub dst: Addr,
    /// [`Endpoint::id`](crate::Endpoint::id).
    pub endpoint: u32,
    /// Identification field, as in the packet.
    pub id: u32,
    /// IP protocol number.
    pub proto: u8,
    /// A [`Direction`](crate::Direction).
    pub direction: u8,
    /// Zero.
    pub pad: u16,
}

/// The ports to a [`FragmentKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct FragmentValue {
    /// Source port, network byte order.
    pub src_port_be: u16,
    /// Destination port, network byte order.
    pub dst_port_be: u16,
}

const _: () = {
    assert!(core::mem::size_of::<FragmentKey>() == 44);
    assert!(core::mem::size_of::<FragmentValue>() == 4);
    assert!(core::mem::size_of::<ConnKey>() == 44);
    assert!(core::mem::size_of::<ConnValue>() == 48);
    assert!(core::mem::size_of::<OriginKey>() == 32);
    assert!(core::mem::size_of::<OriginValue>() == 32);
};
