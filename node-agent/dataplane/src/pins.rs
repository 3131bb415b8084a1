use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::object::{FROM_OVERLAY, FROM_POD, FROM_UPLINK, OBJECT_HASH, TO_OVERLAY, TO_POD, TO_UPLINK};

/// What the names of directories of programs begin with.
const PROGRAMS: &str = "programs-";

/// Paths below the BPF directory; see the head of this crate.
#[derive(Clone, Debug)]
pub(crate) struct Pins {
    root: PathBuf,
}

/// One of the two hooks on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    /// Packets that come in by the interface: from the pod, from the wire.
    From,
    /// Packets that leave by it.
    To,
}

impl Hook {
    pub(crate) const BOTH: [Self; 2] = [Self::To, Self::From];

    fn suffix(self) -> &'static str {
        match self {
            Self::From => "from",
            Self::To => "to",
        }
    }
}

/// What an interface is to the dataplane, which decides the programs on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The node's side of a pod's interface.
    Pod,
    /// The interface that leads to other nodes and out of the cluster.
    Uplink,
    /// The interface of the overlay.
    Overlay,
}

impl Role {
    /// What names of pinned links begin with.
    fn prefix(self) -> &'static str {
        match self {
            Self::Pod => "pod-",
            Self::Uplink => "uplink-",
            Self::Overlay => "overlay-",
        }
    }

    /// The program of a hook.
    pub(crate) fn program(self, hook: Hook) -> &'static str {
        match (self, hook) {
            (Self::Pod, Hook::From) => FROM_POD,
            (Self::Pod, Hook::To) => TO_POD,
            (Self::Uplink, Hook::From) => FROM_UPLINK,
            (Self::Uplink, Hook::To) => TO_UPLINK,
            (Self::Overlay, Hook::From) => FROM_OVERLAY,
            (Self::Overlay, Hook::To) => TO_OVERLAY,
        }
    }
}

impl Pins {
    pub(crate) fn new(bpf_dir: &Path) -> Self {
        Self { root: bpf_dir.join(format!("v{}", skep_abi::VERSION)) }
    }

    pub(crate) fn maps(&self) -> PathBuf {
        self.root.join("maps")
    }

    pub(crate) fn map(&self, name: &str) -> PathBuf {
        self.maps().join(name)
    }

    /// Where maps are made that are to take the place of others.
    pub(crate) fn new_maps(&self) -> PathBuf {
        self.root.join("maps-new")
    }

    /// Where maps stay whose place was taken, until everything has been brought over.
    pub(crate) fn old_maps(&self) -> PathBuf {
        self.root.join("maps-old")
    }

    pub(crate) fn links(&self) -> PathBuf {
        self.root.join("links")
    }

    /// The programs of the embedded kernel object. The directory comes to this name complete.
    pub(crate) fn programs(&self) -> PathBuf {
        self.root.join(format!("{PROGRAMS}{OBJECT_HASH}"))
    }

    /// Where programs are pinned until all of them are.
    pub(crate) fn new_programs(&self) -> PathBuf {
        self.root.join(format!("{PROGRAMS}new"))
    }

    /// Removes the pins of programs of other kernel objects, and of those that were never completed.
    pub(crate) fn remove_other_programs(&self) -> Result<(), Error> {
        let own = self.programs();
        let failed = |source| Error::Io { path: self.root.clone(), source };
        for entry in fs::read_dir(&self.root).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = entry.path();
            if path != own && entry.file_name().as_encoded_bytes().starts_with(PROGRAMS.as_bytes()) {
                remove_dir(&path)?;
            }
        }
        Ok(())
    }

    pub(crate) fn cgroup_link(&self, hook: &str) -> PathBuf {
        self.links().join(format!("cgroup-{hook}"))
    }

    pub(crate) fn link(&self, role: Role, ifindex: u32, hook: Hook) -> PathBuf {
        self.links().join(format!("{}{ifindex}-{}", role.prefix(), hook.suffix()))
    }

    pub(crate) fn create(&self) -> Result<(), Error> {
        for dir in [self.maps(), self.links()] {
            fs::create_dir_all(&dir).map_err(|source| Error::Io { path: dir, source })?;
        }
        Ok(())
    }

    /// Interface indexes and hooks of all pinned links of a role.
    pub(crate) fn interface_links(&self, role: Role) -> Result<Vec<(u32, Hook)>, Error> {
        let dir = self.links();
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(Error::Io { path: dir, source }),
        };
        let mut links = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|source| Error::Io { path: dir.clone(), source })?;
            links.extend(entry.file_name().to_str().and_then(|name| parse_link(role, name)));
        }
        links.sort_by_key(|(ifindex, _)| *ifindex);
        Ok(links)
    }
}

fn parse_link(role: Role, name: &str) -> Option<(u32, Hook)> {
    let (ifindex, suffix) = name.strip_prefix(role.prefix())?.split_once('-')?;
    let hook = Hook::BOTH.into_iter().find(|hook| hook.suffix() == suffix)?;
    Some((ifindex.parse().ok()?, hook))
}

/// Removes a directory of pins. Absence is no error.
pub(crate) fn remove_dir(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(Error::Io { path: path.to_owned(), source }),
        _ => Ok(()),
    }
}
