//! The end of a packet's way through the programs for packets from outside.

use skep_abi::{Direction, Reason};

use super::scratch::{self, Scratch};
use super::service;
use crate::action::{Packed, unpack};
use crate::pod::refuse;
use crate::skb::Skb;

/// Does what has been decided about a packet: answers one that is refused, counts and reports one that ends here.
///
/// Answers need most of the stack: this is inlined into the programs, so that no frame but theirs is below.
#[inline(always)]
pub(crate) fn conclude(skb: Skb, s: &Scratch, decided: Packed) -> i32 {
    let result = match unpack(decided) {
        Ok(service::REFUSED) => unpack(refuse::answer(skb, &s.packet)),
        Ok(action) => return action,
        Err(reason) => Err(reason),
    };
    let reason = match result {
        Ok(_) => Reason::NoEndpoints,
        Err(reason) => reason,
    };
    let shot = scratch::dropped(skb, s, Direction::Ingress, reason);
    result.unwrap_or(shot)
}
