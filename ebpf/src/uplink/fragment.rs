//! Ports of fragments that do not carry them.

use skep_abi::{Direction, FragmentKey, FragmentValue};
use skep_verdict::packet::{Packet, Part};

use crate::maps;

/// Stands in the place of an endpoint's number, none of which is as high.
const UPLINK: u32 = u32::MAX;

/// Remembers the ports of a first fragment, or fills in those of a later one; says whether they are known.
#[inline(never)]
pub(crate) fn resolve(packet: &mut Packet, direction: Direction) -> bool {
    let key = FragmentKey {
        src: packet.src,
        dst: packet.dst,
        endpoint: UPLINK,
        id: packet.fragment_id,
        proto: packet.proto,
        direction: direction as u8,
        pad: 0,
    };
    if packet.part as u8 == Part::First as u8 {
        let ports = FragmentValue { src_port_be: packet.src_port_be, dst_port_be: packet.dst_port_be };
        return maps::fragments.insert(&key, &ports, 0).is_ok();
    }
    // SAFETY: an entry that is recycled meanwhile gives wrong ports to one fragment, whose datagram is then lost.
    let Some(ports) = (unsafe { maps::fragments.get(&key) }) else { return false };
    packet.src_port_be = ports.src_port_be;
    packet.dst_port_be = ports.dst_port_be;
    true
}
