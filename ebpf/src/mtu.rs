//! Whether packets fit through interfaces that they are sent to past the stack.

use aya_ebpf::Global;
use aya_ebpf::helpers::bpf_check_mtu;
use skep_verdict::packet::{Bytes as _, Chunk, Packet};

use crate::skb::Skb;

/// Whether the kernel has `bpf_check_mtu` (5.12); the agent finds out and sets it before the programs are loaded.
#[unsafe(no_mangle)]
static HAS_CHECK_MTU: Global<u8> = Global::new(0);

/// Whether the packet, or each of those that it will be cut into, fits through an interface. Where the kernel cannot say, it
/// does not: nothing goes past the stack then that the stack might have had to answer.
#[inline(always)]
pub(crate) fn fits(skb: Skb, ifindex: u32) -> bool {
    HAS_CHECK_MTU.load() != 0 && check(skb, ifindex).0 == 0
}

/// Whether a packet neither fits through an interface nor may be cut on the way, which its sender must be told. It can be told
/// only what it knows the connection of.
#[inline(never)]
pub(crate) fn is_too_big(skb: Skb, packet: &Packet, ifindex: u32) -> bool {
    /// "Don't fragment", in the upper byte of flags and offset (RFC 791).
    const DONT_FRAGMENT: u8 = 0x40;
    if HAS_CHECK_MTU.load() == 0 || !packet.has_l4() || check(skb, ifindex).0 <= 0 {
        return false;
    }
    if packet.v6 {
        return true;
    }
    let flags: Option<Chunk<1>> = skb.load(packet.l3 + 6);
    flags.is_some_and(|flags| flags[0] & DONT_FRAGMENT != 0)
}

/// The MTU of an interface, 0 when it is not known.
#[inline(always)]
pub(crate) fn of(skb: Skb, ifindex: u32) -> u32 {
    if HAS_CHECK_MTU.load() == 0 { 0 } else { check(skb, ifindex).1 }
}

/// What the kernel says of packet and interface, 0 when all fits and negative when there is no such interface, and the
/// interface's MTU.
#[inline(always)]
fn check(skb: Skb, ifindex: u32) -> (i64, u32) {
    /// A packet that was put together on receipt, or is yet to be cut, counts by its segments (`BPF_MTU_CHK_SEGS`).
    const EACH_SEGMENT: u64 = 1;
    let mut mtu = 0;
    // SAFETY: the helper writes the MTU into the place given for it.
    let result = unsafe { bpf_check_mtu(skb.0.cast(), ifindex, &raw mut mtu, 0, EACH_SEGMENT) };
    (result, mtu)
}
