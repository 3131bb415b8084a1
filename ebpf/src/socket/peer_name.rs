//! `getpeername()`.

use aya_ebpf::macros::cgroup_sock_addr;
use aya_ebpf::programs::SockAddrContext;

use super::context::{Family, Socket};
use super::translate::{PROCEED, to_service};

#[cgroup_sock_addr(getpeername4)]
pub(crate) fn skep_getpeername4(ctx: SockAddrContext) -> i32 {
    to_service(Socket::new(&ctx, Family::V4));
    PROCEED
}

#[cgroup_sock_addr(getpeername6)]
pub(crate) fn skep_getpeername6(ctx: SockAddrContext) -> i32 {
    to_service(Socket::new(&ctx, Family::V6));
    PROCEED
}
