//! What is known about addresses of the cluster's networks.

use aya_ebpf::btf_maps::lpm_trie::Key;
use skep_abi::{Addr, Route, RouteKey};

use crate::maps;

/// The longest prefix that an address is in.
#[inline(always)]
pub(crate) fn of(addr: &Addr) -> Option<&'static Route> {
    maps::routes.get(&Key::new(128, RouteKey { addr: *addr }))
}
