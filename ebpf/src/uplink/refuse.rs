//! Refusal of connections to Services without endpoints, and to ports of load balancer addresses that no Service has.

use skep_abi::{Direction, Reason};

use super::scratch::{self, Scratch};
use crate::action::{Packed, pack, unpack};
use crate::pod::refuse;
use crate::skb::Skb;

/// Answers the client at once; the packet is counted as dropped.
#[inline(never)]
pub(crate) fn refuse(skb: Skb, s: &Scratch) -> Packed {
    pack(try_refuse(skb, s))
}

#[inline(always)]
fn try_refuse(skb: Skb, s: &Scratch) -> Result<i32, Reason> {
    let action = unpack(refuse::answer(skb, &s.packet))?;
    scratch::dropped(skb, s, Direction::Ingress, Reason::NoEndpoints);
    Ok(action)
}
