use aya::maps::{Map, MapData, PerCpuArray};
use skep_abi::{Direction, Drops, Reason, map};

use crate::Error;

/// Packets dropped or refused for one reason in one direction, over all CPUs, since the maps were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropTotal {
    /// Why.
    pub reason: Reason,
    /// From the pod's point of view.
    pub direction: Direction,
    /// Packets; for socket hooks connection attempts.
    pub packets: u64,
    /// Bytes, headers included.
    pub bytes: u64,
}

/// The `drops` map.
pub struct DropCounters {
    map: PerCpuArray<MapData, Drops>,
}

impl DropCounters {
    pub(crate) fn new(map: Map) -> Result<Self, Error> {
        let map = PerCpuArray::try_from(map).map_err(|source| Error::Map { name: map::DROPS, source })?;
        Ok(Self { map })
    }

    /// Totals of every reason (but [`Reason::None`]) and direction, in numeric order, zero ones included.
    ///
    /// # Errors
    ///
    /// When the system call fails.
    pub fn totals(&self) -> Result<Vec<DropTotal>, Error> {
        let mut totals = Vec::new();
        for reason in Reason::ALL.into_iter().filter(|reason| *reason != Reason::None) {
            for direction in [Direction::Ingress, Direction::Egress] {
                let index = reason as u32 * 2 + direction as u32;
                let per_cpu = self.map.get(&index, 0).map_err(|source| Error::Map { name: map::DROPS, source })?;
                let packets = per_cpu.iter().map(|drops| drops.packets).sum();
                let bytes = per_cpu.iter().map(|drops| drops.bytes).sum();
                totals.push(DropTotal { reason, direction, packets, bytes });
            }
        }
        Ok(totals)
    }
}
