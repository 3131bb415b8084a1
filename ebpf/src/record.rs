//! Drop counters and flow events.

use aya_ebpf::helpers::bpf_ktime_get_boot_ns;
use skep_abi::{Counter, Direction, FlowEvent, Reason};

use crate::maps;

/// Sets every word of plain data to zero.
///
/// The compiler would make a call of this, and the function called writes byte after byte.
///
/// # Safety
///
/// `value` points to memory that may be written, at a multiple of 4, and all zeroes are valid for it.
#[inline(always)]
pub(crate) unsafe fn clear<T>(value: *mut T) {
    const { assert!(size_of::<T>().is_multiple_of(4) && align_of::<T>() >= 4) };
    for word in 0..size_of::<T>() / 4 {
        // SAFETY: within the value, as the caller promises.
        unsafe { value.cast::<u32>().add(word).write_volatile(0) };
    }
}

/// Counts a drop.
#[inline(always)]
pub(crate) fn count(reason: Reason, direction: Direction, bytes: u32) {
    if let Some(counters) = maps::drops.get_ptr_mut(reason as u32 * 2 + direction as u32) {
        // SAFETY: the entry is this CPU's own and lives as long as the map.
        unsafe {
            (*counters).packets += 1;
            (*counters).bytes += u64::from(bytes);
        }
    }
}

/// Counts what is no drop.
#[inline(always)]
pub(crate) fn tally(counter: Counter) {
    if let Some(count) = maps::counters.get_ptr_mut(counter as u32) {
        // SAFETY: as in `count`.
        unsafe { *count += 1 };
    }
}

/// Sends a flow event stamped with the time. When nobody reads and the buffer is full the event is lost; counters still
/// count.
#[inline(always)]
pub(crate) fn event(fill: impl FnOnce(&mut FlowEvent)) {
    if let Some(mut entry) = maps::events.reserve(0) {
        let event = entry.as_mut_ptr();
        // SAFETY: the reservation is as long as a FlowEvent and 8-byte aligned; zeroes are a valid FlowEvent.
        unsafe {
            clear(event);
            (*event).timestamp = bpf_ktime_get_boot_ns();
            fill(&mut *event);
        }
        entry.submit(0);
    }
}
