use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use aya::Pod;
use aya::maps::{HashMap, Map, MapData, MapError};

use crate::Error;

/// An exact-match map (hash or LRU hash).
///
/// Every operation is one system call on one entry and atomic for the kernel programs. Handles can be shared between
/// threads.
pub struct Table<K: Pod, V: Pod> {
    name: &'static str,
    map: Mutex<HashMap<MapData, K, V>>,
}

impl<K: Pod + Ord, V: Pod> Table<K, V> {
    pub(crate) fn new(name: &'static str, map: Map) -> Result<Self, Error> {
        let map = HashMap::try_from(map).map_err(|source| Error::Map { name, source })?;
        Ok(Self { name, map: Mutex::new(map) })
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
