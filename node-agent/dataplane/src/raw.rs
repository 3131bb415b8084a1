//! Maps as bytes, whatever their keys and values are: to count entries and to bring them from one map to another.

use std::mem::offset_of;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

use aya::maps::{MapData, MapError, MapType};
use aya::util::nr_cpus;
use nix::time::{ClockId, clock_gettime};
use skep_abi::{AffinityValue, ConnValue, NatValue, map};

use crate::Error;
use crate::sys::{self, Batch, Position, Sizes, When};

/// Entries that are read by one system call.
const BATCH: usize = 4096;

/// A map whose entries come and go.
pub(crate) struct RawMap {
    name: &'static str,
    data: MapData,
    kind: MapType,
    sizes: Sizes,
    capacity: u32,
}

/// Entries, one behind the other.
#[derive(Clone, Copy)]
pub(crate) struct Entries<'a> {
    sizes: Sizes,
    keys: &'a [u8],
    values: &'a [u8],
}

impl<'a> Entries<'a> {
    pub(crate) fn len(&self) -> usize {
        self.keys.len() / self.sizes.key
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        self.keys.chunks_exact(self.sizes.key).zip(self.values.chunks_exact(self.sizes.value))
    }
}

/// Nanoseconds of the clock that expiry counts in.
pub(crate) fn boot_time() -> Result<u64, Error> {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME)
        .map_err(|errno| Error::Io { path: "the boot-time clock".into(), source: errno.into() })?;
    Ok(now.tv_sec().unsigned_abs() * 1_000_000_000 + now.tv_nsec().unsigned_abs())
}

/// Whether programs write a map, and not the agent alone.
pub(crate) fn written_by_programs(name: &str) -> bool {
    matches!(name, map::CONNTRACK | map::NAT | map::AFFINITY | map::ORIGINS | map::FRAGMENTS | map::SERVICE_HITS)
}

/// The time in a value that each use of its entry brings forward, nanoseconds of the boot-time clock; 0 in maps without one.
pub(crate) fn stamp(name: &str, value: &[u8]) -> u64 {
    let offset = match name {
        map::CONNTRACK => offset_of!(ConnValue, expires),
        map::NAT => offset_of!(NatValue, expires),
        map::AFFINITY => offset_of!(AffinityValue, last_used),
        _ => return 0,
    };
    let bytes = value.get(offset..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

/// Whether an entry is still of use at `now`. Connections stay in the map when they are over, until the next sweep.
pub(crate) fn is_live(name: &str, value: &[u8], now: u64) -> bool {
    name != map::CONNTRACK || stamp(name, value) > now
}

impl RawMap {
    /// Opens what is pinned at `path`. `None` when it is an array or a buffer.
    pub(crate) fn open(name: &'static str, path: &Path) -> Result<Option<Self>, Error> {
        let failed = |source| Error::Map { name, source };
        let data = MapData::from_pin(path).map_err(failed)?;
        let info = data.info().map_err(failed)?;
        let kind = info.map_type().map_err(failed)?;
        let value_size = info.value_size() as usize;
        let value_size = match kind {
            MapType::Hash | MapType::LruHash | MapType::LpmTrie => value_size,
            // A value for each processor that there could be.
            MapType::PerCpuHash => {
                let cpus = nr_cpus().map_err(|(path, source)| Error::Io { path: path.into(), source })?;
                value_size.next_multiple_of(8) * cpus
            }
            _ => return Ok(None),
        };
        let sizes = Sizes { key: info.key_size() as usize, value: value_size };
        let capacity = info.max_entries();
        Ok(Some(Self { name, data, kind, sizes, capacity }))
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.data.fd().as_fd()
    }

    fn failed(&self, source: std::io::Error) -> Error {
        Error::Map { name: self.name, source: MapError::IoError(source) }
    }

    /// Calls `each` with some entries after the other until it has seen all. Those that come or go meanwhile may be among them
    /// or not.
    pub(crate) fn walk(&self, mut each: impl FnMut(Entries<'_>) -> Result<(), Error>) -> Result<(), Error> {
        let Sizes { key, value } = self.sizes;
        if self.kind == MapType::LpmTrie {
            return self.walk_trie(each);
        }
        let (mut keys, mut values) = (vec![0_u8; BATCH * key], vec![0_u8; BATCH * value]);
        let mut position = Position::Start;
        while position != Position::End {
            match sys::lookup_batch_bytes(self.fd(), &mut position, self.sizes, &mut keys, &mut values) {
                Ok(0) => {}
                Ok(count) => {
                    each(Entries { sizes: self.sizes, keys: &keys[..count * key], values: &values[..count * value] })?;
                }
                // More entries in one bucket than there is room for.
                Err(error) if error.raw_os_error() == Some(nix::libc::ENOSPC) => {
                    keys.resize(keys.len() * 2, 0);
                    values.resize(values.len() * 2, 0);
                }
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(())
    }

    /// Tries cannot be read many entries at a time by every kernel.
    fn walk_trie(&self, mut each: impl FnMut(Entries<'_>) -> Result<(), Error>) -> Result<(), Error> {
        let Sizes { key, value } = self.sizes;
        let (mut now, mut next, mut found) = (vec![0_u8; key], vec![0_u8; key], vec![0_u8; value]);
        let failed = |error| self.failed(error);
        let mut more = sys::next_key(self.fd(), None, &mut now).map_err(failed)?;
        while more {
            if sys::lookup(self.fd(), &now, &mut found).map_err(failed)? {
                each(Entries { sizes: self.sizes, keys: &now, values: &found })?;
            }
            more = sys::next_key(self.fd(), Some(now.as_slice()), &mut next).map_err(failed)?;
            std::mem::swap(&mut now, &mut next);
        }
        Ok(())
    }

    /// How many entries are of use at `now`.
    pub(crate) fn count(&self, now: u64) -> Result<usize, Error> {
        let mut live = 0;
        self.walk(|entries| {
            live += match self.name {
                map::CONNTRACK => entries.iter().filter(|(_, value)| is_live(self.name, value, now)).count(),
                _ => entries.len(),
            };
            Ok(())
        })?;
        Ok(live)
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let mut value = vec![0; self.sizes.value];
        let there = sys::lookup(self.fd(), key, &mut value).map_err(|error| self.failed(error))?;
        Ok(there.then_some(value))
    }

    /// Writes an entry; says whether it was the time for it.
    pub(crate) fn put(&self, key: &[u8], value: &[u8], when: When) -> Result<bool, Error> {
        sys::update(self.fd(), key, value, when).map_err(|error| self.failed(error))
    }

    /// Writes entries, which lie one behind the other.
    pub(crate) fn put_all(&self, keys: &[u8], values: &[u8]) -> Result<(), Error> {
        let done = match sys::map_update_batch_bytes(self.fd(), self.sizes, keys, values) {
            Batch::Done => return Ok(()),
            Batch::Stopped(done) => done,
            Batch::Unsupported => 0,
        };
        let entries = Entries { sizes: self.sizes, keys, values };
        for (key, value) in entries.iter().skip(done) {
            self.put(key, value, When::Any)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_where_the_layouts_have_them() {
        let mut bytes = [0; size_of::<NatValue>()];
        bytes[offset_of!(NatValue, expires)..][..8].copy_from_slice(&7_u64.to_ne_bytes());
        assert_eq!(stamp(map::NAT, &bytes), 7);
        assert_eq!((stamp(map::SLOTS, &bytes), stamp(map::NAT, &[])), (0, 0));
    }

    #[test]
    fn only_connections_end_by_themselves() {
        let mut bytes = [0; size_of::<ConnValue>()];
        bytes[offset_of!(ConnValue, expires)..][..8].copy_from_slice(&100_u64.to_ne_bytes());
        assert!(is_live(map::CONNTRACK, &bytes, 99) && !is_live(map::CONNTRACK, &bytes, 100));
        assert!(is_live(map::NAT, &[0; size_of::<NatValue>()], u64::MAX));
    }
}
