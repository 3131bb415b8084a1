//! Conntrack lookups and writes.

use aya_ebpf::helpers::bpf_ktime_get_boot_ns;
use skep_abi::{Config, ConnKey, ConnValue, Direction, Endpoint, Reason, config_flags};
use skep_verdict::conn;

use super::scratch::{self, Scratch};
use crate::maps;
use crate::skb::Skb;

/// The entry to a key, unless it is over for the packet in `s`.
#[inline(always)]
pub(crate) fn find(key: &ConnKey, s: &Scratch) -> Option<&'static mut ConnValue> {
    let value = maps::conntrack.get_ptr_mut(key)?;
    // SAFETY: the entry may be recycled for another flow while it is used. Counters and expiry of that flow can then be
    // off once; its state and translation are rewritten by its own first packet, which this one races with.
    let value = unsafe { &mut *value };
    if conn::is_over(value, &s.packet, s.now) { None } else { Some(value) }
}

/// Whether the flow may be replaced by the one that the packet in `s` begins.
#[inline(always)]
pub(crate) fn gives_way(flow: &ConnValue, s: &Scratch) -> bool {
    conn::gives_way(flow.expires, s.packet.proto, flow.state, s.now)
}

/// Writes the entry in `s.value` for the flow in `s.key`, and reports the connection if that is wanted.
#[inline(always)]
pub(crate) fn insert(skb: Skb, endpoint: &Endpoint, s: &Scratch, direction: Direction) -> Result<(), Reason> {
    maps::conntrack.insert(&s.key, &s.value, 0).map_err(|_| Reason::MapError)?;
    if config().is_some_and(|config| config.flags & config_flags::EVENTS_ALLOWED != 0) {
        scratch::allowed(skb, endpoint.id, s, direction);
    }
    Ok(())
}

/// The time that conntrack counts in.
#[inline(always)]
pub(crate) fn now() -> u64 {
    // SAFETY: no arguments, no preconditions.
    unsafe { bpf_ktime_get_boot_ns() }
}

/// Node-wide settings.
#[inline(always)]
pub(crate) fn config() -> Option<&'static Config> {
    maps::config.get(0)
}
