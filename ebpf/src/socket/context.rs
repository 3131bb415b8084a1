//! The address in the kernel's hands, read and written by word as the verifier wants it.

use aya_ebpf::bindings::bpf_sock_addr;
use aya_ebpf::helpers::bpf_get_socket_cookie;
use aya_ebpf::programs::SockAddrContext;
use skep_abi::Addr;

/// Which words of the context hold the address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

/// A typed view of a `bpf_sock_addr`.
#[derive(Clone, Copy)]
pub(crate) struct Socket {
    ctx: *mut bpf_sock_addr,
    family: Family,
}

impl Socket {
    #[inline(always)]
    pub(crate) fn new(ctx: &SockAddrContext, family: Family) -> Self {
        Self { ctx: ctx.sock_addr, family }
    }

    /// The address: of the peer that the program names (connect, send) or that the kernel is about to tell it.
    #[inline(always)]
    pub(crate) fn addr(&self) -> Addr {
        // SAFETY: the context outlives the program. Volatile keeps the compiler from merging words into accesses that
        // the verifier does not allow.
        unsafe {
            match self.family {
                Family::V4 => Addr::v4((&raw const (*self.ctx).user_ip4).read_volatile().to_ne_bytes()),
                Family::V6 => {
                    let words = &raw const (*self.ctx).user_ip6;
                    let word = |i: usize| words.cast::<u32>().add(i).read_volatile().to_ne_bytes();
                    let (a, b, c, d) = (word(0), word(1), word(2), word(3));
                    Addr([
                        a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3], c[0], c[1], c[2], c[3], d[0], d[1], d[2], d[3],
                    ])
                }
            }
        }
    }

    /// Port, network byte order.
    #[inline(always)]
    pub(crate) fn port_be(&self) -> u16 {
        // SAFETY: as in `addr`.
        unsafe { (&raw const (*self.ctx).user_port).read_volatile() as u16 }
    }

    /// IP protocol number.
    #[inline(always)]
    pub(crate) fn proto(&self) -> u8 {
        // SAFETY: as in `addr`.
        unsafe { (&raw const (*self.ctx).protocol).read_volatile() as u8 }
    }

    /// Puts another address and port in place. The families must be the same: a backend of another family is no match.
    #[inline(always)]
    pub(crate) fn set(&self, addr: &Addr, port_be: u16) {
        let a = &addr.0;
        // SAFETY: as in `addr`.
        unsafe {
            match self.family {
                Family::V4 => {
                    (&raw mut (*self.ctx).user_ip4).write_volatile(u32::from_ne_bytes([a[12], a[13], a[14], a[15]]));
                }
                Family::V6 => {
                    let words = (&raw mut (*self.ctx).user_ip6).cast::<u32>();
                    words.write_volatile(u32::from_ne_bytes([a[0], a[1], a[2], a[3]]));
                    words.add(1).write_volatile(u32::from_ne_bytes([a[4], a[5], a[6], a[7]]));
                    words.add(2).write_volatile(u32::from_ne_bytes([a[8], a[9], a[10], a[11]]));
                    words.add(3).write_volatile(u32::from_ne_bytes([a[12], a[13], a[14], a[15]]));
                }
            }
            (&raw mut (*self.ctx).user_port).write_volatile(u32::from(port_be));
        }
    }

    /// The socket's number, unique while the kernel is up.
    #[inline(always)]
    pub(crate) fn cookie(&self) -> u64 {
        // SAFETY: the context outlives the program.
        unsafe { bpf_get_socket_cookie(self.ctx.cast()) }
    }

    /// The number of the socket's network namespace: a pod, or the host.
    #[inline(always)]
    pub(crate) fn netns(&self) -> u64 {
        // SAFETY: the context outlives the program.
        unsafe { aya_ebpf::helpers::bpf_get_netns_cookie(self.ctx.cast()) }
    }
}
