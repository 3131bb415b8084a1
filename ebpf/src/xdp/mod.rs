//! The program at the driver of the uplink, where there is no packet buffer of the kernel yet. It knows one thing: packets of
//! known flows that go out of the uplink again, to a backend on another node or back from there to the client.
//!
//! ```text
//! frame -> plain packet -> known flow that turns round -> next hop -> translated, a hop less -> out of the same interface
//!    |           |                     |                     |
//!    +-----------+---------------------+---------------------+--> as it came, to skep_from_uplink
//! ```
//!
//! What becomes of a packet here is what tc would have made of it, and the entries of `nat` change in the same way. Whatever is
//! out of the ordinary is tc's: first packets, fragments, ICMP, extension headers, the last hop, packets that are too long for
//! their way, flows that are over or whose backend is gone, ways by the overlay or by neighbours that are not known.
//!
//! Two things are peculiar to the place. A frame of a virtual wire can have a checksum that is yet to be finished, of which
//! nothing but the kernel's packet buffer would know: such a packet is left to tc. And the stack does not see what is sent from
//! here, so that now and then a packet of each flow goes through it, lest it forgets to ask whether the neighbour is still
//! there.

mod frame;
mod way;

use aya_ebpf::bindings::xdp_action::{XDP_ABORTED, XDP_PASS, XDP_TX};
use aya_ebpf::helpers::bpf_redirect;
use aya_ebpf::macros::xdp;
use aya_ebpf::programs::XdpContext;
use skep_abi::{Counter, Direction, NatKey, NatValue, Reason, config_flags, nat_flags};
use skep_verdict::packet::{Bytes as _, Chunk, ETH_LEN, ETH_P_IP, ETH_P_IPV6, Packet};
use skep_verdict::plain::{self, Plain, Store as _};
use skep_verdict::{conn, nat};

use self::frame::Frame;
use crate::uplink::{flow, forward, overlay};
use crate::{maps, record, route, select};

#[xdp]
pub(crate) fn skep_xdp_uplink(ctx: XdpContext) -> u32 {
    run(Frame(ctx.ctx)).unwrap_or(XDP_PASS)
}

/// Sends a packet on; nothing when it is tc's.
#[inline(always)]
fn run(mut frame: Frame) -> Option<u32> {
    let config = maps::config.get(0)?;
    let eth: Chunk<14> = frame.load(0)?;
    let v6 = match u16::from_be_bytes([eth[12], eth[13]]) {
        ETH_P_IP => false,
        ETH_P_IPV6 => true,
        _ => return None,
    };
    // What is another machine's is only overheard.
    if [eth[0], eth[1], eth[2], eth[3], eth[4], eth[5]] != config.uplink_mac {
        return None;
    }
    let mut plain = Plain::EMPTY;
    if !plain::parse(&frame, ETH_LEN, v6, &mut plain) || plain.hops <= 1 {
        return None;
    }
    let key = nat::key(&plain.packet);
    let entry = maps::nat.get_ptr_mut(&key)?;
    // SAFETY: as in `flow::find`, for which this stands.
    let entry = unsafe { &mut *entry };
    let now = flow::now();
    let direct = entry.flags & nat_flags::DSR != 0;
    if !direct && !forward::turns_round(entry) {
        return None;
    }
    if nat::is_over(entry, &plain.packet, now) || nat::begins_stretch(entry, &key, now) {
        return None;
    }
    if plain.is_unfinished() || has_lost_backend(entry, &plain.packet) {
        return None;
    }
    if config.tunnel_ifindex != 0 {
        let overlaid = !direct && nat::is_remote_pod(route::of(&entry.dst));
        if overlaid || overlay::is_outer(&plain.packet) {
            return None;
        }
    }
    let macs = way::next(frame, config.uplink_ifindex, &plain, entry)?;
    // From here on the packet is this program's.
    advance(&key, entry, &plain.packet, now);
    let written = if direct {
        record::tally(Counter::DirectReturn);
        plain::count_hop(&mut frame, &plain)
    } else {
        plain::translate(&mut frame, &plain, entry)
    };
    if !written || !frame.store(0, &macs) {
        // Not reached: all of it was there to be read.
        record::count(Reason::Malformed, Direction::Ingress, plain.len);
        return Some(XDP_ABORTED);
    }
    record::tally(Counter::XdpForwarded);
    if config.flags & config_flags::XDP_REDIRECT == 0 {
        return Some(XDP_TX);
    }
    // SAFETY: plain values.
    Some(unsafe { bpf_redirect(config.uplink_ifindex, 0) } as u32)
}

/// Takes the packet into account, as `flow::find` does.
#[inline(always)]
fn advance(key: &NatKey, entry: &mut NatValue, packet: &Packet, now: u64) {
    if nat::concerns_both(entry, packet) {
        let other_key = nat::other_key(key, entry);
        // SAFETY: as in `flow::find`.
        let other = maps::nat.get_ptr_mut(&other_key).map(|other| unsafe { &mut *other });
        nat::advance(entry, other, packet, now);
    } else {
        nat::advance(entry, None, packet, now);
    }
}

/// Whether the packet would be led to a backend that is no more; tc then gives it another.
#[inline(always)]
fn has_lost_backend(entry: &NatValue, packet: &Packet) -> bool {
    entry.flags & nat_flags::FORWARD != 0 && conn::opens(packet) && select::backend(entry.backend).is_none()
}
