//! Behind which interface the pod of an address is, as far as packets from outside have shown.
//!
//! Only a hint, which the programs write for themselves: who follows it looks into `endpoints` for whether it still holds.

use aya_ebpf::btf_maps::LruHashMap;
use aya_ebpf::macros::btf_map;
use skep_abi::Addr;

#[btf_map]
static POD_INTERFACES: LruHashMap<Addr, u32, 4_096> = LruHashMap::new();

/// Notes where packets to an address have gone.
#[inline(always)]
pub(crate) fn note(addr: &Addr, ifindex: u32) {
    // Without the hint packets take the way that they took before.
    let _ = POD_INTERFACES.insert(addr, ifindex, 0);
}

/// Where packets to an address have gone before.
#[inline(always)]
pub(crate) fn of(addr: &Addr) -> Option<u32> {
    // SAFETY: an entry that is recycled meanwhile gives another interface, which is not that of the address.
    unsafe { POD_INTERFACES.get(addr) }.copied()
}
