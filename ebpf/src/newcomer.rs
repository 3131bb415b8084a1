//! Pods of other nodes whose address this node has not been told of yet: the packet itself says who they are.
//!
//! ```text
//! to_overlay:    identity and tail of the pod, both of one hash, into the packet     (see `skep_verdict::tunnel`)
//! from_overlay:  an address that nobody has here, an identity that somebody has, the same tail: noted
//! to_pod:        policy for a packet of the overlay whose address nobody has: what was noted of it just before
//! ```
//!
//! An address that is known here is what is known of it, whatever the packet says.

use aya_ebpf::btf_maps::LruHashMap;
use aya_ebpf::macros::btf_map;
use skep_abi::Addr;
use skep_verdict::conn::SECOND;

use crate::maps;

/// Who sends from an address.
#[derive(Clone, Copy)]
#[repr(C)]
struct Newcomer {
    identity: u64,
    /// When it was noted, nanoseconds of the boot-time clock.
    noted: u64,
}

#[btf_map]
static NEWCOMERS: LruHashMap<Addr, Newcomer, 4_096> = LruHashMap::new();

/// Takes a pod's word for its identity when it means the same here as where it comes from.
#[inline(always)]
pub(crate) fn introduce(addr: &Addr, identity: u64, tail: u64, now: u64) {
    // SAFETY: entries of a map without preallocation are freed only after a grace period that outlasts the program.
    let known = unsafe { maps::identity_tails.get(&identity) }.is_some_and(|known| *known == tail);
    // Without the note the address is nobody's, as it was before.
    if known {
        let _ = NEWCOMERS.insert(addr, Newcomer { identity, noted: now }, 0);
    } else {
        let _ = NEWCOMERS.remove(addr);
    }
}

/// The identity of who sends from an address, 0 when nothing was noted. Every packet of the overlay is noted before it gets to
/// where this is asked: what is older than one can be under way says nothing.
#[inline(always)]
pub(crate) fn identity(addr: &Addr, now: u64) -> u64 {
    // SAFETY: an entry that is recycled meanwhile is another address's, and was noted no less.
    match unsafe { NEWCOMERS.get(addr) } {
        Some(newcomer) if newcomer.noted + SECOND > now => newcomer.identity,
        _ => 0,
    }
}
