use skep_abi::map;

use crate::Error;
use crate::pins::Pins;
use crate::raw::{RawMap, boot_time};

/// Maps that programs fill; who removes what is over from `conntrack` and `nat` counts these.
const COUNTED: [&str; 4] = [map::AFFINITY, map::ORIGINS, map::FRAGMENTS, map::SERVICE_HITS];

/// Counts the entries of the maps that programs fill and nobody sweeps.
///
/// That takes a walk through each of them, some milliseconds: now and then, not whenever somebody asks.
pub struct Census {
    pins: Pins,
}

impl Census {
    pub(crate) fn new(pins: Pins) -> Self {
        Self { pins }
    }

    /// The entries of each map, by its name.
    ///
    /// # Errors
    ///
    /// When a map cannot be opened or read.
    pub fn count(&self) -> Result<Vec<(&'static str, usize)>, Error> {
        let now = boot_time()?;
        let count = |name| {
            let map = RawMap::open(name, &self.pins.map(name))?.ok_or(Error::NotInObject(name))?;
            Ok((name, map.count(now)?))
        };
        COUNTED.into_iter().map(count).collect()
    }
}
