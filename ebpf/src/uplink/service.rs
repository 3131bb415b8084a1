//! Services of the external scope, for packets of no known flow.

use aya_ebpf::bindings::BPF_NOEXIST;
use aya_ebpf::btf_maps::lpm_trie::Key;
use aya_ebpf::helpers::bpf_get_prandom_u32;
use skep_abi::{
    Addr, Backend, Counter, Frontend, FrontendKey, NatValue, Reason, SlotKey, SourceRangeKey, backend_flags,
    config_flags, frontend_flags, nat_flags, node_addr_flags, scope,
};
use skep_verdict::nat;
use skep_verdict::service::{Fitness, Seed, client, fitness};

use super::allocate::{self, allocate};
use super::flow::{self, Written};
use super::refuse::refuse;
use super::scratch::{self, Scratch};
use super::{PASS, forward};
use crate::action::{Packed, pack, unpack};
use crate::skb::Skb;
use crate::{maps, select};

/// Backends that are tried before a source collision is given up on.
const COLLISION_TRIES: u32 = 2;

/// Slots that are looked at for a backend of this node when another node has chosen one.
const LOCAL_TRIES: u32 = 8;

/// Gives the packet in `s`, whose key is in `s.key`, to a backend, refuses or drops it, or leaves it to the stack.
#[inline(never)]
pub(crate) fn ingress(skb: Skb, s: &mut Scratch) -> Packed {
    pack(try_ingress(skb, s))
}

#[inline(always)]
fn try_ingress(skb: Skb, s: &mut Scratch) -> Result<i32, Reason> {
    let Some(frontend) = frontend(s)? else {
        // A load balancer address is on no interface: what no Service has would go round and round.
        return if is_own(s)? || !is_announced(&s.packet.dst) { Ok(PASS) } else { unpack(refuse(skb, s)) };
    };
    if frontend.flags & frontend_flags::SOURCE_RANGES != 0 && !is_in_ranges(frontend.service, &s.packet.src) {
        return Err(Reason::SourceRange);
    }
    if frontend.count == 0 {
        if frontend.flags & frontend_flags::LOCAL != 0 {
            return Err(Reason::NoLocalEndpoints);
        }
        return unpack(refuse(skb, s));
    }
    let chosen = unpack(choose(s, frontend))?;
    let bound = match chosen {
        SNAT => unpack(allocate(skb.0.cast(), s))?,
        _ => chosen,
    };
    match bound {
        WRITTEN => {
            scratch::count(Counter::ExternalConnections, 1);
            hit(frontend.service);
            unpack(forward::ingress(skb, &s.packet, &s.value))
        }
        RACED => match flow::find(s) {
            Some(entry) => unpack(forward::ingress(skb, &s.packet, entry)),
            None => Err(Reason::MapError),
        },
        _ => unpack(refuse(skb, s)),
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
    // Where nothing else decides, nodes that answer for each other choose the same as long as they know the same.
    let random = if dsr { nat::tuple_hash(&s.key) } else { random() };
    let mut seed = Seed::new(frontend, random, client(&s.packet.src));
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
        seed = Seed(seed.0.wrapping_add(0x9e37_79b9));
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
        found = select::choose(frontend, seed);
    }
    let (id, Some(backend)) = found else { return false };
    s.value = NatValue {
        expires: 0,
        packets: 0,
        src: s.packet.src,
        dst: backend.addr,
        src_port_be: s.packet.src_port_be,
        dst_port_be: backend.port_be,
        state: 0,
        flags: nat_flags::FORWARD,
        pad: 0,
        backend: id,
        service: frontend.service,
    };
    let local = backend.flags & backend_flags::LOCAL != 0 || frontend.flags & frontend_flags::LOCAL != 0;
    s.next_hop = match (local, backend.node == Addr::NONE) {
        (true, _) => Addr::NONE,
        // Somewhere outside of the cluster.
        (false, true) => backend.addr,
        (false, false) => backend.node,
    };
    true
}

/// Makes `s.value` lead to another node.
#[inline(always)]
fn elsewhere(s: &mut Scratch, dsr: bool) -> Result<i32, Reason> {
    if dsr && s.value.dst != s.next_hop {
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
    if holder_key != s.key && !nat::is_over(holder, &s.packet, s.now) {
        return Written::Taken as u32;
    }
    // The rest of a flow that is over, or half of this one.
    let _ = maps::nat.remove(&s.other_key);
    let _ = maps::nat.remove(&holder_key);
    flow::write(s)
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

/// The Service that the packet is for.
#[inline(always)]
fn frontend(s: &Scratch) -> Result<Option<&'static Frontend>, Reason> {
    let (packet, config) = (&s.packet, scratch::config()?);
    let mut key =
        FrontendKey { addr: packet.dst, port_be: packet.dst_port_be, proto: packet.proto, scope: scope::EXTERNAL };
    // SAFETY: as in `write_kept`.
    let found = unsafe { maps::frontends.get(&key) };
    let port = u16::from_be(packet.dst_port_be);
    if found.is_some() || port < config.node_port_first || port > config.node_port_last {
        return Ok(found);
    }
    // SAFETY: as in `write_kept`.
    let node = unsafe { maps::node_addrs.get(&packet.dst) };
    if node.is_none_or(|node| node.flags & node_addr_flags::HOST_ONLY != 0) {
        return Ok(None);
    }
    key.addr = if packet.v6 { FrontendKey::ANY6 } else { FrontendKey::ANY4 };
    // SAFETY: as in `write_kept`.
    Ok(unsafe { maps::frontends.get(&key) })
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

#[inline(always)]
fn random() -> u32 {
    // SAFETY: no arguments, no preconditions.
    unsafe { bpf_get_prandom_u32() }
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

/// Counts a connection of a Service.
#[inline(always)]
fn hit(service: u32) {
    if let Some(hits) = maps::service_hits.get_ptr_mut(&service) {
        // SAFETY: this CPU's own value, of an entry that outlasts the program.
        unsafe { *hits += 1 };
    } else {
        // When the map is full this Service is not counted.
        let _ = maps::service_hits.insert(&service, &1, 0);
    }
}
