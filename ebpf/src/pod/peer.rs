//! The short way between two pods of one node: into the other pod at once, past the node's routing and the other interface's
//! queue.
//!
//! ```text
//! pod -> from_pod -> routing -> to_pod -> queue -> pod        first packets, and whatever this file does not vouch for
//! pod -> from_pod ---------------------------------> pod      packets of a flow that to_pod has let through before
//! ```
//!
//! `to_pod` has judged the flow when it made the receiver's entry. Only packets that such an entry speaks for go the short
//! way, and they are counted in it as `to_pod` would have done: policy, conntrack and what is shown of them stay the same.

use aya_ebpf::Global;
use aya_ebpf::helpers::bpf_redirect_peer;
use skep_abi::{Addr, ConnKey, ConnValue, Direction, Reason};
use skep_verdict::conn;
use skep_verdict::packet::Part;

use super::scratch::{Scratch, own_addr};
use super::{PASS, classify, track};
use crate::action::{Packed, pack};
use crate::skb::Skb;
use crate::{maps, mtu};

/// Whether the kernel has `bpf_redirect_peer` (5.10) beside `bpf_check_mtu`; the agent finds out and sets it before the programs
/// are loaded.
#[unsafe(no_mangle)]
pub(crate) static HAS_REDIRECT_PEER: Global<u8> = Global::new(0);

/// Packets of a flow in which the interface of its other side is looked for.
pub(super) const NOTED_WITHIN: u64 = 3;

/// Notes in a flow of the pod which interface its packets come from, when that is another pod's.
#[inline(always)]
pub(crate) fn note(skb: Skb, flow: &mut ConnValue) {
    if HAS_REDIRECT_PEER.load() == 0 || flow.backend != 0 || flow.rx_packets > NOTED_WITHIN {
        return;
    }
    let ifindex = skb.ingress_ifindex();
    // SAFETY: entries of a map without preallocation are freed only after a grace period that outlasts the program.
    if unsafe { maps::endpoints.get(&ifindex) }.is_some() {
        flow.backend = ifindex;
    }
}

/// Sends a packet of a known flow, as it is now, to the pod behind an interface that has been noted for it.
#[inline(never)]
pub(crate) fn send(skb: Skb, s: &mut Scratch, ifindex: u32) -> Packed {
    pack(try_send(skb, s, ifindex))
}

#[inline(always)]
fn try_send(skb: Skb, s: &mut Scratch, ifindex: u32) -> Result<i32, Reason> {
    // Ports of a first fragment are remembered where the later ones will be looked at.
    if HAS_REDIRECT_PEER.load() == 0 || s.packet.part as u8 != Part::Whole as u8 {
        return Ok(PASS);
    }
    // SAFETY: as in `note`.
    let Some(endpoint) = (unsafe { maps::endpoints.get(&ifindex) }) else { return Ok(PASS) };
    // Interfaces and addresses come and go: what was noted may be another pod's by now.
    if *own_addr(endpoint, s.packet.v6) != s.key.remote || classify::is_closed(endpoint) {
        return Ok(PASS);
    }
    s.service_key = ConnKey {
        local: s.key.remote,
        remote: s.key.local,
        endpoint: endpoint.id,
        local_port_be: s.key.remote_port_be,
        remote_port_be: s.key.local_port_be,
        proto: s.key.proto,
        kind: conn::FLOW,
        pad: 0,
    };
    let Some(flow) = track::find(&s.service_key, s) else { return Ok(PASS) };
    // What has to be translated back, and what does not fit, is left to those who can.
    if flow.nat_addr != Addr::NONE || !mtu::fits(skb, ifindex) {
        return Ok(PASS);
    }
    conn::advance(flow, &s.packet, Direction::Ingress, s.now);
    skb.store(0, &endpoint.mac)?;
    // SAFETY: plain values.
    Ok(unsafe { bpf_redirect_peer(ifindex, 0) } as i32)
}
