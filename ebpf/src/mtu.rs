//! Whether packets fit through interfaces that they are sent to past the stack.

use aya_ebpf::Global;
use aya_ebpf::helpers::bpf_check_mtu;

use crate::skb::Skb;

/// Whether the kernel has `bpf_check_mtu` (5.12); the agent finds out and sets it before the programs are loaded.
#[unsafe(no_mangle)]
static HAS_CHECK_MTU: Global<u8> = Global::new(0);

/// Whether the packet, or each of those that it will be cut into, fits through an interface. Where the kernel cannot say, it
/// does not: nothing goes past the stack then that the stack might have had to answer.
#[inline(always)]
pub(crate) fn fits(skb: Skb, ifindex: u32) -> bool {
    HAS_CHECK_MTU.load() != 0 && check(skb, ifindex) == 0
}

/// What the kernel says of packet and interface: 0 when all fits, negative when there is no such interface.
#[inline(always)]
fn check(skb: Skb, ifindex: u32) -> i64 {
    /// A packet that was put together on receipt, or is yet to be cut, counts by its segments (`BPF_MTU_CHK_SEGS`).
    const EACH_SEGMENT: u64 = 1;
    let mut mtu = 0;
    // SAFETY: the helper writes the MTU into the place given for it.
    unsafe { bpf_check_mtu(skb.0.cast(), ifindex, &raw mut mtu, 0, EACH_SEGMENT) }
}
