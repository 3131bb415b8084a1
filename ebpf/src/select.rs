//! Lookup of a Service and choice of one of its backends.

use aya_ebpf::bindings::BPF_NOEXIST;
use aya_ebpf::helpers::{bpf_get_prandom_u32, bpf_ktime_get_boot_ns};
use skep_abi::{Addr, AffinityKey, AffinityValue, Backend, Frontend, FrontendKey, SlotKey, frontend_flags};
use skep_verdict::service::{self, ATTEMPTS, Fitness, SEARCHED, Seed};

use crate::maps;

/// What an address and port stand for, when they are a Service's that clients of this [`scope`](skep_abi::scope) may use.
///
/// `host` says that the client is in the host's network namespace, which alone has node ports on loopback addresses.
#[inline(always)]
pub(crate) fn frontend(addr: &Addr, port_be: u16, proto: u8, scope: u8, host: bool) -> Option<&'static Frontend> {
    let mut key = FrontendKey { addr: *addr, port_be, proto, scope };
    // SAFETY: entries of a map without preallocation are freed only after a grace period that outlasts the program.
    if let Some(frontend) = unsafe { maps::frontends.get(&key) } {
        return Some(frontend);
    }
    if !service::is_node_port(maps::config.get(0)?, port_be) {
        return None;
    }
    // SAFETY: as above.
    let node = unsafe { maps::node_addrs.get(addr) }?;
    if !service::has_node_ports(node, host) {
        return None;
    }
    key.addr = service::wildcard(addr);
    // SAFETY: as above.
    unsafe { maps::frontends.get(&key) }
}

/// Where the choice for a new connection begins. `tuple` is the hash of the connection that a Maglev table is entered with.
#[inline(always)]
pub(crate) fn seed(frontend: &Frontend, client: &Addr, tuple: impl FnOnce() -> Seed) -> Seed {
    if frontend.flags & frontend_flags::MAGLEV == 0 {
        // SAFETY: no arguments, no preconditions.
        return Seed(unsafe { bpf_get_prandom_u32() });
    }
    // Who is to stay gets the same place in the table for every connection: what the table keeps when endpoints change,
    // the client keeps, too.
    if frontend.flags & frontend_flags::AFFINITY == 0 { tuple() } else { Seed::of_client(frontend, client) }
}

/// A backend for a new connection with its id, or nothing when none is there: the one that the client is to stay with, or
/// one of the frontend's current generation.
///
/// The id is beside the option and not within it, so that it always has a value: the verifier refuses to see a register
/// copied that holds none.
#[inline(always)]
pub(crate) fn choose_for(frontend: &Frontend, client: &Addr, seed: Seed) -> (u32, Option<&'static Backend>) {
    if frontend.flags & frontend_flags::AFFINITY != 0 {
        let id = stay(frontend, client, seed);
        if id == NOWHERE {
            return (0, None);
        }
        return (id as u32, backend(id as u32));
    }
    choose(frontend, seed)
}

/// As [`choose_for`], whoever asks.
#[inline(always)]
pub(crate) fn choose(frontend: &Frontend, seed: Seed) -> (u32, Option<&'static Backend>) {
    if frontend.count == 0 {
        return (0, None);
    }
    // Nearly always the first slot will do.
    if let Some(id) = slot(frontend.service, frontend.generation, seed.index(0, frontend.count)) {
        let found = backend(id);
        if found.is_some_and(service::is_active) {
            return (id, found);
        }
    }
    let place = skep_pick(frontend.service, frontend.generation, frontend.count, seed.0);
    if place == NOWHERE {
        return (0, None);
    }
    (place as u32, backend(place as u32))
}

/// No slot, no backend.
pub(crate) const NOWHERE: u64 = u64::MAX;

/// The slot and, in the lower half, the id of a backend of an endpoint set, or [`NOWHERE`].
///
/// What is visible outside and takes plain numbers is verified once and not for each call (Linux 5.6), which loops make dear.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn skep_pick(service: u32, generation: u32, count: u32, seed: u32) -> u64 {
    let mut last_resort = NOWHERE;
    for attempt in 0..ATTEMPTS {
        if attempt >= count {
            break;
        }
        let index = Seed(seed).index(attempt, count);
        let Some(id) = slot(service, generation, index) else { continue };
        let Some(candidate) = backend(id) else { continue };
        let place = u64::from(index) << 32 | u64::from(id);
        match service::fitness(candidate) {
            Fitness::Take => return place,
            Fitness::LastResort => last_resort = place,
        }
    }
    last_resort
}

/// The slot of a backend in an endpoint set, or [`NOWHERE`]. Slots near `hint` are looked at first.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn skep_search(service: u32, generation: u32, count: u32, id: u32, hint: u32) -> u64 {
    for step in 0..SEARCHED {
        if step >= count {
            break;
        }
        let index = service::around(hint, step, count);
        if slot(service, generation, index) == Some(id) {
            return u64::from(index);
        }
    }
    NOWHERE
}

/// Whether a backend is in the frontend's current generation. Slots near `hint` are looked at first.
#[inline(always)]
pub(crate) fn has(frontend: &Frontend, id: u32, hint: u32) -> bool {
    skep_search(frontend.service, frontend.generation, frontend.count, id, hint) != NOWHERE
}

/// Counts a connection that was given a backend of this endpoint set.
#[inline(always)]
pub(crate) fn count(service: u32) {
    if let Some(hits) = maps::service_hits.get_ptr_mut(&service) {
        // SAFETY: the value is this CPU's own and lives until after the program.
        unsafe { *hits += 1 };
    } else {
        // When the map is full the set is not counted, which `skep services` shows as no number.
        let _ = maps::service_hits.insert(&service, &1, u64::from(BPF_NOEXIST));
    }
}

/// Id of the backend that a client stays with, or [`NOWHERE`]: what is remembered of it, or a choice that is remembered.
#[inline(never)]
fn stay(frontend: &Frontend, client: &Addr, seed: Seed) -> u64 {
    let key = AffinityKey { client: *client, service: frontend.service };
    // SAFETY: no arguments, no preconditions.
    let now = unsafe { bpf_ktime_get_boot_ns() };
    if let Some(value) = maps::affinity.get_ptr_mut(&key) {
        // SAFETY: an entry that is recycled for another client meanwhile gets a time that is right for it, too, and a hint
        // that is only where a search begins.
        let value = unsafe { &mut *value };
        let id = value.backend;
        if service::is_remembered(value, frontend, now) && backend(id).is_some_and(service::is_active) {
            let index = skep_search(frontend.service, frontend.generation, frontend.count, id, value.slot);
            if index != NOWHERE {
                value.last_used = now;
                value.slot = index as u32;
                return u64::from(id);
            }
        }
    }
    let place = skep_pick(frontend.service, frontend.generation, frontend.count, seed.0);
    if place == NOWHERE {
        return NOWHERE;
    }
    let value = AffinityValue { last_used: now, backend: place as u32, slot: (place >> 32) as u32 };
    // An LRU map makes room; when it cannot for a moment, the client's next connection is free in its choice.
    let _ = maps::affinity.insert(&key, &value, 0);
    u64::from(place as u32)
}

/// Id of the backend in one slot.
#[inline(always)]
fn slot(service: u32, generation: u32, index: u32) -> Option<u32> {
    let key = SlotKey { service, generation, index };
    // SAFETY: as in `frontend`.
    unsafe { maps::slots.get(&key) }.copied()
}

/// A backend by id.
#[inline(always)]
pub(crate) fn backend(id: u32) -> Option<&'static Backend> {
    // SAFETY: as in `frontend`.
    unsafe { maps::backends.get(&id) }
}
