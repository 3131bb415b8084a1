use crate::Addr;

/// Where a Service is reached: one entry for each address and port of it, and for each [`scope`] that may use it.
///
/// A node port has the wildcard of its family as address ([`FrontendKey::ANY4`], [`FrontendKey::ANY6`]): a packet to a
/// port in [`Config::node_port_first`](crate::Config::node_port_first)`..=`[`node_port_last`](crate::Config::node_port_last)
/// that no exact entry matches is looked up under it when its address is in `node_addrs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct FrontendKey {
    /// The virtual address.
    pub addr: Addr,
    /// Port, network byte order.
    pub port_be: u16,
    /// IP protocol number: 6, 17 or 132.
    pub proto: u8,
    /// Who may use the entry: a value of [`scope`].
    pub scope: u8,
}

impl FrontendKey {
    /// Address of a node port's IPv4 entry.
    pub const ANY4: Addr = Addr::v4([0; 4]);
    /// Address of a node port's IPv6 entry.
    pub const ANY6: Addr = Addr::NONE;
}

/// Who may use a frontend.
pub mod scope {
    /// Pods and processes of the cluster's nodes. External addresses have an entry here too, with every endpoint of the
    /// Service whatever `externalTrafficPolicy` says: clients within the cluster are short-circuited (KEP-1669,
    /// KEP-2086).
    pub const INTERNAL: u8 = 0;
    /// Packets that come in by the node's uplink. Cluster IPs have no entry here.
    pub const EXTERNAL: u8 = 1;
}

/// What a Service's address stands for at this moment.
///
/// The agent writes the slots of a new generation first and then this value: a packet sees one whole set or the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Frontend {
    /// Node-local number of the endpoint set. Frontends with the same set of endpoints (those of the internal and of the
    /// external scope, say) share it.
    pub service: u32,
    /// Generation of the slots to use.
    pub generation: u32,
    /// Number of slots; 0 refuses connections.
    pub count: u32,
    /// Bits of [`frontend_flags`].
    pub flags: u32,
    /// Session affinity timeout, seconds; 0 is none.
    pub affinity_timeout: u32,
}

/// Flags of [`Frontend`].
pub mod frontend_flags {
    /// Session affinity by client: `affinity` remembers the choice.
    pub const AFFINITY: u32 = 1 << 0;
    /// Only clients in `source_ranges` may use it (`loadBalancerSourceRanges`); of the external scope.
    pub const SOURCE_RANGES: u32 = 1 << 1;
    /// The slots are a Maglev table: a choice is a hash of the connection's tuple and not a random number, so that every
    /// node chooses the same.
    pub const MAGLEV: u32 = 1 << 2;
    /// Traffic policy Local: the slots hold this node's endpoints only, and the client's address is kept. Without slots
    /// there may be endpoints elsewhere: the packet is dropped as [`Reason::NoLocalEndpoints`](crate::Reason::NoLocalEndpoints)
    /// in the external scope and refused in the internal one.
    pub const LOCAL: u32 = 1 << 3;
    /// The address is external: that of a node port, a load balancer, `externalIPs`, a host port.
    pub const EXTERNAL_ADDR: u32 = 1 << 4;
    /// A host port: its only backend is a pod of this node.
    pub const HOST_PORT: u32 = 1 << 5;
}

/// One place in a Service's endpoint set; its value in the map is a backend id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct SlotKey {
    /// [`Frontend::service`].
    pub service: u32,
    /// [`Frontend::generation`].
    pub generation: u32,
    /// `0..Frontend::count`.
    pub index: u32,
}

/// An address and port behind one or more Services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Backend {
    /// Address of the pod, or of the node of a host-network pod.
    pub addr: Addr,
    /// Address of the node that it runs on, of the same family; [`Addr::NONE`] when that is this node or unknown.
    pub node: Addr,
    /// Port, network byte order.
    pub port_be: u16,
    /// IP protocol number.
    pub proto: u8,
    /// A [`BackendState`].
    pub state: u8,
    /// Bits of [`backend_flags`].
    pub flags: u32,
}

/// Flags of [`Backend`].
pub mod backend_flags {
    /// It runs on this node.
    pub const LOCAL: u32 = 1 << 0;
    /// Its address is a node's own: a host-network pod, or the API server.
    pub const HOST: u32 = 1 << 1;
}

/// State of a [`Backend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BackendState {
    /// Takes new connections.
    Active = 0,
    /// Serves the connections that it has; no new ones.
    Terminating = 1,
}

/// Who is to stay with a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct AffinityKey {
    /// The client's address; for sockets, which have none yet, the cookie of the network namespace in the last 8 bytes
    /// after 8 bytes of `0xff` (a multicast address, which no client has).
    pub client: Addr,
    /// [`Frontend::service`].
    pub service: u32,
}

/// The backend to an [`AffinityKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct AffinityValue {
    /// When a connection last used it, nanoseconds of the boot-time clock.
    pub last_used: u64,
    /// Id of the backend.
    pub backend: u32,
    /// Index of the slot that it was found in: where to look first whether it is still in the set.
    pub slot: u32,
}

/// Data of an LPM key: clients that may use an endpoint set. The prefix length, kept beside it, is
/// [`SourceRangeKey::BASE_BITS`] plus the length of the prefix in the 128-bit address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct SourceRangeKey {
    /// [`Frontend::service`].
    pub service: u32,
    /// The client's address.
    pub addr: Addr,
}

impl SourceRangeKey {
    /// Prefix length of the service alone.
    pub const BASE_BITS: u32 = 32;
}

const _: () = {
    assert!(core::mem::size_of::<FrontendKey>() == 20);
    assert!(core::mem::size_of::<Frontend>() == 20);
    assert!(core::mem::size_of::<SlotKey>() == 12);
    assert!(core::mem::size_of::<Backend>() == 40);
    assert!(core::mem::size_of::<AffinityKey>() == 20);
    assert!(core::mem::size_of::<AffinityValue>() == 16);
    assert!(core::mem::size_of::<SourceRangeKey>() == 20);
};
