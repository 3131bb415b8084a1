//! Lookup of Services and choice of a backend.

use skep_abi::{
    Addr, AffinityValue, Backend, BackendState, Config, Frontend, FrontendKey, NodeAddr, OriginKey, Reason,
    config_flags, frontend_flags, node_addr_flags,
};

use crate::conn::SECOND;
use crate::packet::Packet;

/// Slots that are looked at for one connection before the search is given up.
///
/// More than one, because an endpoint set may hold terminating backends or name one that was removed this moment.
pub const ATTEMPTS: u32 = 8;

/// Slots that are looked at to find out whether a backend is still in a set. In a set that is larger, a backend whose slot
/// has moved by more than half of this counts as gone.
pub const SEARCHED: u32 = 256;

/// Where a choice begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub u32);

impl Seed {
    /// The seed for a choice that remembers nothing: `random` unless the Service wants a client to stay, then a hash of the
    /// `client`.
    #[inline(always)]
    pub fn new(frontend: &Frontend, random: u32, client: u64) -> Self {
        if frontend.flags & frontend_flags::AFFINITY != 0 {
            Self::sticky(frontend.service, client)
        } else {
            Self(random)
        }
    }

    /// A seed that is the same for the same client and Service.
    #[inline(always)]
    pub fn sticky(service: u32, client: u64) -> Self {
        Self(mix(client ^ ((service as u64) << 32)))
    }

    /// A seed that is the same for all connections of a client to a Service.
    #[inline(always)]
    pub fn of_client(frontend: &Frontend, addr: &Addr) -> Self {
        Self::sticky(frontend.service, client(addr))
    }

    /// A seed that is the same for all packets of a connection, whichever node they come to.
    #[inline(always)]
    pub fn of_tuple(packet: &Packet) -> Self {
        let ports = (packet.src_port_be as u64) << 32 | (packet.dst_port_be as u64) << 16 | packet.proto as u64;
        let addrs = client(&packet.src).rotate_left(23) ^ client(&packet.dst);
        Self(mix(addrs ^ (mix(ports) as u64) << 7))
    }

    /// A seed of a socket that has no tuple yet: the numbers of its network namespace and of itself.
    #[inline(always)]
    pub fn of_socket(service: u32, netns: u64, cookie: u64) -> Self {
        Self::sticky(service, netns.rotate_left(40) ^ cookie)
    }

    /// The slot to look at in the `attempt`-th try; `count` must not be 0.
    #[inline(always)]
    pub fn index(self, attempt: u32, count: u32) -> u32 {
        // The high half of the product maps 32 bits evenly onto the count without a division by a variable.
        let first = ((self.0 as u64 * count as u64) >> 32) as u32;
        let index = first.wrapping_add(attempt);
        // One subtraction wraps: attempts beyond the count would only repeat slots that were seen.
        if index >= count { index.wrapping_sub(count) } else { index }
    }
}

/// The `step`-th slot of a search that begins at `hint` and goes on to both sides. `count` must not be 0; the steps below it
/// are each of the slots once.
#[inline(always)]
pub fn around(hint: u32, step: u32, count: u32) -> u32 {
    let start = if hint < count { hint } else { count - 1 };
    let distance = step.div_ceil(2);
    if step & 1 == 1 {
        // Endpoints that go let those behind them move down: this side comes first.
        if start >= distance { start - distance } else { start.wrapping_sub(distance).wrapping_add(count) }
    } else {
        let index = start.wrapping_add(distance);
        if index >= count { index.wrapping_sub(count) } else { index }
    }
}

/// A client's number for [`Seed::sticky`] out of its address.
#[inline(always)]
pub fn client(addr: &Addr) -> u64 {
    let a = &addr.0;
    let high = u64::from_ne_bytes([a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]]);
    let low = u64::from_ne_bytes([a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15]]);
    high.rotate_left(29) ^ low
}

/// The client that stands for a network namespace where sockets have no address yet (see
/// [`AffinityKey::client`](skep_abi::AffinityKey::client)).
#[inline(always)]
pub fn netns_client(cookie: u64) -> Addr {
    let c = cookie.to_ne_bytes();
    Addr([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]])
}

/// Whether a client's last connection was recent enough for it to stay. Each new connection begins the time anew, as
/// kube-proxy's rules have it (`recent --rcheck --seconds`, then `--set`).
#[inline(always)]
pub fn is_remembered(value: &AffinityValue, frontend: &Frontend, now: u64) -> bool {
    now.saturating_sub(value.last_used) < frontend.affinity_timeout as u64 * SECOND
}

/// Whether a port may be a node port.
#[inline(always)]
pub fn is_node_port(config: &Config, port_be: u16) -> bool {
    let port = u16::from_be(port_be);
    config.node_port_first <= port && port <= config.node_port_last
}

/// Whether a node's address has node ports for this client.
#[inline(always)]
pub fn has_node_ports(node: &NodeAddr, host: bool) -> bool {
    host || node.flags & node_addr_flags::HOST_ONLY == 0
}

/// The address under which node ports of the same family are found.
#[inline(always)]
pub fn wildcard(addr: &Addr) -> Addr {
    if addr.is_v4() { FrontendKey::ANY4 } else { FrontendKey::ANY6 }
}

/// Whether the client is in the host's network namespace, which must be known.
#[inline(always)]
pub fn is_host(config: &Config, netns: u64) -> bool {
    config.host_netns != 0 && config.host_netns == netns
}

/// Whether connected datagram sockets of a namespace are left to the packet programs, which can move them to another backend
/// when theirs goes. Only pods have packet programs.
#[inline(always)]
pub fn leaves_datagrams(config: &Config, netns: u64) -> bool {
    config.flags & config_flags::NO_TC_SERVICES == 0 && config.host_netns != 0 && config.host_netns != netns
}

/// Why a Service that has no backend to give refuses.
#[inline(always)]
pub fn refusal(frontend: &Frontend) -> Reason {
    if frontend.flags & frontend_flags::LOCAL != 0 { Reason::NoLocalEndpoints } else { Reason::NoEndpoints }
}

/// The endpoint set of a frontend as one number: a flow that notes it knows whether the set has changed since.
#[inline(always)]
pub fn set_of(frontend: &Frontend) -> u64 {
    (frontend.service as u64) << 32 | frontend.generation as u64
}

/// Whether a backend takes new connections.
#[inline(always)]
pub fn is_active(backend: &Backend) -> bool {
    backend.state == BackendState::Active as u8
}

/// What to do with a backend that a slot named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fitness {
    /// Take it.
    Take,
    /// Take it when no better one is found.
    LastResort,
}

/// Judges a candidate.
#[inline(always)]
pub fn fitness(backend: &Backend) -> Fitness {
    if is_active(backend) { Fitness::Take } else { Fitness::LastResort }
}

/// The key under which a socket's translation is remembered.
#[inline(always)]
pub fn origin_key(cookie: u64, backend: &Addr, port_be: u16, proto: u8) -> OriginKey {
    OriginKey { cookie, addr: *backend, port_be, proto, pad: [0; 5] }
}

/// Spreads 64 bits over 32 (the finaliser of MurmurHash3).
#[inline(always)]
fn mix(mut x: u64) -> u32 {
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^= x >> 33;
    x as u32
}

#[cfg(test)]
mod tests;
