//! The end of a packet's way through the programs for packets from outside.

use skep_abi::{Direction, Reason};

use super::scratch::{self, Scratch};
use crate::action::{Packed, unpack};
use crate::mtu;
use crate::pod::{inward, refuse};
use crate::skb::Skb;

/// The packet is to be refused. No tc action has this number, nor those below: what they stand for is done by the program itself,
/// because the stack of a deeper call would have no room for it.
pub(crate) const REFUSED: i32 = 1000;
/// The packet does not fit into the overlay, and its sender is to be told.
pub(crate) const TOO_BIG: i32 = 1001;
/// The packet is the stack's, unless there is a short way to a pod.
pub(crate) const INWARD: i32 = 1002;

/// Does what has been decided about a packet: answers one that is refused or too big, counts and reports one that ends here.
///
/// Answers need most of the stack: this is inlined into the programs, so that no frame but theirs is below.
#[inline(always)]
pub(crate) fn conclude(skb: Skb, s: &Scratch, decided: Packed) -> i32 {
    let result = match unpack(decided) {
        Ok(REFUSED) => return refused(skb, s),
        Ok(TOO_BIG) => too_big(skb, s),
        Ok(INWARD) => unpack(inward::send(skb, &s.packet, s.now)),
        result => result,
    };
    match result {
        Ok(action) => action,
        Err(reason) => scratch::dropped(skb, s, Direction::Ingress, reason),
    }
}

/// Answers a packet that is refused, and counts it as dropped.
#[inline(always)]
fn refused(skb: Skb, s: &Scratch) -> i32 {
    let answer = unpack(refuse::answer(skb, &s.packet));
    let reason = match answer {
        Ok(_) => Reason::NoEndpoints,
        Err(reason) => reason,
    };
    let shot = scratch::dropped(skb, s, Direction::Ingress, reason);
    answer.unwrap_or(shot)
}

/// Tells the sender of a packet how much fits into the overlay.
#[inline(always)]
fn too_big(skb: Skb, s: &Scratch) -> Result<i32, Reason> {
    refuse::too_big(skb, &s.packet, mtu::of(skb, scratch::config()?.tunnel_ifindex))?;
    skb.send_back()
}
