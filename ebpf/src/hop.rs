//! Hops of packets that go past the stack's forwarding, which would have counted them.

use skep_abi::Reason;
use skep_verdict::packet::{Bytes as _, Chunk, Packet};

use crate::skb::Skb;

/// Offsets of hop limit and time to live in their headers, and of the IPv4 header's checksum.
const HOP_LIMIT: u32 = 7;
const TIME_TO_LIVE: u32 = 8;
const CHECKSUM: u32 = 10;

/// Counts one hop. Says no, and leaves the packet as it is, when it has none left: its sender is to be told.
#[inline(always)]
pub(crate) fn count(skb: Skb, packet: &Packet) -> Result<bool, Reason> {
    if packet.v6 {
        let limit: Chunk<1> = skb.load(packet.l3 + HOP_LIMIT).ok_or(Reason::Malformed)?;
        if limit[0] <= 1 {
            return Ok(false);
        }
        skb.store_summed(packet.l3 + HOP_LIMIT, &[limit[0] - 1])?;
        return Ok(true);
    }
    let old: Chunk<2> = skb.load(packet.l3 + TIME_TO_LIVE).ok_or(Reason::Malformed)?;
    if old[0] <= 1 {
        return Ok(false);
    }
    let new = [old[0] - 1, old[1]];
    let word = |[ttl, protocol]: [u8; 2]| u32::from_ne_bytes([ttl, protocol, 0, 0]);
    skb.l3_csum(packet.l3 + CHECKSUM, word(old.0), word(new))?;
    // The header's checksum changes by the opposite: the sum of the whole packet stays.
    skb.store(packet.l3 + TIME_TO_LIVE, &[new[0]])?;
    Ok(true)
}
