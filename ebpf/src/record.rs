//! Drop counters and flow events.

use core::ptr;

use aya_ebpf::helpers::bpf_ktime_get_boot_ns;
use skep_abi::{Direction, FlowEvent, Reason};

use crate::maps;

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

/// Sends a flow event stamped with the time. When nobody reads and the buffer is full the event is lost; counters still
/// count.
#[inline(always)]
pub(crate) fn event(fill: impl FnOnce(&mut FlowEvent)) {
    if let Some(mut entry) = maps::events.reserve(0) {
        let event = entry.as_mut_ptr();
        // SAFETY: the reservation is as long as a FlowEvent and 8-byte aligned; zeroes are a valid FlowEvent.
        unsafe {
            ptr::write_bytes(event, 0, 1);
            (*event).timestamp = bpf_ktime_get_boot_ns();
            fill(&mut *event);
        }
        entry.submit(0);
    }
}
