use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use aya::Pod;
use aya::maps::{HashMap, Map, MapData, MapError};

use crate::Error;
use crate::sys::{self, Batch};

/// Entries that are handed to the kernel in one call.
const BATCH: usize = 4096;

/// An exact-match map (hash or LRU hash).
///
/// Every operation but [`Table::set_all`] is one system call on one entry and atomic for the kernel programs. Handles can be shared between
/// threads.
pub struct Table<K: Pod, V: Pod> {
    name: &'static str,
    map: Mutex<HashMap<MapData, K, V>>,
    /// The same map, for calls that aya has no form of.
    fd: Option<OwnedFd>,
}

impl<K: Pod + Ord, V: Pod> Table<K, V> {
    pub(crate) fn new(name: &'static str, map: Map) -> Result<Self, Error> {
        let fd = match &map {
            Map::HashMap(data) | Map::LruHashMap(data) => data.fd().as_fd().try_clone_to_owned().ok(),
            // Not one of these: refused below.
            _ => None,
        };
        let map = HashMap::try_from(map).map_err(|source| Error::Map { name, source })?;
        Ok(Self { name, map: Mutex::new(map), fd })
    }

    // The lock guards no invariant of ours: a panic elsewhere leaves the handle as usable as before.
    fn lock(&self) -> MutexGuard<'_, HashMap<MapData, K, V>> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, source: MapError) -> Error {
        Error::Map { name: self.name, source }
    }

    /// Name of the map.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The value at a key.
    ///
    /// # Errors
    ///
    /// When the system call fails otherwise than by absence.
    pub fn get(&self, key: &K) -> Result<Option<V>, Error> {
        match self.lock().get(key, 0) {
            Ok(value) => Ok(Some(value)),
            Err(MapError::KeyNotFound) => Ok(None),
            Err(source) => Err(self.failed(source)),
        }
    }

    /// Inserts or replaces an entry.
    ///
    /// # Errors
    ///
    /// When the map is full ([`Error::is_full`]) or the system call fails.
    pub fn set(&self, key: &K, value: &V) -> Result<(), Error> {
        let done = self.lock().insert(key, value, 0);
        done.map_err(|source| self.failed(source))
    }

    /// Inserts or replaces entries: element `i` of `values` at element `i` of `keys`, in this order. Many in one system
    /// call where the kernel can, each of them atomic for the kernel programs. What could not be written is left out and
    /// returned with its place.
    pub fn set_all(&self, keys: &[K], values: &[V]) -> Vec<(usize, Error)> {
        let mut failed = Vec::new();
        let mut next = 0;
        for (keys, values) in keys.chunks(BATCH).zip(values.chunks(BATCH)) {
            let batch = match &self.fd {
                // The kernel is as safe with one writer as with many.
                Some(fd) if keys.len() > 1 => sys::map_update_batch(fd.as_fd(), keys, values),
                _ => Batch::Unsupported,
            };
            let written = match batch {
                Batch::Done => keys.len(),
                Batch::Stopped(written) => written,
                Batch::Unsupported => 0,
            };
            // One by one, each with its own error.
            for (at, (key, value)) in keys.iter().zip(values).enumerate().skip(written) {
                failed.extend(self.set(key, value).err().map(|error| (next + at, error)));
            }
            next += keys.len();
        }
        failed
    }

    /// Removes an entry; says whether it was there.
    ///
    /// # Errors
    ///
    /// When the system call fails otherwise than by absence.
    pub fn remove(&self, key: &K) -> Result<bool, Error> {
        let removed = self.lock().remove(key);
        match removed {
            Ok(()) => Ok(true),
            Err(error) if is_absent(&error) => Ok(false),
            Err(source) => Err(self.failed(source)),
        }
    }

    /// All entries, in the order of their keys. Entries that come or go meanwhile may be there or not.
    ///
    /// # Errors
    ///
    /// When a system call fails.
    pub fn iter(&self) -> Result<Vec<(K, V)>, Error> {
        let map = self.lock();
        // The kernel restarts a walk whose current key was removed under it: entries may be seen twice, and on a busy
        // LRU map the walk is cut off rather than followed for ever.
        let mut entries = BTreeMap::new();
        let mut repeats = 0_u32;
        for entry in map.iter() {
            let (key, value) = entry.map_err(|source| self.failed(source))?;
            if entries.insert(key, value).is_some() {
                repeats += 1;
                if repeats > 1_000_000 {
                    break;
                }
            }
        }
        Ok(entries.into_iter().collect())
    }
}

/// Whether a removal failed only because nothing was there.
pub(crate) fn is_absent(error: &MapError) -> bool {
    match error {
        MapError::KeyNotFound => true,
        MapError::SyscallError(e) => e.io_error.raw_os_error() == Some(nix::libc::ENOENT),
        _ => false,
    }
}
