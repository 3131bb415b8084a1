//! Programs in the kernel: pinned once they are loaded, and taken from there by every later agent with the same object.
//!
//! The verifier takes a second or more for all of them, in which a restarted agent could do nothing else. Pins end with
//! the running kernel, so that what is pinned was loaded by this one.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use aya::maps::MapInfo;
use aya::programs::{self, SchedClassifier};
use skep_abi::map;

use crate::Error;
use crate::object::{self, Features, Wanted, exists};
use crate::pins::{self, Pins};
use crate::resize::Resize;
use crate::sys;

/// A program in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramInfo {
    /// Name in the object and in `bpftool prog`.
    pub name: String,
    /// The kernel's number for it.
    pub id: u32,
    /// Instructions that the verifier followed, of the million that it would (Linux 5.16).
    pub verified_instructions: Option<u32>,
}

/// Everything that can be attached.
pub(crate) struct Programs {
    pinned: Vec<Pinned>,
    classifiers: Mutex<Classifiers>,
}

/// The tc programs as aya knows them, by name: for trials, and for attaching without links.
pub(crate) struct Classifiers(BTreeMap<&'static str, SchedClassifier>);

impl Classifiers {
    pub(crate) fn get(&mut self, name: &'static str) -> Result<&mut SchedClassifier, Error> {
        self.0.get_mut(name).ok_or(Error::NotInObject(name))
    }
}

struct Pinned {
    name: &'static str,
    fd: OwnedFd,
    info: programs::ProgramInfo,
}

impl Programs {
    /// Takes the pinned programs of the embedded object; loads and pins them first where they are not there, or where maps take
    /// another size. The pinned maps are those of the programs then.
    pub(crate) fn open(
        pins: &Pins,
        features: Features,
        wanted: Wanted,
        capacities: &BTreeMap<&'static str, u32>,
        resize: &mut Resize,
    ) -> Result<Self, Error> {
        if !resize.is_needed() {
            match Self::adopt(pins, wanted) {
                Ok(Some(programs)) => {
                    tracing::info!("kernel programs are the pinned ones");
                    return Ok(programs);
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "pinned kernel programs cannot be used; they are loaded anew"),
            }
        }
        load(pins, features, wanted, capacities, resize)?;
        tracing::info!("kernel programs are loaded");
        Self::from_pins(&pins.programs(), wanted)
    }

    /// The pinned programs, unless some are missing or work on other maps than those that are pinned.
    fn adopt(pins: &Pins, wanted: Wanted) -> Result<Option<Self>, Error> {
        let dir = pins.programs();
        for name in object::program_names(wanted) {
            if !exists(&dir.join(name))? {
                return Ok(None);
            }
        }
        let programs = Self::from_pins(&dir, wanted)?;
        Ok(programs.use_pinned_maps(pins)?.then_some(programs))
    }

    fn from_pins(dir: &Path, wanted: Wanted) -> Result<Self, Error> {
        let classifier = |name| {
            let program = SchedClassifier::from_pin(dir.join(name));
            program.map(|program| (name, program)).map_err(|source| Error::Program { name, source })
        };
        let classifiers = object::classifier_names(wanted).map(classifier).collect::<Result<_, _>>()?;
        Ok(Self {
            pinned: object::program_names(wanted).map(|name| Pinned::open(dir, name)).collect::<Result<_, _>>()?,
            classifiers: Mutex::new(Classifiers(classifiers)),
        })
    }

    /// Whether every map is pinned and no program works on another map of the same name.
    fn use_pinned_maps(&self, pins: &Pins) -> Result<bool, Error> {
        let mut known = HashSet::new();
        for name in map::ALL {
            let path = pins.map(name);
            if !exists(&path)? {
                return Ok(false);
            }
            known.insert(MapInfo::from_pin(&path).map_err(|source| Error::Map { name, source })?.id());
        }
        for program in &self.pinned {
            let failed = |source| Error::Program { name: program.name, source };
            for id in program.info.map_ids().map_err(failed)?.unwrap_or_default() {
                // Constants of the object are maps, too, which belong to the programs alone.
                if known.insert(id) {
                    let info = MapInfo::from_id(id).map_err(|source| Error::Map { name: program.name, source })?;
                    if info.name_as_str().is_some_and(|name| map::ALL.contains(&name)) {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    /// What is in use, by name.
    pub(crate) fn infos(&self) -> Vec<ProgramInfo> {
        let mut infos: Vec<ProgramInfo> = self
            .pinned
            .iter()
            .map(|program| ProgramInfo {
                name: program.name.to_owned(),
                id: program.info.id(),
                verified_instructions: program.info.verified_instruction_count(),
            })
            .collect();
        infos.sort_by(|a, b| a.name.cmp(&b.name));
        infos
    }

    /// A program by its name in the object.
    pub(crate) fn get(&self, name: &'static str) -> Result<BorrowedFd<'_>, Error> {
        let program = self.pinned.iter().find(|program| program.name == name);
        program.map(|program| program.fd.as_fd()).ok_or(Error::NotInObject(name))
    }

    pub(crate) fn classifiers(&self) -> MutexGuard<'_, Classifiers> {
        self.classifiers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pinned {
    fn open(dir: &Path, name: &'static str) -> Result<Self, Error> {
        let path = dir.join(name);
        let fd = sys::get(&path).map_err(|source| Error::Io { path: path.clone(), source })?;
        let info = programs::ProgramInfo::from_pin(&path).map_err(|source| Error::Program { name, source })?;
        Ok(Self { name, fd, info })
    }
}

/// Loads the object and pins its programs, which come to their place together.
fn load(
    pins: &Pins,
    features: Features,
    wanted: Wanted,
    capacities: &BTreeMap<&'static str, u32>,
    resize: &mut Resize,
) -> Result<(), Error> {
    resize.prepare(pins)?;
    let object = object::load(pins, features, wanted, capacities, resize)?;
    let (new, dir) = (pins.new_programs(), pins.programs());
    let failed = |path: &Path, source: io::Error| Error::Io { path: path.to_owned(), source };
    pins::remove_dir(&new)?;
    fs::create_dir(&new).map_err(|source| failed(&new, source))?;
    for name in object::program_names(wanted) {
        let program = object.program(name).ok_or(Error::NotInObject(name))?;
        let fd = program.fd().map_err(|source| Error::Program { name, source })?;
        let path = new.join(name);
        sys::pin(fd.as_fd(), &path).map_err(|source| failed(&path, source))?;
    }
    resize.copy(pins)?;
    resize.exchange(pins)?;
    // The same object's programs, of a run without socket hooks or with other maps. Links keep them until they get these.
    pins::remove_dir(&dir)?;
    fs::rename(&new, &dir).map_err(|source| failed(&dir, source))
}
