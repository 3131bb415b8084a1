use std::sync::{Mutex, PoisonError};

use aya::maps::{Map, MapData, MapError, PerCpuArray, PerCpuHashMap};
use skep_abi::{Counter, map};

use crate::Error;
use crate::table::is_absent;

/// The `counters` map.
pub struct Counters {
    map: PerCpuArray<MapData, u64>,
}

impl Counters {
    pub(crate) fn new(map: Map) -> Result<Self, Error> {
        let map = PerCpuArray::try_from(map).map_err(|source| Error::Map { name: map::COUNTERS, source })?;
        Ok(Self { map })
    }

    /// Every counter over all CPUs, since the maps were made, in numeric order.
    ///
    /// # Errors
    ///
    /// When the system call fails.
    pub fn totals(&self) -> Result<Vec<(Counter, u64)>, Error> {
        let total = |counter: Counter| {
            match self.map.get(&(counter as u32), 0) {
                Ok(per_cpu) => Ok((counter, per_cpu.iter().sum())),
                // The map is that of an earlier agent, which counted less.
                Err(MapError::OutOfBounds { .. }) => Ok((counter, 0)),
                Err(source) => Err(Error::Map { name: map::COUNTERS, source }),
            }
        };
        Counter::ALL.into_iter().map(total).collect()
    }
}

/// The `service_hits` map.
pub struct ServiceHits {
    map: Mutex<PerCpuHashMap<MapData, u32, u64>>,
}

impl ServiceHits {
    pub(crate) fn new(map: Map) -> Result<Self, Error> {
        let map = PerCpuHashMap::try_from(map).map_err(|source| Error::Map { name: map::SERVICE_HITS, source })?;
        Ok(Self { map: Mutex::new(map) })
    }

    /// Connections that each endpoint set was given, over all CPUs, in the order of their numbers.
    ///
    /// # Errors
    ///
    /// When the system call fails.
    pub fn totals(&self) -> Result<Vec<(u32, u64)>, Error> {
        let total = |entry: Result<(u32, aya::maps::PerCpuValues<u64>), MapError>| {
            let (service, per_cpu) = entry.map_err(|source| Error::Map { name: map::SERVICE_HITS, source })?;
            Ok((service, per_cpu.iter().sum()))
        };
        let map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        let mut totals = map.iter().map(total).collect::<Result<Vec<_>, Error>>()?;
        totals.sort_unstable();
        // The kernel restarts a walk whose current entry was removed.
        totals.dedup_by_key(|(service, _)| *service);
        Ok(totals)
    }

    /// Forgets an endpoint set that is no more. Absence is no error.
    ///
    /// # Errors
    ///
    /// When the system call fails.
    pub fn remove(&self, service: u32) -> Result<(), Error> {
        let removed = self.map.lock().unwrap_or_else(PoisonError::into_inner).remove(&service);
        match removed {
            Err(error) if is_absent(&error) => Ok(()),
            removed => removed.map_err(|source| Error::Map { name: map::SERVICE_HITS, source }),
        }
    }
}
