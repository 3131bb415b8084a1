use std::sync::{Mutex, PoisonError};

use aya::Pod;
use aya::maps::{Array, Map, MapData};

use crate::Error;

/// A map of one value at index 0.
pub struct Setting<V: Pod> {
    name: &'static str,
    map: Mutex<Array<MapData, V>>,
}

impl<V: Pod> Setting<V> {
    pub(crate) fn new(name: &'static str, map: Map) -> Result<Self, Error> {
        let map = Array::try_from(map).map_err(|source| Error::Map { name, source })?;
        Ok(Self { name, map: Mutex::new(map) })
    }

    /// Name of the map.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Reads the value.
    ///
    /// # Errors
    ///
    /// When the system call fails.
    pub fn get(&self) -> Result<V, Error> {
        let map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        map.get(&0, 0).map_err(|source| Error::Map { name: self.name, source })
    }

    /// Replaces the value.
    ///
    /// # Errors
    ///
    /// When the system call fails.
    pub fn set(&self, value: &V) -> Result<(), Error> {
        let mut map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        map.set(0, value, 0).map_err(|source| Error::Map { name: self.name, source })
    }
}
