use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::object::{FROM_OVERLAY, FROM_POD, FROM_UPLINK, OBJECT_HASH, TO_OVERLAY, TO_POD, TO_UPLINK};

/// What the names of directories of programs begin with.
const PROGRAMS: &str = "programs-";
/// What the names of pinned links of the XDP program begin with.
const XDP: &str = "xdp-";

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

    pub(crate) fn xdp_link(&self, ifindex: u32) -> PathBuf {
        self.links().join(format!("{XDP}{ifindex}"))
    }

    /// Interface indexes of all pinned links of the XDP program.
    pub(crate) fn xdp_links(&self) -> Result<Vec<u32>, Error> {
        let index = |name: &String| name.strip_prefix(XDP)?.parse().ok();
        Ok(self.link_names()?.iter().filter_map(index).collect())
    }

    pub(crate) fn create(&self) -> Result<(), Error> {
        for dir in [self.maps(), self.links()] {
            fs::create_dir_all(&dir).map_err(|source| Error::Io { path: dir, source })?;
        }
        Ok(())
    }

    /// Interface indexes and hooks of all pinned links of a role.
    pub(crate) fn interface_links(&self, role: Role) -> Result<Vec<(u32, Hook)>, Error> {
        let mut links: Vec<_> = self.link_names()?.iter().filter_map(|name| parse_link(role, name)).collect();
        links.sort_by_key(|(ifindex, _)| *ifindex);
        Ok(links)
    }

    /// Names of all pinned links.
    fn link_names(&self) -> Result<Vec<String>, Error> {
        let dir = self.links();
        let failed = |source| Error::Io { path: dir.clone(), source };
        let entries = match fs::read_dir(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            names.extend(entry.map_err(failed)?.file_name().into_string());
        }
        Ok(names)
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
