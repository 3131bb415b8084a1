//! Maps take another size while their old selves are in use.
//!
//! A map cannot grow. Another one is made, and programs are loaded that work on it:
//!
//! ```text
//!   maps/NAME ──── copied ────► maps-new/NAME      programs work on the old one
//!   maps-old/NAME               maps/NAME          pins are exchanged, then the programs of each link
//!   maps-old/NAME ── the rest ► maps/NAME          what the old programs have written meanwhile: new or newer
//!                               maps/NAME          the old one goes with its pin
//! ```
//!
//! An agent that ends on the way leaves pins from which the next one goes on; it lets the sizes be until that is done.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;

use skep_abi::map;

use crate::Error;
use crate::object::exists;
use crate::pins::{self, Pins};
use crate::raw::{RawMap, boot_time, is_live, stamp, written_by_programs};
use crate::sys::{self, When};

/// Maps that are to have another size.
#[derive(Default)]
pub(crate) struct Resize {
    changes: Vec<Change>,
    /// An earlier one was not brought to its end.
    unfinished: bool,
}

/// A map that is to have another size.
struct Change {
    name: &'static str,
    before: u32,
    capacity: u32,
    copied: Copied,
}

/// What was brought over: for a hash of each key the entry's stamp. Two keys of one hash would only have an entry missed that
/// was written in the last moment.
#[derive(Default)]
struct Copied {
    stamps: HashMap<u64, u64>,
    hasher: RandomState,
}

impl Copied {
    /// Notes an entry; says whether it is new or has changed.
    fn note(&mut self, key: &[u8], stamp: u64) -> bool {
        self.stamps.insert(self.hasher.hash_one(key), stamp) != Some(stamp)
    }
}

impl Resize {
    /// Compares the pinned maps with the capacities that they are to have. Maps that are not named keep theirs.
    ///
    /// # Errors
    ///
    /// [`Error::TooSmall`]; nothing has been changed then.
    pub(crate) fn plan(pins: &Pins, capacities: &BTreeMap<&'static str, u32>) -> Result<Self, Error> {
        pins::remove_dir(&pins.new_maps())?;
        if !old_maps(pins)?.is_empty() {
            tracing::warn!("a change of maps' sizes was not brought to its end; that comes first");
            return Ok(Self { changes: Vec::new(), unfinished: true });
        }
        let now = boot_time()?;
        let mut changes = Vec::new();
        for (&name, &capacity) in capacities {
            if !map::ALL.contains(&name) {
                return Err(Error::NotInObject(name));
            }
            let path = pins.map(name);
            if !exists(&path)? {
                continue;
            }
            let old = RawMap::open(name, &path)?.ok_or(Error::NotInObject(name))?;
            if old.capacity() == capacity {
                continue;
            }
            if capacity < old.capacity() {
                let entries = old.count(now)?;
                if entries > capacity as usize {
                    return Err(Error::TooSmall { name, entries, capacity });
                }
            }
            changes.push(Change { name, before: old.capacity(), capacity, copied: Copied::default() });
        }
        // What programs write comes last, so that little of it changes until they are exchanged.
        changes.sort_by_key(|change| written_by_programs(change.name));
        Ok(Self { changes, unfinished: false })
    }

    /// Whether programs have to be loaded for maps that are not there yet.
    pub(crate) fn is_needed(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Whether an earlier change of sizes stood in the way of this one.
    pub(crate) fn was_unfinished(&self) -> bool {
        self.unfinished
    }

    /// Where the loader finds a map, or makes it.
    pub(crate) fn path(&self, pins: &Pins, name: &str) -> PathBuf {
        match self.changes.iter().any(|change| change.name == name) {
            true => pins.new_maps().join(name),
            false => pins.map(name),
        }
    }

    /// Makes the place for the new maps.
    pub(crate) fn prepare(&self, pins: &Pins) -> Result<(), Error> {
        if !self.is_needed() {
            return Ok(());
        }
        for Change { name, before, capacity, .. } in &self.changes {
            tracing::info!(map = name, before, capacity, "a map takes another size");
        }
        for path in [pins.new_maps(), pins.old_maps()] {
            fs::create_dir_all(&path).map_err(|source| Error::Io { path, source })?;
        }
        Ok(())
    }

    /// Fills the new maps.
    ///
    /// # Errors
    ///
    /// [`Error::TooSmall`] when something has come since that does not fit. The new maps are gone then.
    pub(crate) fn copy(&mut self, pins: &Pins) -> Result<(), Error> {
        let filled = self.fill(pins);
        if filled.is_err() {
            pins::remove_dir(&pins.new_maps())?;
        }
        filled
    }

    fn fill(&mut self, pins: &Pins) -> Result<(), Error> {
        for change in &mut self.changes {
            let (old, new) = change.open(pins)?;
            change.copy(&old, &new)?;
        }
        for change in self.changes.iter_mut().filter(|change| written_by_programs(change.name)) {
            let (old, new) = change.open(pins)?;
            change.bring_rest(&old, &new)?;
        }
        Ok(())
    }

    /// Puts the new maps' pins in the place of the old ones'.
    pub(crate) fn exchange(&self, pins: &Pins) -> Result<(), Error> {
        for Change { name, .. } in &self.changes {
            let (path, old, new) = (pins.map(name), pins.old_maps().join(name), pins.new_maps().join(name));
            let failed = |path: &PathBuf, source: io::Error| Error::Io { path: path.clone(), source };
            let map = sys::get(&path).map_err(|source| failed(&path, source))?;
            // A second pin, so that there is one at every moment.
            sys::pin(map.as_fd(), &old).map_err(|source| failed(&old, source))?;
            fs::rename(&new, &path).map_err(|source| failed(&path, source))?;
        }
        pins::remove_dir(&pins.new_maps())
    }

    /// Brings over what programs have written into the old maps meanwhile, and lets these go. To be called when no program
    /// works on them any more.
    pub(crate) fn settle(&mut self, pins: &Pins) -> Result<(), Error> {
        for name in old_maps(pins)? {
            let path = pins.old_maps().join(name);
            if written_by_programs(name) {
                let known = self.changes.iter().position(|change| change.name == name);
                let mut change = match known {
                    Some(at) => self.changes.swap_remove(at),
                    None => Change { name, before: 0, capacity: 0, copied: Copied::default() },
                };
                let old = RawMap::open(name, &path)?.ok_or(Error::NotInObject(name))?;
                let new = RawMap::open(name, &pins.map(name))?.ok_or(Error::NotInObject(name))?;
                match change.bring_rest(&old, &new) {
                    // There is no way back any more.
                    Err(error) if error.is_full() => tracing::warn!(%error, "entries of the last moment are lost"),
                    brought => {
                        let entries = brought?;
                        tracing::info!(map = name, entries, "brought over from the old map");
                    }
                }
            }
            fs::remove_file(&path).map_err(|source| Error::Io { path, source })?;
        }
        self.changes.clear();
        Ok(())
    }
}

impl Change {
    fn open(&self, pins: &Pins) -> Result<(RawMap, RawMap), Error> {
        let name = self.name;
        let open = |path: PathBuf| RawMap::open(name, &path)?.ok_or(Error::NotInObject(name));
        Ok((open(pins.map(name))?, open(pins.new_maps().join(name))?))
    }

    /// Copies what is of use.
    fn copy(&mut self, old: &RawMap, new: &RawMap) -> Result<(), Error> {
        let (name, now) = (self.name, boot_time()?);
        let compare = written_by_programs(name);
        let mut copied = 0;
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        let done = old.walk(|entries| {
            keys.clear();
            values.clear();
            for (key, value) in entries.iter().filter(|(_, value)| is_live(name, value, now)) {
                keys.extend_from_slice(key);
                values.extend_from_slice(value);
                copied += 1;
                if compare {
                    self.copied.note(key, stamp(name, value));
                }
            }
            if keys.is_empty() { Ok(()) } else { new.put_all(&keys, &values) }
        });
        let too_small = Error::TooSmall { name, entries: copied, capacity: self.capacity };
        match done {
            Err(error) if error.is_full() => return Err(too_small),
            done => done?,
        }
        // A map that gives up its oldest entries has not refused any.
        let held = new.count(now)?;
        if held < copied {
            return Err(too_small);
        }
        tracing::debug!(map = new.name(), entries = held, "copied");
        Ok(())
    }

    /// Brings over what is new or newer since the last time, and says how many entries that were.
    fn bring_rest(&mut self, old: &RawMap, new: &RawMap) -> Result<usize, Error> {
        let (name, now) = (self.name, boot_time()?);
        let mut brought = 0;
        old.walk(|entries| {
            for (key, value) in entries.iter() {
                let stamp = stamp(name, value);
                if is_live(name, value, now) && self.copied.note(key, stamp) {
                    brought += usize::from(put_newer(name, new, key, value, stamp)?);
                }
            }
            Ok(())
        })?;
        Ok(brought)
    }
}

/// Writes an entry unless the map has one that is as new: a program on the new map has had to do with the connection, too.
fn put_newer(name: &str, new: &RawMap, key: &[u8], value: &[u8], new_stamp: u64) -> Result<bool, Error> {
    match new.get(key)? {
        None => new.put(key, value, When::Absent),
        Some(known) if stamp(name, &known) < new_stamp => new.put(key, value, When::Present),
        Some(_) => Ok(false),
    }
}

/// Names of the maps that are still to be brought over.
fn old_maps(pins: &Pins) -> Result<Vec<&'static str>, Error> {
    let mut names = Vec::new();
    for name in map::ALL {
        if exists(&pins.old_maps().join(name))? {
            names.push(name);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_not_changed_is_not_brought_again() {
        let mut copied = Copied::default();
        assert!(copied.note(b"a", 1) && copied.note(b"b", 1));
        assert!(!copied.note(b"a", 1));
        assert!(copied.note(b"a", 2) && !copied.note(b"a", 2));
    }
}
