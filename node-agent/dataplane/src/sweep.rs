//! Removal of what is over from the maps that kernel programs write.

use std::os::fd::{AsFd as _, OwnedFd};

use aya::Pod;
use aya::maps::{HashMap, Map, MapData, MapError};
use skep_abi::{ConnKey, ConnValue, NatKey, NatValue, map};
use skep_verdict::conn;
use skep_verdict::nat::other_key;

use crate::maps::pinned;
use crate::pins::Pins;
use crate::sys::{self, Position};
use crate::table::is_absent;
use crate::{Error, layout};

/// Entries that are read by one system call.
const BATCH: usize = 4096;

/// What a sweep found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Entries that are left.
    pub entries: usize,
    /// Entries that were removed.
    pub removed: usize,
    /// Most entries that there can be.
    pub capacity: usize,
}

impl Swept {
    /// Whether so little room is left (an eighth) that what may yet be of use has to go, too.
    #[must_use]
    pub fn is_nearly_full(&self) -> bool {
        self.entries > self.capacity - self.capacity / 8
    }
}

/// Removes pairs of `nat` that are over.
///
/// A pair lives as long as one of its entries, and both go together.
pub struct NatSweeper(Sweeper<NatKey, NatValue>);

impl NatSweeper {
    pub(crate) fn open(pins: &Pins) -> Result<Self, Error> {
        Sweeper::open(pins, map::NAT).map(Self)
    }

    /// Removes what is over at `now`, nanoseconds of the boot-time clock.
    ///
    /// # Errors
    ///
    /// When a system call fails. What is left is found by the next sweep.
    pub fn sweep(&mut self, now: u64) -> Result<Swept, Error> {
        self.0.sweep(
            |_, value| value.expires <= now,
            |map, key, value| {
                let other = other_key(key, value);
                let mut there = [false; 2];
                for (there, key) in there.iter_mut().zip([&other, key]) {
                    match map.get(key, 0) {
                        Ok(value) if value.expires > now => return Ok(0),
                        Ok(_) => *there = true,
                        Err(MapError::KeyNotFound) => {}
                        Err(error) => return Err(error),
                    }
                }
                let mut removed = 0;
                for (there, key) in there.into_iter().zip([&other, key]) {
                    match map.remove(key) {
                        Ok(()) => removed += 1,
                        Err(error) if is_absent(&error) || !there => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(removed)
            },
        )
    }
}

/// Removes entries of `conntrack` that are over.
pub struct ConntrackSweeper {
    sweeper: Sweeper<ConnKey, ConnValue>,
    nearly_full: bool,
}

impl ConntrackSweeper {
    pub(crate) fn open(pins: &Pins) -> Result<Self, Error> {
        Ok(Self { sweeper: Sweeper::open(pins, map::CONNTRACK)?, nearly_full: false })
    }

    /// Removes what is over at `now`, nanoseconds of the boot-time clock ([`conn::is_spent`]); when the last sweep has left
    /// the map nearly full, also what is expendable ([`conn::is_expendable`]).
    ///
    /// # Errors
    ///
    /// When a system call fails. What is left is found by the next sweep.
    pub fn sweep(&mut self, now: u64) -> Result<Swept, Error> {
        let nearly_full = self.nearly_full;
        let is_over = |key: &ConnKey, value: &ConnValue| {
            conn::is_spent(value, key.proto, now) || (nearly_full && conn::is_expendable(value, key.proto, now))
        };
        let swept = self.sweeper.sweep(is_over, |map, key, _| {
            // Once more: a packet may have come since.
            match map.get(key, 0) {
                Ok(value) if !is_over(key, &value) => return Ok(0),
                Ok(_) => {}
                Err(MapError::KeyNotFound) => return Ok(0),
                Err(error) => return Err(error),
            }
            match map.remove(key) {
                Ok(()) => Ok(1),
                Err(error) if is_absent(&error) => Ok(0),
                Err(error) => Err(error),
            }
        })?;
        self.nearly_full = swept.is_nearly_full();
        Ok(swept)
    }
}

struct Sweeper<K: Pod, V: Pod> {
    name: &'static str,
    map: HashMap<MapData, K, V>,
    fd: OwnedFd,
    capacity: u32,
    keys: Vec<K>,
    values: Vec<V>,
}

impl<K: Pod, V: Pod> Sweeper<K, V> {
    fn open(pins: &Pins, name: &'static str) -> Result<Self, Error> {
        let failed = |source| Error::Map { name, source };
        layout::check(pins)?;
        let data = pinned(pins, name)?;
        let capacity = data.info().map_err(failed)?.max_entries();
        let map = Map::from_map_data(data).and_then(HashMap::try_from).map_err(failed)?;
        let path = pins.map(name);
        let fd = sys::get(&path).map_err(|source| Error::Io { path, source })?;
        Ok(Self { name, map, fd, capacity, keys: vec![zeroed(); BATCH], values: vec![zeroed(); BATCH] })
    }

    /// Reads every entry, and has `remove` look once more at those that seem to be over; it says how many it removed.
    fn sweep(
        &mut self,
        is_over: impl Fn(&K, &V) -> bool,
        remove: impl Fn(&mut HashMap<MapData, K, V>, &K, &V) -> Result<usize, MapError>,
    ) -> Result<Swept, Error> {
        let failed = |source| Error::Map { name: self.name, source };
        let mut swept = Swept { capacity: self.capacity as usize, ..Swept::default() };
        let mut position = Position::Start;
        while position != Position::End {
            let count = match sys::lookup_batch(self.fd.as_fd(), &mut position, &mut self.keys, &mut self.values) {
                Ok(count) => count,
                // More entries in one bucket than there is room for: a hash that spreads badly, or a map far too full.
                Err(error) if error.raw_os_error() == Some(nix::libc::ENOSPC) => {
                    let longer = self.keys.len() * 2;
                    self.keys.resize(longer, zeroed());
                    self.values.resize(longer, zeroed());
                    continue;
                }
                Err(error) => return Err(failed(MapError::IoError(error))),
            };
            swept.entries += count;
            for (key, value) in self.keys.iter().zip(&self.values).take(count) {
                if is_over(key, value) {
                    swept.removed += remove(&mut self.map, key, value).map_err(failed)?;
                }
            }
        }
        swept.entries = swept.entries.saturating_sub(swept.removed);
        Ok(swept)
    }
}

/// A value to be read into.
fn zeroed<T: Pod>() -> T {
    // SAFETY: any bytes are a value of plain data.
    #[allow(unsafe_code, reason = "plain data has no other constructor")]
    unsafe {
        std::mem::zeroed()
    }
}
