//! Service translation for packets that the socket hooks did not see.

use aya_ebpf::helpers::bpf_get_prandom_u32;
use skep_abi::{Addr, BackendState, ConnValue, Frontend, Reason, config_flags, conn_flags};
use skep_verdict::conn;
use skep_verdict::packet::tcp_flags;
use skep_verdict::proto;
use skep_verdict::service::{Seed, client};

use super::scratch::Scratch;
use super::track;
use crate::{maps, select};

/// Choices that are made before a source collision is given up on.
const COLLISION_TRIES: u32 = 4;

/// What a Service makes of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Outcome {
    /// The address is no Service's.
    NotAService,
    /// It is one that has no endpoint.
    NoEndpoints,
    /// `s.key` is the flow to the backend, `s.service` the Service, `s.backend` the backend; `s.hairpin` says whether that
    /// is the pod itself.
    Translated,
    /// Every backend that was tried has a flow from the same source port for another Service address.
    Collision,
}

/// Finds the backend of the packet in `s`, whose key is in `s.key`.
#[inline(never)]
pub(crate) fn translate(s: &mut Scratch) -> Outcome {
    let off = track::config().is_some_and(|config| config.flags & config_flags::NO_TC_SERVICES != 0);
    if off || !matches!(s.packet.proto, proto::TCP | proto::UDP) {
        return Outcome::NotAService;
    }
    s.service_key = s.key;
    s.service_key.kind = conn::SERVICE;
    if let Some(known) = track::find(&s.service_key, s) {
        if keeps(known, s) {
            towards(s, &known.nat_addr, known.nat_port_be, known.backend);
            return Outcome::Translated;
        }
    }
    let Some(frontend) = select::frontend(&s.packet.dst, s.packet.dst_port_be, s.packet.proto) else {
        return Outcome::NotAService;
    };
    choose(s, frontend)
}

/// Whether a flow stays with the backend that it has. A datagram flow and a connection that is only being opened leave a
/// backend that takes no new ones.
#[inline(always)]
fn keeps(known: &ConnValue, s: &Scratch) -> bool {
    let opens = s.packet.proto == proto::UDP || s.packet.tcp(tcp_flags::SYN | tcp_flags::ACK, tcp_flags::SYN);
    !opens || select::backend(known.backend).is_some_and(|backend| backend.state == BackendState::Active as u8)
}

/// Makes a new choice. Another Service address may already use the same source port towards the backend: replies could
/// then not be told apart, so that another backend is chosen.
#[inline(always)]
fn choose(s: &mut Scratch, frontend: &Frontend) -> Outcome {
    for _ in 0..COLLISION_TRIES {
        // SAFETY: no arguments, no preconditions.
        let random = unsafe { bpf_get_prandom_u32() };
        let (id, chosen) = select::choose(frontend, Seed::new(frontend, random, client(&s.packet.src)));
        let Some(backend) = chosen else { return Outcome::NoEndpoints };
        towards(s, &backend.addr, backend.port_be, id);
        let free = match track::find(&s.key, s) {
            None => true,
            Some(flow) => flow.nat_addr == s.service && flow.nat_port_be == s.service_port_be,
        };
        if free {
            return Outcome::Translated;
        }
        s.key.remote = s.packet.dst;
        s.key.remote_port_be = s.packet.dst_port_be;
        s.key.local_port_be = s.packet.src_port_be;
    }
    Outcome::Collision
}

/// Turns `s.key` to the backend.
#[inline(always)]
fn towards(s: &mut Scratch, addr: &Addr, port_be: u16, backend: u32) {
    s.service = s.packet.dst;
    s.service_port_be = s.packet.dst_port_be;
    s.backend = backend;
    s.hairpin = u32::from(*addr == s.packet.src);
    if s.hairpin != 0 {
        s.key.local_port_be = port_be;
        s.key.remote_port_be = s.packet.src_port_be;
    } else {
        s.key.remote = *addr;
        s.key.remote_port_be = port_be;
    }
}

/// Writes or refreshes the entry that keeps the flow with its backend, in step with the flow's own entry.
#[inline(always)]
pub(crate) fn remember(s: &Scratch, flow: &ConnValue) -> Result<(), Reason> {
    let (hairpin, backend) = (s.hairpin != 0, s.backend);
    if let Some(known) = maps::conntrack.get_ptr_mut(&s.service_key) {
        // SAFETY: as in `track::find`.
        unsafe {
            if (*known).backend == backend && (*known).expires > s.now {
                (*known).expires = flow.expires;
                (*known).state = flow.state;
                (*known).tx_packets = (*known).tx_packets.wrapping_add(1);
                return Ok(());
            }
        }
    }
    let mut value = *flow;
    value.nat_addr = if hairpin { s.packet.src } else { s.key.remote };
    value.nat_port_be = if hairpin { s.key.local_port_be } else { s.key.remote_port_be };
    value.backend = backend;
    value.flags = conn_flags::OUTBOUND | if hairpin { conn_flags::HAIRPIN } else { 0 };
    maps::conntrack.insert(&s.service_key, &value, 0).map_err(|_| Reason::MapError)
}
