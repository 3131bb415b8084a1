//! Service translation for packets that the socket hooks did not see.

use skep_abi::{Addr, ConnValue, Counter, Frontend, Reason, config_flags, conn_flags, scope};
use skep_verdict::service::{self, Seed};
use skep_verdict::{conn, proto};

use super::scratch::Scratch;
use super::track;
use crate::{maps, record, select};

/// Choices that are made before a source collision is given up on.
const COLLISION_TRIES: u32 = 4;

/// What a Service makes of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Outcome {
    /// The address is no Service's.
    NotAService,
    /// It is one that has no endpoint, or none that may be used.
    Refused,
    /// `s.key` is the flow to the backend, `s.service` the Service, `s.backend` the backend; `s.hairpin` says whether that
    /// is the pod itself.
    Translated,
    /// Every backend that was tried has a flow from the same source port for another Service address.
    Collision,
}

/// Finds the backend of the packet in `s`, whose key is in `s.key`. When there is none, `s.refusal` says why.
#[inline(never)]
pub(crate) fn translate(s: &mut Scratch) -> Outcome {
    if !is_translated(s) {
        return Outcome::NotAService;
    }
    s.service_key = s.key;
    s.service_key.kind = conn::SERVICE;
    let known = track::find(&s.service_key, s);
    if let Some(known) = &known {
        // An open connection stays whatever becomes of the Service.
        if !conn::opens(&s.packet) {
            s.set = known.rx_packets;
            towards(s, &known.nat_addr, known.nat_port_be, known.backend);
            return Outcome::Translated;
        }
    }
    let Some(frontend) = frontend(s) else { return Outcome::NotAService };
    s.set = service::set_of(frontend);
    let mut before = 0;
    let mut there = false;
    if let Some(known) = &known {
        before = known.backend;
        there = keeps(frontend, known, s);
        if there && select::backend(before).is_some_and(service::is_active) {
            towards(s, &known.nat_addr, known.nat_port_be, before);
            return Outcome::Translated;
        }
    }
    let outcome = choose(s, frontend);
    if let (Outcome::Translated, Some(known)) = (outcome, known) {
        // When all that is left is on its way out, changing from one to the other helps nobody.
        if there && !select::backend(s.backend).is_some_and(service::is_active) {
            s.key = s.service_key;
            s.key.kind = conn::FLOW;
            towards(s, &known.nat_addr, known.nat_port_be, before);
        } else if s.backend != before {
            record::tally(Counter::Moved);
        }
    }
    outcome
}

/// Whether the address that a flow goes to has become a Service's since: a datagram socket that was in use before its Service
/// was there would else never reach it. Only flows that nobody has answered are asked about.
#[inline(never)]
pub(crate) fn has_come(s: &Scratch) -> bool {
    is_translated(s) && frontend(s).is_some()
}

/// Whether packets of this kind are translated here at all.
#[inline(always)]
fn is_translated(s: &Scratch) -> bool {
    let off = track::config().is_some_and(|config| config.flags & config_flags::NO_TC_SERVICES != 0);
    !off && matches!(s.packet.proto, proto::TCP | proto::UDP)
}

#[inline(always)]
fn frontend(s: &Scratch) -> Option<&'static Frontend> {
    select::frontend(&s.packet.dst, s.packet.dst_port_be, s.packet.proto, scope::INTERNAL, false)
}

/// Whether the backend of a known flow is still in the endpoint set.
#[inline(always)]
fn keeps(frontend: &Frontend, known: &ConnValue, s: &Scratch) -> bool {
    if known.rx_packets == s.set {
        return true;
    }
    // Where the flow's place in the table is, should it be one that is entered by hash.
    let hint = Seed::of_tuple(&s.packet).index(0, frontend.count);
    select::has(frontend, known.backend, hint)
}

/// Makes a new choice. Another Service address may already use the same source port towards the backend: replies could
/// then not be told apart, so that another backend is chosen.
#[inline(never)]
fn choose(s: &mut Scratch, frontend: &Frontend) -> Outcome {
    let seed = select::seed(frontend, &s.packet.src, || Seed::of_tuple(&s.packet));
    let (mut id, mut chosen) = select::choose_for(frontend, &s.packet.src, seed);
    for attempt in 1..=COLLISION_TRIES {
        let Some(backend) = chosen else {
            s.refusal = service::refusal(frontend);
            return Outcome::Refused;
        };
        towards(s, &backend.addr, backend.port_be, id);
        let free = match track::find(&s.key, s) {
            None => true,
            Some(flow) => {
                (flow.nat_addr == s.service && flow.nat_port_be == s.service_port_be) || track::gives_way(flow, s)
            }
        };
        // Where every backend is taken, a datagram flow takes the place of the one before it rather than be dropped.
        if free || (attempt == COLLISION_TRIES && s.packet.proto == proto::UDP) {
            return Outcome::Translated;
        }
        s.key = s.service_key;
        s.key.kind = conn::FLOW;
        if attempt < COLLISION_TRIES {
            // Somewhere else in the set, by the same way for a table that is entered by hash.
            (id, chosen) = select::choose(frontend, Seed(seed.0.wrapping_add(attempt.wrapping_mul(0x9e37_79b9))));
        }
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
                (*known).rx_packets = s.set;
                return Ok(());
            }
        }
    }
    let mut value = *flow;
    value.nat_addr = if hairpin { s.packet.src } else { s.key.remote };
    value.nat_port_be = if hairpin { s.key.local_port_be } else { s.key.remote_port_be };
    value.rx_packets = s.set;
    value.backend = backend;
    value.flags = conn_flags::OUTBOUND | if hairpin { conn_flags::HAIRPIN } else { 0 };
    maps::conntrack.insert(&s.service_key, &value, 0).map_err(|_| Reason::MapError)?;
    select::count((s.set >> 32) as u32);
    Ok(())
}
