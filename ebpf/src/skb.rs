//! The kernel's packet buffer.

use core::mem::MaybeUninit;

use aya_ebpf::bindings::{__sk_buff, BPF_F_INVALIDATE_HASH, BPF_F_RECOMPUTE_CSUM};
use aya_ebpf::cty::c_void;
use aya_ebpf::helpers::{
    bpf_l3_csum_replace, bpf_l4_csum_replace, bpf_redirect, bpf_skb_change_tail, bpf_skb_change_type,
    bpf_skb_load_bytes, bpf_skb_store_bytes,
};
use skep_abi::Reason;
use skep_verdict::packet::{Bytes, Chunk};

/// Mark of packets that the dataplane itself sends out of an interface: back to the pod that they came from, or out of the
/// uplink. They meet the program for packets that leave by it, which lets them through. Marks do not cross namespaces: no
/// pod can set it.
const OWN: u32 = 0x536b_6570;

/// A packet.
#[derive(Clone, Copy)]
pub(crate) struct Skb(pub(crate) *mut __sk_buff);

impl Bytes for Skb {
    #[inline(always)]
    fn load<const N: usize>(&self, offset: u32) -> Option<Chunk<N>> {
        let mut bytes = MaybeUninit::<Chunk<N>>::uninit();
        // SAFETY: the helper writes N bytes when it succeeds, and the array is only taken for initialised then.
        unsafe {
            let result =
                bpf_skb_load_bytes(self.0.cast::<c_void>().cast_const(), offset, bytes.as_mut_ptr().cast(), N as u32);
            (result == 0).then(|| bytes.assume_init())
        }
    }

    #[inline(always)]
    fn len(&self) -> u32 {
        // SAFETY: the context outlives the program.
        unsafe { (*self.0).len }
    }
}

impl Skb {
    /// EtherType, host byte order.
    #[inline(always)]
    pub(crate) fn ethertype(self) -> u16 {
        // SAFETY: the context outlives the program.
        u16::from_be(unsafe { (*self.0).protocol } as u16)
    }

    /// Index of the interface that the program is attached to.
    #[inline(always)]
    pub(crate) fn ifindex(self) -> u32 {
        // SAFETY: the context outlives the program.
        unsafe { (*self.0).ifindex }
    }

    /// Index of the interface that the packet came in by; 0 when it is of this host.
    #[inline(always)]
    pub(crate) fn ingress_ifindex(self) -> u32 {
        // SAFETY: the context outlives the program.
        unsafe { (*self.0).ingress_ifindex }
    }

    /// Whether the packet's link-layer address is another machine's: it is only overheard.
    #[inline(always)]
    pub(crate) fn is_for_others(self) -> bool {
        /// `PACKET_OTHERHOST` of the kernel's packet interface.
        const OTHER_HOST: u32 = 3;
        // SAFETY: the context outlives the program.
        unsafe { (*self.0).pkt_type == OTHER_HOST }
    }

    /// Makes the packet this host's whatever its link-layer address is.
    #[inline(always)]
    pub(crate) fn take_for_host(self) -> Result<(), Reason> {
        /// `PACKET_HOST` of the kernel's packet interface.
        const HOST: u32 = 0;
        // SAFETY: plain values.
        done(unsafe { bpf_skb_change_type(self.0, HOST) })
    }

    /// Marks the packet as sent by the dataplane itself.
    #[inline(always)]
    pub(crate) fn mark_own(self) {
        // SAFETY: the context outlives the program.
        unsafe { (*self.0).mark = OWN };
    }

    /// Whether the dataplane sent this packet itself; takes the mark away.
    #[inline(always)]
    pub(crate) fn take_own(self) -> bool {
        // SAFETY: the context outlives the program.
        unsafe {
            let own = (*self.0).mark == OWN;
            if own {
                (*self.0).mark = 0;
            }
            own
        }
    }

    /// Overwrites bytes that no checksum within the packet covers. What the hardware has summed up (CHECKSUM_COMPLETE) changes
    /// with them.
    #[inline(always)]
    pub(crate) fn store_summed<const N: usize>(self, offset: u32, bytes: &[u8; N]) -> Result<(), Reason> {
        let flags = u64::from(BPF_F_RECOMPUTE_CSUM);
        // SAFETY: as in `store`.
        done(unsafe { bpf_skb_store_bytes(self.0.cast(), offset, bytes.as_ptr().cast(), N as u32, flags) })
    }

    /// Overwrites bytes.
    #[inline(always)]
    pub(crate) fn store<const N: usize>(self, offset: u32, bytes: &[u8; N]) -> Result<(), Reason> {
        let flags = u64::from(BPF_F_INVALIDATE_HASH);
        // SAFETY: the helper reads N bytes.
        done(unsafe { bpf_skb_store_bytes(self.0.cast(), offset, bytes.as_ptr().cast(), N as u32, flags) })
    }

    /// Overwrites bytes, and takes the change into what the hardware has added up.
    #[inline(always)]
    pub(crate) fn store_and_sum<const N: usize>(self, offset: u32, bytes: &[u8; N]) -> Result<(), Reason> {
        let flags = u64::from(BPF_F_INVALIDATE_HASH | BPF_F_RECOMPUTE_CSUM);
        // SAFETY: the helper reads N bytes.
        done(unsafe { bpf_skb_store_bytes(self.0.cast(), offset, bytes.as_ptr().cast(), N as u32, flags) })
    }

    /// Sets the length, link-layer header included.
    #[inline(always)]
    pub(crate) fn resize(self, len: u32) -> Result<(), Reason> {
        // SAFETY: no pointer into the packet is held anywhere.
        done(unsafe { bpf_skb_change_tail(self.0.cast(), len, 0) })
    }

    /// Updates an IPv4 header checksum for four bytes that change.
    #[inline(always)]
    pub(crate) fn l3_csum(self, offset: u32, from: u32, to: u32) -> Result<(), Reason> {
        // SAFETY: plain values.
        done(unsafe { bpf_l3_csum_replace(self.0.cast(), offset, from.into(), to.into(), 4) })
    }

    /// Updates a checksum after the IP header; `flags` hold the size of what changes and `BPF_F_*` bits. What the hardware
    /// is yet to compute (CHECKSUM_PARTIAL) is kept right by the helper.
    #[inline(always)]
    pub(crate) fn l4_csum(self, offset: u32, from: u64, to: u64, flags: u64) -> Result<(), Reason> {
        // SAFETY: plain values.
        done(unsafe { bpf_l4_csum_replace(self.0.cast(), offset, from, to, flags) })
    }

    /// Sends the packet to where it came from: link-layer addresses change places.
    #[inline(always)]
    pub(crate) fn send_back(self) -> Result<i32, Reason> {
        let eth: Chunk<12> = self.load(0).ok_or(Reason::Malformed)?;
        let [a, b, c, d, e, f, g, h, i, j, k, l] = eth.0;
        self.store(0, &[g, h, i, j, k, l, a, b, c, d, e, f])?;
        self.mark_own();
        // SAFETY: plain values.
        Ok(unsafe { bpf_redirect(self.ifindex(), 0) } as i32)
    }
}

#[inline(always)]
fn done(result: i64) -> Result<(), Reason> {
    if result == 0 { Ok(()) } else { Err(Reason::MapError) }
}
