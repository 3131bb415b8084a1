//! Lookup of a Service and choice of one of its backends.

use skep_abi::{Addr, Backend, Frontend, FrontendKey, SlotKey};
use skep_verdict::service::{ATTEMPTS, Fitness, Seed, fitness};

use crate::maps;

/// What an address and port stand for, when they are a Service's.
#[inline(always)]
pub(crate) fn frontend(addr: &Addr, port_be: u16, proto: u8) -> Option<&'static Frontend> {
    let key = FrontendKey { addr: *addr, port_be, proto, scope: 0 };
    // SAFETY: entries of a map without preallocation are freed only after a grace period that outlasts the program.
    unsafe { maps::frontends.get(&key) }
}

/// A backend of the frontend's current generation with its id, or nothing when none is there.
///
/// The id is beside the option and not within it, so that it always has a value: the verifier refuses to see a register
/// copied that holds none.
#[inline(always)]
pub(crate) fn choose(frontend: &Frontend, seed: Seed) -> (u32, Option<&'static Backend>) {
    let mut last_resort = (0, None);
    for attempt in 0..ATTEMPTS {
        if attempt >= frontend.count {
            break;
        }
        let (id, found) = slot(frontend, seed.index(attempt, frontend.count));
        let Some(candidate) = found else { continue };
        match fitness(candidate) {
            Fitness::Take => return (id, found),
            Fitness::LastResort => last_resort = (id, found),
        }
    }
    last_resort
}

/// The backend in one slot, with its id.
#[inline(always)]
fn slot(frontend: &Frontend, index: u32) -> (u32, Option<&'static Backend>) {
    let key = SlotKey { service: frontend.service, generation: frontend.generation, index };
    // SAFETY: as in `frontend`.
    match unsafe { maps::slots.get(&key) } {
        Some(id) => (*id, backend(*id)),
        None => (0, None),
    }
}

/// A backend by id.
#[inline(always)]
pub(crate) fn backend(id: u32) -> Option<&'static Backend> {
    // SAFETY: as in `frontend`.
    unsafe { maps::backends.get(&id) }
}
