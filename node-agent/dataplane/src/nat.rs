use std::os::fd::{AsFd as _, OwnedFd};

use aya::Pod;
use aya::maps::{HashMap, Map, MapData, MapError};
use skep_abi::{Addr, NatKey, NatValue, map};
use skep_verdict::nat::other_key;

use crate::maps::pinned;
use crate::pins::Pins;
use crate::sys::{self, Position};
use crate::table::is_absent;
use crate::{Error, layout};

/// Entries that are read by one system call.
const BATCH: usize = 4096;

/// Removes pairs of `nat` that are over.
///
/// A pair lives as long as one of its entries, and both go together.
pub struct NatSweeper {
    map: HashMap<MapData, NatKey, NatValue>,
    fd: OwnedFd,
    capacity: u32,
    keys: Vec<NatKey>,
    values: Vec<NatValue>,
}

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

impl NatSweeper {
    pub(crate) fn open(pins: &Pins) -> Result<Self, Error> {
        layout::check(pins)?;
        let data = pinned(pins, map::NAT)?;
        let capacity = data.info().map_err(failed)?.max_entries();
        let table = Map::from_map_data(data).and_then(HashMap::try_from).map_err(failed)?;
        let none = NatKey { src: Addr::NONE, dst: Addr::NONE, src_port_be: 0, dst_port_be: 0, proto: 0, pad: [0; 3] };
        let path = pins.map(map::NAT);
        let fd = sys::get(&path).map_err(|source| Error::Io { path, source })?;
        Ok(Self { map: table, fd, capacity, keys: vec![none; BATCH], values: vec![zeroed(); BATCH] })
    }

    /// Removes what is over at `now`, nanoseconds of the boot-time clock.
    ///
    /// # Errors
    ///
    /// When a system call fails. What is left is found by the next sweep.
    pub fn sweep(&mut self, now: u64) -> Result<Swept, Error> {
        let mut swept = Swept { capacity: self.capacity as usize, ..Swept::default() };
        let mut position = Position::Start;
        let mut over = Vec::new();
        while position != Position::End {
            let count = match self.read(&mut position) {
                Ok(count) => count,
                // More entries in one bucket than there is room for: a hash that spreads badly, or a map far too full.
                Err(error) if error.raw_os_error() == Some(nix::libc::ENOSPC) => {
                    let longer = self.keys.len() * 2;
                    self.keys.resize(longer, self.keys[0]);
                    self.values.resize(longer, zeroed());
                    continue;
                }
                Err(error) => return Err(Error::Map { name: map::NAT, source: MapError::IoError(error) }),
            };
            swept.entries += count;
            let read = self.keys.iter().zip(&self.values).take(count);
            over.extend(
                read.filter(|(_, value)| value.expires <= now).map(|(key, value)| (*key, other_key(key, value))),
            );
            for (key, other) in over.drain(..) {
                swept.removed += self.remove_pair(&key, &other, now)?;
            }
        }
        swept.entries = swept.entries.saturating_sub(swept.removed);
        Ok(swept)
    }

    fn read(&mut self, position: &mut Position) -> std::io::Result<usize> {
        sys::lookup_batch(self.fd.as_fd(), position, &mut self.keys, &mut self.values)
    }

    /// Removes both entries unless one of them is in use, and says how many they were. They are read once more: a packet
    /// may have come since.
    fn remove_pair(&mut self, key: &NatKey, other: &NatKey, now: u64) -> Result<usize, Error> {
        let mut there = [false; 2];
        for (there, key) in there.iter_mut().zip([other, key]) {
            match self.map.get(key, 0) {
                Ok(value) if value.expires > now => return Ok(0),
                Ok(_) => *there = true,
                Err(MapError::KeyNotFound) => {}
                Err(source) => return Err(failed(source)),
            }
        }
        let mut removed = 0;
        for (there, key) in there.into_iter().zip([other, key]) {
            match self.map.remove(key) {
                Ok(()) => removed += 1,
                Err(error) if is_absent(&error) || !there => {}
                Err(source) => return Err(failed(source)),
            }
        }
        Ok(removed)
    }
}

fn failed(source: MapError) -> Error {
    Error::Map { name: map::NAT, source }
}

/// A value to be read into.
fn zeroed<T: Pod>() -> T {
    // SAFETY: any bytes are a value of plain data.
    #[allow(unsafe_code, reason = "plain data has no other constructor")]
    unsafe {
        std::mem::zeroed()
    }
}
