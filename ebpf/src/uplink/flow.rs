//! Lookup of flows in `nat`, and writing of new ones.

use aya_ebpf::bindings::BPF_NOEXIST;
use aya_ebpf::helpers::bpf_ktime_get_boot_ns;
use skep_abi::NatValue;
use skep_verdict::nat;

use super::scratch::Scratch;
use crate::maps;

/// Error of an insertion that found the key in use (`EEXIST`).
pub(crate) const EXISTS: i32 = -17;

/// The time that flows are counted in.
#[inline(always)]
pub(crate) fn now() -> u64 {
    // SAFETY: no arguments, no preconditions.
    unsafe { bpf_ktime_get_boot_ns() }
}

/// The entry to `s.key`, with the packet taken into account. A pair that is over is removed.
#[inline(always)]
pub(crate) fn find(s: &mut Scratch) -> Option<&'static NatValue> {
    let entry = maps::nat.get_ptr_mut(&s.key)?;
    // SAFETY: the memory stays an entry's while the program runs; one that is recycled meanwhile for another flow, whose own
    // first packet writes it whole, can have its packets and expiry off once.
    let entry = unsafe { &mut *entry };
    if nat::is_over(entry, &s.packet, s.now) && !lives_on(s, entry) {
        let other_key = nat::other_key(&s.key, entry);
        // What is gone already needs no removal.
        let _ = maps::nat.remove(&s.key);
        let _ = maps::nat.remove(&other_key);
        return None;
    }
    if nat::concerns_both(entry, &s.packet) {
        s.other_key = nat::other_key(&s.key, entry);
        // SAFETY: as above.
        let other = maps::nat.get_ptr_mut(&s.other_key).map(|other| unsafe { &mut *other });
        nat::advance(entry, other, &s.packet, s.now);
    } else {
        nat::advance(entry, None, &s.packet, s.now);
    }
    Some(entry)
}

/// Whether an entry that has expired is kept by the other one of its pair: one side may only listen for long.
#[inline(always)]
fn lives_on(s: &mut Scratch, entry: &NatValue) -> bool {
    if nat::is_replaced(entry, &s.packet) {
        return false;
    }
    s.other_key = nat::other_key(&s.key, entry);
    // SAFETY: as in `find`.
    unsafe { maps::nat.get(&s.other_key) }.is_some_and(|other| other.expires > s.now)
}

/// The entry that translates the answers to a quoted packet, whose key is in `s.key`. An error changes nothing about the
/// flow.
#[inline(always)]
pub(crate) fn quoted(s: &Scratch) -> Option<&'static NatValue> {
    // SAFETY: as in `find`.
    unsafe { maps::nat.get(&s.key) }.filter(|entry| entry.expires > s.now)
}

/// What became of a new pair.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Written {
    /// It is there.
    Done = 0,
    /// The translated tuple belongs to another flow.
    Taken = 1,
    /// Another packet of the same flow was first, on another CPU.
    Raced = 2,
    /// The map is full.
    Failed = 3,
}

/// Writes `s.value` and `s.other` as a pair, under `s.key` and `s.other_key`.
#[inline(never)]
pub(crate) fn write(s: &Scratch) -> u32 {
    match maps::nat.insert(&s.other_key, &s.other, BPF_NOEXIST.into()) {
        Ok(()) => {}
        Err(EXISTS) => return Written::Taken as u32,
        Err(_) => return Written::Failed as u32,
    }
    let written = match maps::nat.insert(&s.key, &s.value, BPF_NOEXIST.into()) {
        Ok(()) => return Written::Done as u32,
        Err(EXISTS) => Written::Raced,
        Err(_) => Written::Failed,
    };
    // It was written by this very run.
    let _ = maps::nat.remove(&s.other_key);
    written as u32
}
