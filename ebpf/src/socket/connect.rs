//! `connect()` of TCP and UDP sockets.

use aya_ebpf::macros::cgroup_sock_addr;
use aya_ebpf::programs::SockAddrContext;

use super::context::{Family, Socket};
use super::translate::{Spread, to_backend};

#[cgroup_sock_addr(connect4)]
pub(crate) fn skep_connect4(ctx: SockAddrContext) -> i32 {
    to_backend(Socket::new(&ctx, Family::V4), Spread::Connections)
}

#[cgroup_sock_addr(connect6)]
pub(crate) fn skep_connect6(ctx: SockAddrContext) -> i32 {
    to_backend(Socket::new(&ctx, Family::V6), Spread::Connections)
}
