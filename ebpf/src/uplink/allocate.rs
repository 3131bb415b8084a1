//! Source ports for connections that leave with the node's address.

use aya_ebpf::bindings::{__sk_buff, BPF_F_CURRENT_NETNS, bpf_sock_tuple};
use aya_ebpf::cty::c_void;
use aya_ebpf::helpers::{bpf_get_prandom_u32, bpf_sk_lookup_udp, bpf_sk_release, bpf_skc_lookup_tcp};
use skep_abi::{Counter, NatKey, Reason};
use skep_verdict::nat::{self, PORT_TRIES, Ports};
use skep_verdict::proto;

use super::flow::{self, Written};
use super::forward::words;
use super::scratch::{self, Scratch};
use crate::action::{Packed, pack};
use crate::skb::Skb;
use crate::{maps, record};

/// The pair is written.
pub(crate) const DONE: i32 = 0;
/// Another packet of the flow was first: the flow is to be looked up again.
pub(crate) const RACED: i32 = 1;

/// Completes `s.value`, whose source address is the node's, by a port that is free towards its destination, and writes the
/// pair of `s.key`.
#[inline(always)]
pub(crate) fn allocate(skb: Skb) -> Packed {
    skep_uplink_allocate(skb.0)
}

/// See [`allocate`]; verified by itself, as [`parse`](super::parse) says.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn skep_uplink_allocate(skb: *mut __sk_buff) -> Packed {
    let Some(s) = scratch::again() else { return pack(Err(Reason::MapError)) };
    pack(try_allocate(skb.cast(), s))
}

#[inline(always)]
fn try_allocate(context: *mut c_void, s: &mut Scratch) -> Result<i32, Reason> {
    let hash = prepare(s);
    let ports = Ports::new(scratch::config()?);
    let free = nat::has_free_port(s.key.proto);
    let tries = if free { ports.len() } else { 1 };
    // SAFETY: no arguments, no preconditions.
    let random = unsafe { bpf_get_prandom_u32() };
    for attempt in 0..PORT_TRIES {
        if attempt >= tries {
            break;
        }
        if free {
            // Who comes again after all of these were in use looks elsewhere.
            let again = attempt >= PORT_TRIES / 2 && ports.len() > PORT_TRIES;
            let port_be = ports.nth(if again { random } else { hash }, attempt).to_be();
            s.value.src_port_be = port_be;
            if proto::has_ports(s.key.proto) {
                s.other_key.dst_port_be = port_be;
            } else {
                s.other_key.src_port_be = port_be;
            }
        }
        let written = claim(context, s);
        if written == Written::Done as u32 {
            record::tally(Counter::SnatAllocated);
            return Ok(DONE);
        }
        if written == Written::Raced as u32 {
            return Ok(RACED);
        }
        if written == Written::Failed as u32 {
            return Err(Reason::MapError);
        }
        record::tally(Counter::SnatRetried);
    }
    record::tally(Counter::SnatExhausted);
    Err(Reason::NatExhausted)
}

/// Makes `s.other` the entry for the answers, and gives the hash that the tries begin at. A function of its own, whose part
/// of the stack is free again in the loop.
#[inline(never)]
fn prepare(s: &mut Scratch) -> u32 {
    s.other = nat::reply(&s.key, &s.value);
    s.other_key = nat::other_key(&s.key, &s.value);
    nat::tuple_hash(&s.key)
}

/// Tries one port.
#[inline(never)]
fn claim(context: *mut c_void, s: &Scratch) -> u32 {
    // SAFETY: only whether it is there counts.
    if unsafe { maps::nat.get(&s.other_key) }.is_some() || is_of_host(context, &s.other_key) {
        return Written::Taken as u32;
    }
    flow::write(s)
}

/// Whether a socket of this network namespace would get the answers: one that is connected to the same peer from the same
/// port, or listens there.
#[inline(always)]
fn is_of_host(context: *mut c_void, answer: &NatKey) -> bool {
    if !matches!(answer.proto, proto::TCP | proto::UDP) {
        return false;
    }
    // Laid out as the kernel's `bpf_sock_tuple`, in either form: addresses, then ports.
    let (src, dst) = (words(&answer.src), words(&answer.dst));
    let ports = u32::from(answer.src_port_be) | u32::from(answer.dst_port_be) << 16;
    let ports = if cfg!(target_endian = "big") { ports.rotate_left(16) } else { ports };
    let mut tuple = [src[3], dst[3], ports, src[3], dst[0], dst[1], dst[2], dst[3], ports];
    let mut size = 3 * size_of::<u32>() as u32;
    if !answer.src.is_v4() {
        (tuple[0], tuple[1], tuple[2]) = (src[0], src[1], src[2]);
        size = 9 * size_of::<u32>() as u32;
    }
    let tuple = tuple.as_mut_ptr().cast::<bpf_sock_tuple>();
    let netns = i64::from(BPF_F_CURRENT_NETNS).cast_unsigned();
    // SAFETY: the helpers read `size` bytes of the tuple; a socket is given back at once and not looked at.
    unsafe {
        let socket = if answer.proto == proto::TCP {
            bpf_skc_lookup_tcp(context, tuple, size, netns, 0)
        } else {
            bpf_sk_lookup_udp(context, tuple, size, netns, 0)
        };
        if socket.is_null() {
            return false;
        }
        bpf_sk_release(socket.cast());
    }
    true
}
