//! The way that a packet goes on.

use aya_ebpf::bindings::{
    BPF_FIB_LKUP_RET_SUCCESS, BPF_FIB_LOOKUP_OUTPUT, bpf_fib_lookup, bpf_fib_lookup__bindgen_ty_1,
    bpf_fib_lookup__bindgen_ty_2, bpf_fib_lookup__bindgen_ty_3, bpf_fib_lookup__bindgen_ty_4,
    bpf_fib_lookup__bindgen_ty_5,
};
use aya_ebpf::helpers;
use skep_abi::{NatValue, nat_flags};
use skep_verdict::packet::Chunk;
use skep_verdict::plain::Plain;

use super::frame::Frame;
use crate::uplink::forward::{AF_INET, AF_INET6, words};

/// Destination and source of the frame in which a packet goes on by the uplink: as tc's redirection finds them, with the source
/// that the packet is to have. Nothing when the node's routes have no such way, the next hop's link-layer address is not known,
/// or the packet is too long for its way.
///
/// With direct return the next hop is the backend's node itself.
#[inline(always)]
pub(super) fn next(frame: Frame, uplink: u32, plain: &Plain, entry: &NatValue) -> Option<Chunk<12>> {
    let v6 = plain.packet.v6;
    let direct = entry.flags & nat_flags::DSR != 0;
    let src = words(if direct { &plain.packet.src } else { &entry.src });
    let dst = words(&entry.dst);
    let (src, dst) = if v6 { (src, dst) } else { ([src[3], 0, 0, 0], [dst[3], 0, 0, 0]) };
    let mut params = bpf_fib_lookup {
        family: if v6 { AF_INET6 } else { AF_INET } as u8,
        l4_protocol: plain.packet.proto,
        sport: 0,
        dport: 0,
        __bindgen_anon_1: bpf_fib_lookup__bindgen_ty_1 { tot_len: plain.len as u16 },
        ifindex: uplink,
        // For IPv4 only the first byte counts.
        __bindgen_anon_2: bpf_fib_lookup__bindgen_ty_2 { flowinfo: if v6 { plain.class } else { plain.class.to_le() } },
        __bindgen_anon_3: bpf_fib_lookup__bindgen_ty_3 { ipv6_src: src },
        __bindgen_anon_4: bpf_fib_lookup__bindgen_ty_4 { ipv6_dst: dst },
        __bindgen_anon_5: bpf_fib_lookup__bindgen_ty_5 { tbid: 0 },
        smac: [0; 6],
        dmac: [0; 6],
    };
    // SAFETY: the helper reads and writes as many bytes as it is told to.
    let found = unsafe {
        let size = size_of::<bpf_fib_lookup>() as i32;
        helpers::bpf_fib_lookup(frame.0.cast(), &raw mut params, size, BPF_FIB_LOOKUP_OUTPUT)
    };
    if found != i64::from(BPF_FIB_LKUP_RET_SUCCESS) || params.ifindex != uplink {
        return None;
    }
    // SAFETY: every form of the union is plain words.
    if direct && unsafe { params.__bindgen_anon_4.ipv6_dst } != dst {
        return None;
    }
    let ([a, b, c, d, e, f], [g, h, i, j, k, l]) = (params.dmac, params.smac);
    Some(Chunk([a, b, c, d, e, f, g, h, i, j, k, l]))
}
