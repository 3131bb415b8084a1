//! Services of the external scope, for packets of no known flow.

use aya_ebpf::bindings::{__sk_buff, BPF_NOEXIST};
use aya_ebpf::btf_maps::lpm_trie::Key;
use skep_abi::{
    Addr, Backend, ConnState, Counter, Frontend, NatKey, NatValue, Reason, SlotKey, SourceRangeKey, backend_flags,
    config_flags, frontend_flags, nat_flags, node_addr_flags, scope,
};
use skep_verdict::service::{Fitness, Seed, fitness};
use skep_verdict::{conn, nat};

use super::allocate::{self, allocate};
use super::flow::{self, Written};
use super::scratch::{self, Scratch};
use super::{PASS, conclude, forward};
use crate::action::{Packed, pack, unpack};
use crate::skb::Skb;
use crate::{maps, record, select};

/// Backends that are tried before a source collision is given up on.
const COLLISION_TRIES: u32 = 4;

/// Slots that are looked at for a backend of this node when another node has chosen one.
const LOCAL_TRIES: u32 = 8;

/// Gives the packet at hand, whose key is known, to a backend, drops it, leaves it to the stack, or finds what [`conclude`]
/// is to do.
#[inline(always)]
pub(crate) fn ingress(skb: Skb) -> Packed {
    skep_uplink_service(skb.0)
}

/// See [`ingress`]; verified by itself, as [`parse`](super::parse) says.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn skep_uplink_service(skb: *mut __sk_buff) -> Packed {
    let Some(s) = scratch::again() else { return pack(Err(Reason::MapError)) };
    pack(try_ingress(Skb(skb), s))
}

#[inline(always)]
fn try_ingress(skb: Skb, s: &mut Scratch) -> Result<i32, Reason> {
    let found = select::frontend(&s.packet.dst, s.packet.dst_port_be, s.packet.proto, scope::EXTERNAL, false);
    let Some(frontend) = found else {
        // A load balancer address is on no interface: what no Service has would go round and round.
        if is_own(s)? {
            return Ok(PASS);
        }
        return Ok(if is_announced(&s.packet.dst) { conclude::REFUSED } else { conclude::INWARD });
    };
    if frontend.flags & frontend_flags::SOURCE_RANGES != 0 && !is_in_ranges(frontend.service, &s.packet.src) {
        return Err(Reason::SourceRange);
    }
    if frontend.count == 0 {
        if frontend.flags & frontend_flags::LOCAL != 0 {
            return Err(Reason::NoLocalEndpoints);
        }
        return Ok(conclude::REFUSED);
    }
    let chosen = unpack(choose(s, frontend))?;
    let bound = match chosen {
        SNAT => unpack(allocate(skb))?,
        _ => chosen,
    };
    match bound {
        WRITTEN => {
            record::tally(Counter::ExternalConnections);
            select::count(frontend.service);
            unpack(forward::ingress(skb, &s.packet, &s.value))
        }
        RACED => match flow::find(s) {
            Some(entry) => unpack(forward::ingress(skb, &s.packet, entry)),
            None => Err(Reason::MapError),
        },
        _ => Ok(conclude::REFUSED),
    }
}

/// `s.value` is the entry to `s.key`, and written.
const WRITTEN: i32 = allocate::DONE;
/// Another packet of the flow was first.
const RACED: i32 = allocate::RACED;
/// `s.value` needs a source port.
const SNAT: i32 = 2;
/// There is no backend.
const NO_ENDPOINTS: i32 = 3;

/// Chooses a backend.
#[inline(never)]
fn choose(s: &mut Scratch, frontend: &Frontend) -> Packed {
    pack(try_choose(s, frontend))
}

#[inline(always)]
fn try_choose(s: &mut Scratch, frontend: &Frontend) -> Result<i32, Reason> {
    let config = scratch::config()?;
    let dsr = config.flags & config_flags::DSR != 0 && frontend.flags & frontend_flags::LOCAL == 0;
    // Nodes that answer for each other choose the same as long as they know the same.
    let mut seed = if dsr {
        Seed(nat::tuple_hash(&s.key))
    } else {
        select::seed(frontend, &s.packet.src, || Seed::of_tuple(&s.packet))
    };
    let forwarded = dsr && !is_own(s)? && !is_announced(&s.packet.dst);
    for _ in 0..COLLISION_TRIES {
        if !pick(s, frontend, seed, forwarded) {
            return Ok(NO_ENDPOINTS);
        }
        if s.next_hop != Addr::NONE {
            break;
        }
        let written = write_kept(s);
        if written == Written::Done as u32 {
            return Ok(WRITTEN);
        }
        if written == Written::Raced as u32 {
            return Ok(RACED);
        }
        if written == Written::Failed as u32 {
            return Err(Reason::MapError);
        }
        // The next slot.
        seed = Seed(seed.0.wrapping_add(u32::MAX / frontend.count + 1));
    }
    if s.next_hop == Addr::NONE {
        return Err(Reason::SourceCollision);
    }
    elsewhere(s, dsr)
}

/// Makes `s.value` the entry to a backend, and `s.next_hop` the node behind which that is: none when it is this one.
#[inline(never)]
fn pick(s: &mut Scratch, frontend: &Frontend, seed: Seed, forwarded: bool) -> bool {
    let mut found = (0, None);
    if forwarded {
        found = local(frontend, seed);
    }
    if found.1.is_none() {
        found = select::choose_for(frontend, &s.packet.src, seed);
    }
    let (id, Some(backend)) = found else { return false };
    // Field by field: the stack of so deep a call has no room for a whole entry.
    s.value.expires = 0;
    s.value.packets = 0;
    s.value.src = s.packet.src;
    s.value.dst = backend.addr;
    s.value.src_port_be = s.packet.src_port_be;
    s.value.dst_port_be = backend.port_be;
    s.value.state = ConnState::New as u8;
    s.value.flags = nat_flags::FORWARD;
    s.value.backend = id;
    s.value.service = frontend.service;
    s.outside = u32::from(backend.node == Addr::NONE);
    let local = backend.flags & backend_flags::LOCAL != 0 || frontend.flags & frontend_flags::LOCAL != 0;
    s.next_hop = match (local, s.outside != 0) {
        (true, _) => Addr::NONE,
        (false, true) => backend.addr,
        (false, false) => backend.node,
    };
    true
}

/// Makes `s.value` lead to another node.
#[inline(always)]
fn elsewhere(s: &mut Scratch, dsr: bool) -> Result<i32, Reason> {
    if dsr && s.outside == 0 {
        s.value.flags |= nat_flags::DSR;
        s.value.dst = s.next_hop;
        nat::advance(&mut s.value, None, &s.packet, s.now);
        return match maps::nat.insert(&s.key, &s.value, BPF_NOEXIST.into()) {
            Ok(()) => Ok(WRITTEN),
            Err(flow::EXISTS) => Ok(RACED),
            Err(_) => Err(Reason::MapError),
        };
    }
    s.value.src = *nat::node_addr(scratch::config()?, s.packet.v6);
    if s.value.src == Addr::NONE {
        return Err(Reason::NoRoute);
    }
    s.value.flags |= nat_flags::SNAT;
    nat::advance(&mut s.value, None, &s.packet, s.now);
    Ok(SNAT)
}

/// Writes the flow to a backend of this node, which sees the client's own address. The answers may already be those of
/// another Service address.
#[inline(never)]
fn write_kept(s: &mut Scratch) -> u32 {
    nat::advance(&mut s.value, None, &s.packet, s.now);
    s.other = nat::reply(&s.key, &s.value);
    s.other_key = nat::other_key(&s.key, &s.value);
    let written = flow::write(s);
    if written != Written::Taken as u32 {
        return written;
    }
    // SAFETY: entries of a map without preallocation are freed only after a grace period that outlasts the program.
    let Some(holder) = (unsafe { maps::nat.get(&s.other_key) }) else { return flow::write(s) };
    let holder_key = nat::other_key(&s.other_key, holder);
    if holder_key != s.key && !nat::is_over(holder, &s.packet, s.now) && !gives_way(holder, &holder_key, s) {
        return Written::Taken as u32;
    }
    // The rest of a flow that is over, or half of this one.
    let _ = maps::nat.remove(&s.other_key);
    let _ = maps::nat.remove(&holder_key);
    flow::write(s)
}

/// Whether nothing was heard of a datagram flow for a while, in neither direction.
#[inline(always)]
fn gives_way(answers: &NatValue, key: &NatKey, s: &Scratch) -> bool {
    let quiet = |value: &NatValue| conn::gives_way(value.expires, s.packet.proto, value.state, s.now);
    // SAFETY: as in `write_kept`.
    quiet(answers) && unsafe { maps::nat.get(key) }.is_none_or(quiet)
}

/// A backend of this node, beginning with the one that the node which sent the packet here has chosen.
#[inline(always)]
fn local(frontend: &Frontend, seed: Seed) -> (u32, Option<&'static Backend>) {
    let mut last_resort = (0, None);
    for attempt in 0..LOCAL_TRIES {
        if attempt >= frontend.count {
            break;
        }
        let index = seed.index(attempt, frontend.count);
        let key = SlotKey { service: frontend.service, generation: frontend.generation, index };
        // SAFETY: as in `write_kept`.
        let Some(id) = (unsafe { maps::slots.get(&key) }) else { continue };
        let found = select::backend(*id);
        let Some(backend) = found else { continue };
        if backend.flags & backend_flags::LOCAL == 0 {
            continue;
        }
        match fitness(backend) {
            Fitness::Take => return (*id, found),
            Fitness::LastResort => last_resort = (*id, found),
        }
    }
    last_resort
}

/// Whether a datagram, or a connection that is opened from a port that is used again, would be led to a backend that is no
/// more. The flow is forgotten then, and the packet gets another backend.
#[inline(always)]
pub(crate) fn has_lost_backend(s: &mut Scratch, entry: &NatValue) -> bool {
    let leads = entry.service != 0 && entry.flags & nat_flags::FORWARD != 0 && conn::opens(&s.packet);
    if !leads || select::backend(entry.backend).is_some() {
        return false;
    }
    s.other_key = nat::other_key(&s.key, entry);
    // What is gone already needs no removal.
    let _ = maps::nat.remove(&s.key);
    let _ = maps::nat.remove(&s.other_key);
    record::tally(Counter::Moved);
    true
}

/// A later fragment whose first one has not come: what is for the node itself is put together by the stack.
#[inline(always)]
pub(crate) fn unknown_fragment(s: &Scratch) -> Result<i32, Reason> {
    if is_announced(&s.packet.dst) { Err(Reason::UnknownFragment) } else { Ok(PASS) }
}

/// Whether the packet is for an address of this node.
#[inline(always)]
fn is_own(s: &Scratch) -> Result<bool, Reason> {
    if s.packet.dst == *nat::node_addr(scratch::config()?, s.packet.v6) {
        return Ok(true);
    }
    // SAFETY: as in `write_kept`.
    let node = unsafe { maps::node_addrs.get(&s.packet.dst) };
    Ok(node.is_some_and(|node| node.flags & node_addr_flags::LOCAL != 0))
}

/// Whether this node answers for a load balancer address.
#[inline(always)]
pub(crate) fn is_announced(addr: &Addr) -> bool {
    // SAFETY: as in `write_kept`.
    unsafe { maps::announced.get(addr) }.is_some()
}

#[inline(always)]
fn is_in_ranges(service: u32, addr: &Addr) -> bool {
    let key = SourceRangeKey { service, addr: *addr };
    maps::source_ranges.get(&Key::new(SourceRangeKey::BASE_BITS + 128, key)).is_some()
}
