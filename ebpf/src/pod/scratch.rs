//! Memory of one packet's way through a program, which would not fit on the 512 bytes of its stack.

use aya_ebpf::btf_maps::PerCpuArray;
use aya_ebpf::macros::btf_map;
use skep_abi::{Addr, Bits, ConnKey, ConnValue, Direction, Endpoint, FlowEvent, Reason, Verdict};
use skep_verdict::packet::{Bytes, Packet};
use skep_verdict::policy::NO_RULE;

use super::SHOT;
use crate::record;
use crate::skb::Skb;

/// What is known about the packet so far.
#[repr(C)]
pub(crate) struct Scratch {
    /// The packet as it came.
    pub(crate) packet: Packet,
    /// The packet that an ICMP error quotes.
    pub(crate) quoted: Packet,
    /// Key of the flow.
    pub(crate) key: ConnKey,
    /// Key of the Service translation.
    pub(crate) service_key: ConnKey,
    /// A value to be written.
    pub(crate) value: ConnValue,
    /// The Service address that the pod asked for, or none.
    pub(crate) service: Addr,
    /// Port to `service`, network byte order.
    pub(crate) service_port_be: u16,
    /// Why a Service refuses.
    pub(crate) refusal: Reason,
    pub(crate) pad: u8,
    /// The backend that was chosen.
    pub(crate) backend: u32,
    /// The endpoint set that it is of (see [`skep_verdict::service::set_of`]).
    pub(crate) set: u64,
    /// Not 0 when that is the pod itself.
    pub(crate) hairpin: u32,
    /// Not 0 when later fragments of the datagram have gone before this first one.
    pub(crate) early: u32,
    /// The rule list that was asked, 0 for none.
    pub(crate) list: u32,
    /// The rule that decided.
    pub(crate) rule: u32,
    /// Rules of the word in hand that allow the other side.
    pub(crate) peers: Bits,
    /// Rules of the word in hand that allow the port.
    pub(crate) ports: Bits,
    /// The time, nanoseconds of the boot-time clock.
    pub(crate) now: u64,
    /// Identity of the other side by its own word, for when its address is not known here; 0 for none.
    pub(crate) newcomer: u64,
    /// Identity of the other side, 0 when unknown.
    pub(crate) identity: u64,
}

#[btf_map]
static SCRATCH: PerCpuArray<Scratch, 1> = PerCpuArray::new();

/// This CPU's scratch memory. Programs of this kind do not interrupt each other on one CPU.
#[inline(always)]
pub(crate) fn get() -> Option<&'static mut Scratch> {
    let memory = SCRATCH.get_ptr_mut(0)?;
    // SAFETY: this CPU's own entry, which lives as long as the map; the reference is taken once a run. It begins as zeroes
    // and is only ever written as a Scratch: what it holds is valid, if of an earlier packet.
    unsafe {
        record::clear(&raw mut (*memory).service);
        record::clear(&raw mut (*memory).key);
        (*memory).service_port_be = 0;
        (*memory).early = 0;
        (*memory).list = 0;
        (*memory).rule = NO_RULE;
        (*memory).identity = 0;
        (*memory).newcomer = 0;
        (*memory).packet.proto = 0;
        Some(&mut *memory)
    }
}

/// Counts and reports a packet that ends here.
#[inline(never)]
pub(crate) fn dropped(skb: Skb, endpoint: u32, s: &Scratch, direction: Direction, reason: Reason) -> i32 {
    record::count(reason, direction, skb.len());
    record::event(|event| {
        fill(event, s, endpoint, direction);
        event.bytes = skb.len();
        event.verdict = Verdict::Dropped as u8;
        event.reason = reason as u8;
    });
    SHOT
}

/// Reports a new connection that was allowed.
#[inline(never)]
pub(crate) fn allowed(skb: Skb, endpoint: u32, s: &Scratch, direction: Direction) {
    record::event(|event| {
        fill(event, s, endpoint, direction);
        event.bytes = skb.len();
        event.verdict = Verdict::Allowed as u8;
    });
}

#[inline(always)]
fn fill(event: &mut FlowEvent, s: &Scratch, endpoint: u32, direction: Direction) {
    event.remote_identity = s.identity;
    event.service = s.service;
    event.service_port_be = s.service_port_be;
    event.endpoint = endpoint;
    event.list = s.list;
    event.rule = s.rule;
    event.local = s.key.local;
    event.remote = s.key.remote;
    event.local_port_be = s.key.local_port_be;
    event.remote_port_be = s.key.remote_port_be;
    event.proto = s.packet.proto;
    event.direction = direction as u8;
}

/// The pod's own address of the packet's family.
#[inline(always)]
pub(crate) fn own_addr(endpoint: &Endpoint, v6: bool) -> &Addr {
    if v6 { &endpoint.addr6 } else { &endpoint.addr4 }
}
