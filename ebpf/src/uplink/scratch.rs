//! Memory of one packet's way through a program, which would not fit on the 512 bytes of its stack.

use aya_ebpf::btf_maps::PerCpuArray;
use aya_ebpf::macros::btf_map;
use skep_abi::{Addr, Config, Direction, NatKey, NatValue, Reason, Verdict};
use skep_verdict::packet::{Bytes, Packet};
use skep_verdict::policy::NO_RULE;

use super::SHOT;
use crate::skb::Skb;
use crate::{maps, record};

/// What is known about the packet so far.
#[repr(C)]
pub(crate) struct Scratch {
    /// The packet as it came.
    pub(crate) packet: Packet,
    /// The packet that an ICMP error quotes.
    pub(crate) quoted: Packet,
    /// Key of the packet's flow.
    pub(crate) key: NatKey,
    /// Key of the flow's other direction.
    pub(crate) other_key: NatKey,
    /// The entry to `key` that is to be written.
    pub(crate) value: NatValue,
    /// The entry to `other_key` that is to be written.
    pub(crate) other: NatValue,
    /// The time, nanoseconds of the boot-time clock.
    pub(crate) now: u64,
    /// The node behind which the chosen backend is, none when it is this one; where a packet goes from here.
    pub(crate) next_hop: Addr,
    /// Not 0 when the chosen backend is outside of the cluster, or an ICMP error goes out of the uplink again.
    pub(crate) outside: u32,
    /// The tunnel's number that a packet of another node's pod came with, or [`NO_NUMBER`].
    pub(crate) number: u32,
}

/// Is no tunnel's number: those have 24 bits.
pub(crate) const NO_NUMBER: u32 = u32::MAX;

#[btf_map]
static UPLINK_SCRATCH: PerCpuArray<Scratch, 1> = PerCpuArray::new();

/// This CPU's scratch memory, for a new packet. Programs of this kind do not interrupt each other on one CPU.
#[inline(always)]
pub(crate) fn get() -> Option<&'static mut Scratch> {
    let memory = UPLINK_SCRATCH.get_ptr_mut(0)?;
    // SAFETY: this CPU's own entry, which lives as long as the map; the reference is taken once a run. It begins as zeroes
    // and is only ever written as a Scratch: what it holds is valid, if of an earlier packet.
    unsafe {
        record::clear(&raw mut (*memory).key);
        (*memory).value.service = 0;
        (*memory).packet.proto = 0;
        Some(&mut *memory)
    }
}

/// The same memory, in a function that the verifier looks at by itself: such a one takes no pointers but the program's
/// context. What it is called with is in the memory.
#[inline(always)]
pub(crate) fn again() -> Option<&'static mut Scratch> {
    let memory = UPLINK_SCRATCH.get_ptr_mut(0)?;
    // SAFETY: as in `get`; the caller's reference rests until the function returns.
    Some(unsafe { &mut *memory })
}

/// Node-wide settings.
#[inline(always)]
pub(crate) fn config() -> Result<&'static Config, Reason> {
    maps::config.get(0).ok_or(Reason::MapError)
}

/// Counts and reports a packet that ends here. To the reader of flow events the Service is the near side.
#[inline(never)]
pub(crate) fn dropped(skb: Skb, s: &Scratch, direction: Direction, reason: Reason) -> i32 {
    record::count(reason, direction, skb.len());
    record::event(|event| {
        let (near, far) = match direction {
            Direction::Ingress => ((&s.packet.dst, s.packet.dst_port_be), (&s.packet.src, s.packet.src_port_be)),
            Direction::Egress => ((&s.packet.src, s.packet.src_port_be), (&s.packet.dst, s.packet.dst_port_be)),
        };
        event.local = *near.0;
        event.local_port_be = near.1;
        event.remote = *far.0;
        event.remote_port_be = far.1;
        if let Direction::Ingress = direction {
            event.service = *near.0;
            event.service_port_be = near.1;
        }
        event.rule = NO_RULE;
        event.proto = s.packet.proto;
        event.direction = direction as u8;
        event.bytes = skb.len();
        event.verdict = Verdict::Dropped as u8;
        event.reason = reason as u8;
    });
    SHOT
}
