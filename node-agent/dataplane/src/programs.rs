//! Programs in the kernel: pinned once they are loaded, and taken from there by every later agent with the same object.
//!
//! The verifier takes a second or more for all of them, in which a restarted agent could do nothing else. Pins end with
//! the running kernel, so that what is pinned was loaded by this one.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use aya::maps::MapInfo;
use aya::programs::{self, SchedClassifier};
use skep_abi::map;

use crate::Error;
use crate::object::{self, FROM_POD, Features, TO_POD, exists};
use crate::pins::{self, Pins, PodHook};
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
    from_pod: Pinned,
    to_pod: Pinned,
    sockets: Vec<Pinned>,
    classifiers: Mutex<Classifiers>,
}

/// The pod programs as aya knows them: for trials, and for attaching without links.
pub(crate) struct Classifiers {
    pub(crate) from_pod: SchedClassifier,
    pub(crate) to_pod: SchedClassifier,
}

struct Pinned {
    name: &'static str,
    fd: OwnedFd,
    info: programs::ProgramInfo,
}

impl Programs {
    /// Takes the pinned programs of the embedded object; loads and pins them first where they are not there.
    pub(crate) fn open(pins: &Pins, features: Features, socket_hooks: bool) -> Result<Self, Error> {
        match Self::adopt(pins, socket_hooks) {
            Ok(Some(programs)) => {
                tracing::info!("kernel programs are the pinned ones");
                return Ok(programs);
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "pinned kernel programs cannot be used; they are loaded anew"),
        }
        load(pins, features, socket_hooks)?;
        tracing::info!("kernel programs are loaded");
        Self::from_pins(&pins.programs(), socket_hooks)
    }

    /// The pinned programs, unless some are missing or work on other maps than those that are pinned.
    fn adopt(pins: &Pins, socket_hooks: bool) -> Result<Option<Self>, Error> {
        let dir = pins.programs();
        for name in object::program_names(socket_hooks) {
            if !exists(&dir.join(name))? {
                return Ok(None);
            }
        }
        let programs = Self::from_pins(&dir, socket_hooks)?;
        Ok(programs.use_pinned_maps(pins)?.then_some(programs))
    }

    fn from_pins(dir: &Path, socket_hooks: bool) -> Result<Self, Error> {
        let classifier =
            |name| SchedClassifier::from_pin(dir.join(name)).map_err(|source| Error::Program { name, source });
        let sockets = object::SOCKET_HOOKS.iter().filter(|_| socket_hooks);
        Ok(Self {
            from_pod: Pinned::open(dir, FROM_POD)?,
            to_pod: Pinned::open(dir, TO_POD)?,
            sockets: sockets.map(|hook| Pinned::open(dir, hook.program)).collect::<Result<_, _>>()?,
            classifiers: Mutex::new(Classifiers { from_pod: classifier(FROM_POD)?, to_pod: classifier(TO_POD)? }),
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
        for program in self.all() {
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

    fn all(&self) -> impl Iterator<Item = &Pinned> {
        [&self.from_pod, &self.to_pod].into_iter().chain(&self.sockets)
    }

    /// What is in use, by name.
    pub(crate) fn infos(&self) -> Vec<ProgramInfo> {
        let mut infos: Vec<ProgramInfo> = self
            .all()
            .map(|program| ProgramInfo {
                name: program.name.to_owned(),
                id: program.info.id(),
                verified_instructions: program.info.verified_instruction_count(),
            })
            .collect();
        infos.sort_by(|a, b| a.name.cmp(&b.name));
        infos
    }

    /// The program of a pod's hook.
    pub(crate) fn pod(&self, hook: PodHook) -> BorrowedFd<'_> {
        match hook {
            PodHook::From => self.from_pod.fd.as_fd(),
            PodHook::To => self.to_pod.fd.as_fd(),
        }
    }

    /// The program of a socket hook, by its name in the object.
    pub(crate) fn socket(&self, name: &'static str) -> Result<BorrowedFd<'_>, Error> {
        let program = self.sockets.iter().find(|program| program.name == name);
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
fn load(pins: &Pins, features: Features, socket_hooks: bool) -> Result<(), Error> {
    let object = object::load(pins, features, socket_hooks)?;
    let (new, dir) = (pins.new_programs(), pins.programs());
    let failed = |path: &Path, source: io::Error| Error::Io { path: path.to_owned(), source };
    pins::remove_dir(&new)?;
    fs::create_dir(&new).map_err(|source| failed(&new, source))?;
    for name in object::program_names(socket_hooks) {
        let program = object.program(name).ok_or(Error::NotInObject(name))?;
        let fd = program.fd().map_err(|source| Error::Program { name, source })?;
        let path = new.join(name);
        sys::pin(fd.as_fd(), &path).map_err(|source| failed(&path, source))?;
    }
    // The same object's programs, of a run without socket hooks or with other maps. Links keep them until they get these.
    pins::remove_dir(&dir)?;
    fs::rename(&new, &dir).map_err(|source| failed(&dir, source))
}
