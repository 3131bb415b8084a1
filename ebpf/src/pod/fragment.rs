//! Ports of fragments that do not carry them.

use skep_abi::{Direction, Endpoint, FragmentKey, FragmentValue, Reason};
use skep_verdict::packet::{Packet, Part};

use crate::maps;

/// Remembers the ports of a first fragment, or fills in those of a later one.
///
/// # Errors
///
/// A later fragment without a first one is dropped where it would have to be judged.
#[inline(never)]
pub(crate) fn resolve(endpoint: &Endpoint, packet: &mut Packet, direction: Direction) -> Result<(), Reason> {
    let key = FragmentKey {
        src: packet.src,
        dst: packet.dst,
        endpoint: endpoint.id,
        id: packet.fragment_id,
        proto: packet.proto,
        direction: direction as u8,
        pad: 0,
    };
    if packet.part as u8 == Part::First as u8 {
        let ports = FragmentValue { src_port_be: packet.src_port_be, dst_port_be: packet.dst_port_be };
        return maps::fragments.insert(&key, &ports, 0).map_err(|_| Reason::MapError);
    }
    // SAFETY: an entry that is recycled meanwhile gives wrong ports to one fragment, whose datagram is then lost.
    let ports = unsafe { maps::fragments.get(&key) }.ok_or(Reason::UnknownFragment)?;
    packet.src_port_be = ports.src_port_be;
    packet.dst_port_be = ports.dst_port_be;
    Ok(())
}
