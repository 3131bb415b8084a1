//! `sendto()` and `recvfrom()` of UDP sockets that are not connected (the kernel calls the receiving hook for connected
//! ones too).

use aya_ebpf::macros::cgroup_sock_addr;
use aya_ebpf::programs::SockAddrContext;

use super::context::{Family, Socket};
use super::translate::{PROCEED, Spread, to_backend, to_service};

#[cgroup_sock_addr(sendmsg4)]
pub(crate) fn skep_sendmsg4(ctx: SockAddrContext) -> i32 {
    to_backend(Socket::new(&ctx, Family::V4), Spread::Sockets)
}

#[cgroup_sock_addr(sendmsg6)]
pub(crate) fn skep_sendmsg6(ctx: SockAddrContext) -> i32 {
    to_backend(Socket::new(&ctx, Family::V6), Spread::Sockets)
}

#[cgroup_sock_addr(recvmsg4)]
pub(crate) fn skep_recvmsg4(ctx: SockAddrContext) -> i32 {
    to_service(Socket::new(&ctx, Family::V4));
    PROCEED
}

#[cgroup_sock_addr(recvmsg6)]
pub(crate) fn skep_recvmsg6(ctx: SockAddrContext) -> i32 {
    to_service(Socket::new(&ctx, Family::V6));
    PROCEED
}
