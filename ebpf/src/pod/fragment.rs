//! Ports of fragments that do not carry them.

use skep_abi::{Direction, Endpoint, FragmentKey, FragmentValue, Reason};
use skep_verdict::packet::Part;

use super::scratch::Scratch;
use crate::maps;

/// Stands for the ports of a datagram of which a later fragment came first and was let through. A datagram has none such:
/// port 0 sends nothing.
const EARLY: FragmentValue = FragmentValue { src_port_be: 0, dst_port_be: u16::MAX };

/// Remembers the ports of a first fragment, or fills in those of a later one. Notes in `s.early` that later fragments of the
/// same datagram have gone through before.
///
/// # Errors
///
/// A later fragment without a first one is dropped where it would have to be judged, see [`may_pass`].
#[inline(never)]
pub(crate) fn resolve(endpoint: &Endpoint, s: &mut Scratch, direction: Direction) -> Result<(), Reason> {
    let key = key(endpoint, s, direction);
    // SAFETY: an entry that is recycled meanwhile gives wrong ports to one fragment, whose datagram is then lost.
    let known = unsafe { maps::fragments.get(&key) };
    if s.packet.part as u8 == Part::First as u8 {
        s.early = u32::from(known.is_some_and(is_early));
        let ports = FragmentValue { src_port_be: s.packet.src_port_be, dst_port_be: s.packet.dst_port_be };
        return maps::fragments.insert(&key, &ports, 0).map_err(|_| Reason::MapError);
    }
    match known {
        Some(ports) if !is_early(ports) => {
            s.packet.src_port_be = ports.src_port_be;
            s.packet.dst_port_be = ports.dst_port_be;
            Ok(())
        }
        _ => Err(Reason::UnknownFragment),
    }
}

/// Whether a later fragment whose first one is late goes on all the same. No policy may be to ask, and the datagram must not
/// need translation. For what a pod sends, an address that is a pod's says so. For what comes to a pod only the first fragment
/// will say: should it have to be translated, its datagram cannot be put together any more and is dropped then.
#[inline(never)]
pub(crate) fn may_pass(endpoint: &Endpoint, s: &Scratch, direction: Direction) -> bool {
    match direction {
        Direction::Egress => {
            // SAFETY: entries of a map without preallocation are freed only after a grace period that outlasts the program.
            endpoint.rule_list[1] == 0 && unsafe { maps::identities.get(&s.packet.dst) }.is_some()
        }
        Direction::Ingress => {
            endpoint.rule_list[0] == 0 && maps::fragments.insert(&key(endpoint, s, direction), &EARLY, 0).is_ok()
        }
    }
}

#[inline(always)]
fn is_early(ports: &FragmentValue) -> bool {
    ports.src_port_be == EARLY.src_port_be && ports.dst_port_be == EARLY.dst_port_be
}

#[inline(always)]
fn key(endpoint: &Endpoint, s: &Scratch, direction: Direction) -> FragmentKey {
    FragmentKey {
        src: s.packet.src,
        dst: s.packet.dst,
        endpoint: endpoint.id,
        id: s.packet.fragment_id,
        proto: s.packet.proto,
        direction: direction as u8,
        pad: 0,
    }
}
