//! Lookup of a Service and choice of one of its backends.

use skep_abi::{Addr, Backend, Frontend, FrontendKey, SlotKey};
use skep_verdict::service::{ATTEMPTS, Fitness, Seed, fitness};

use crate::maps;

/// A backend with its id.
#[derive(Clone, Copy)]
pub(crate) struct Choice {
    pub(crate) id: u32,
    pub(crate) backend: Backend,
}

/// What an address and port stand for, when they are a Service's.
#[inline(always)]
pub(crate) fn frontend(addr: &Addr, port_be: u16, proto: u8) -> Option<&'static Frontend> {
    let key = FrontendKey { addr: *addr, port_be, proto, scope: 0 };
    // SAFETY: entries of a map without preallocation are freed only after a grace period that outlasts the program.
    unsafe { maps::frontends.get(&key) }
}

/// A backend of the frontend's current generation, or nothing when none is there.
#[inline(always)]
pub(crate) fn choose(frontend: &Frontend, seed: Seed) -> Option<Choice> {
    let mut last_resort = None;
    let tries = if frontend.count < ATTEMPTS { frontend.count } else { ATTEMPTS };
    for attempt in 0..ATTEMPTS {
        if attempt >= tries {
            break;
        }
        let index = seed.index(attempt, frontend.count);
        let Some(choice) = slot(frontend, index) else { continue };
        match fitness(&choice.backend) {
            Fitness::Take => return Some(choice),
            Fitness::LastResort => last_resort = Some(choice),
        }
    }
    last_resort
}

/// The backend in one slot.
#[inline(always)]
pub(crate) fn slot(frontend: &Frontend, index: u32) -> Option<Choice> {
    let key = SlotKey { service: frontend.service, generation: frontend.generation, index };
    // SAFETY: as in `frontend`.
    let id = unsafe { *maps::slots.get(&key)? };
    Some(Choice { id, backend: *backend(id)? })
}

/// A backend by id.
#[inline(always)]
pub(crate) fn backend(id: u32) -> Option<&'static Backend> {
    // SAFETY: as in `frontend`.
    unsafe { maps::backends.get(&id) }
}
