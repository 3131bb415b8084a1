use crate::Addr;

/// Where a Service is reached: one entry for each address and port of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct FrontendKey {
    /// The virtual address.
    pub addr: Addr,
    /// Port, network byte order.
    pub port_be: u16,
    /// IP protocol number: 6, 17 or 132.
    pub proto: u8,
    /// Who may use the entry: 0 everybody. Other values are kept for Local traffic policies.
    pub scope: u8,
}

/// What a Service's address stands for at this moment.
///
/// The agent writes the slots of a new generation first and then this value: a packet sees one whole set or the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Frontend {
    /// Node-local number of the Service port.
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
    /// Session affinity by client address.
    pub const AFFINITY: u32 = 1 << 0;
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

/// A pod's address and port behind one or more Services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Backend {
    /// Address of the pod.
    pub addr: Addr,
    /// Port, network byte order.
    pub port_be: u16,
    /// IP protocol number.
    pub proto: u8,
    /// A [`BackendState`].
    pub state: u8,
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

const _: () = {
    assert!(core::mem::size_of::<FrontendKey>() == 20);
    assert!(core::mem::size_of::<Frontend>() == 20);
    assert!(core::mem::size_of::<SlotKey>() == 12);
    assert!(core::mem::size_of::<Backend>() == 20);
};
