//! The end of a socket.

use aya_ebpf::bindings::bpf_sock;
use aya_ebpf::helpers::bpf_get_socket_cookie;
use aya_ebpf::macros::cgroup_sock;
use aya_ebpf::programs::SockContext;
use skep_abi::Addr;
use skep_verdict::service::origin_key;

use crate::maps;

const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;

/// Forgets which Service a connected socket asked for, so that closed sockets do not push out the ones in use. What
/// unconnected sockets asked for goes by itself when the map needs room.
#[cgroup_sock(sock_release)]
pub(crate) fn skep_sock_release(ctx: SockContext) -> i32 {
    let sock = ctx.sock;
    // SAFETY: the context outlives the program; volatile keeps each access as the verifier wants it.
    unsafe {
        let Some(addr) = peer(sock) else { return 1 };
        let port_be = (&raw const (*sock).dst_port).read_volatile();
        let proto = (&raw const (*sock).protocol).read_volatile() as u8;
        let key = origin_key(bpf_get_socket_cookie(sock.cast()), &addr, port_be, proto);
        // Most sockets are not there: they were never translated.
        let _ = maps::socket_origin.remove(&key);
    }
    1
}

/// The address that the socket is connected to, as the hooks for translation write it.
///
/// # Safety
///
/// `sock` is the context of a running program.
#[inline(always)]
unsafe fn peer(sock: *mut bpf_sock) -> Option<Addr> {
    // SAFETY: as the caller promises.
    unsafe {
        // Both are read before the family is looked at: reads in branches could be merged into one at a computed offset,
        // which the verifier does not allow for a context.
        let v4 = (&raw const (*sock).dst_ip4).read_volatile().to_ne_bytes();
        let words = (&raw const (*sock).dst_ip6).cast::<u32>();
        let word = |i: usize| words.add(i).read_volatile().to_ne_bytes();
        let (a, b, c, d) = (word(0), word(1), word(2), word(3));
        match (&raw const (*sock).family).read_volatile() {
            AF_INET => Some(Addr::v4(v4)),
            AF_INET6 => Some(Addr([
                a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3], c[0], c[1], c[2], c[3], d[0], d[1], d[2], d[3],
            ])),
            _ => None,
        }
    }
}
