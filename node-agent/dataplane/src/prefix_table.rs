use std::sync::{Mutex, MutexGuard, PoisonError};

use aya::Pod;
use aya::maps::lpm_trie::{Key, LpmTrie};
use aya::maps::{Map, MapData, MapError};

use crate::Error;
use crate::table::is_absent;

/// A longest-prefix-match map. Prefix lengths count bits of the key as it lies in memory.
pub struct PrefixTable<K: Pod, V: Pod> {
    name: &'static str,
    map: Mutex<LpmTrie<MapData, K, V>>,
}

impl<K: Pod, V: Pod> PrefixTable<K, V> {
    pub(crate) fn new(name: &'static str, map: Map) -> Result<Self, Error> {
        let map = LpmTrie::try_from(map).map_err(|source| Error::Map { name, source })?;
        Ok(Self { name, map: Mutex::new(map) })
    }

    // The lock guards no invariant of ours: a panic elsewhere leaves the handle as usable as before.
    fn lock(&self) -> MutexGuard<'_, LpmTrie<MapData, K, V>> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, source: MapError) -> Error {
        Error::Map { name: self.name, source }
    }

    /// Name of the map.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The value of the longest prefix that covers the first `prefix_len` bits of a key.
    ///
    /// # Errors
    ///
    /// When the system call fails otherwise than by absence.
    pub fn longest_match(&self, prefix_len: u32, key: &K) -> Result<Option<V>, Error> {
        match self.lock().get(&Key::new(prefix_len, *key), 0) {
            Ok(value) => Ok(Some(value)),
            Err(MapError::KeyNotFound) => Ok(None),
            Err(source) => Err(self.failed(source)),
        }
    }

    /// Inserts or replaces the entry of exactly this prefix.
    ///
    /// # Errors
    ///
    /// When the map is full ([`Error::is_full`]) or the system call fails.
    pub fn set(&self, prefix_len: u32, key: &K, value: &V) -> Result<(), Error> {
        let done = self.lock().insert(&Key::new(prefix_len, *key), value, 0);
        done.map_err(|source| self.failed(source))
    }

    /// Removes the entry of exactly this prefix; says whether it was there.
    ///
    /// # Errors
    ///
    /// When the system call fails otherwise than by absence.
    pub fn remove(&self, prefix_len: u32, key: &K) -> Result<bool, Error> {
        let removed = self.lock().remove(&Key::new(prefix_len, *key));
        match removed {
            Ok(()) => Ok(true),
            Err(error) if is_absent(&error) => Ok(false),
            Err(source) => Err(self.failed(source)),
        }
    }

    /// All entries as (prefix length, key, value), in the trie's order.
    ///
    /// # Errors
    ///
    /// When a system call fails.
    pub fn iter(&self) -> Result<Vec<(u32, K, V)>, Error> {
        let map = self.lock();
        map.iter()
            .map(|entry| {
                let (key, value) = entry.map_err(|source| self.failed(source))?;
                Ok((key.prefix_len(), key.data(), value))
            })
            .collect()
    }
}
