use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::object::OBJECT_HASH;

/// What the names of directories of programs begin with.
const PROGRAMS: &str = "programs-";

/// Paths below the BPF directory; see the head of this crate.
#[derive(Clone, Debug)]
pub(crate) struct Pins {
    root: PathBuf,
}

/// Which of a pod's two hooks a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodHook {
    /// Packets that the pod sends: ingress of the host side.
    From,
    /// Packets to the pod: egress of the host side.
    To,
}

impl PodHook {
    pub(crate) const BOTH: [Self; 2] = [Self::To, Self::From];

    fn suffix(self) -> &'static str {
        match self {
            Self::From => "from",
            Self::To => "to",
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

    pub(crate) fn pod_link(&self, ifindex: u32, hook: PodHook) -> PathBuf {
        self.links().join(format!("pod-{ifindex}-{}", hook.suffix()))
    }

    pub(crate) fn create(&self) -> Result<(), Error> {
        for dir in [self.maps(), self.links()] {
            fs::create_dir_all(&dir).map_err(|source| Error::Io { path: dir, source })?;
        }
        Ok(())
    }

    /// Interface indexes and hooks of all pinned pod links.
    pub(crate) fn pod_links(&self) -> Result<Vec<(u32, PodHook)>, Error> {
        let dir = self.links();
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(Error::Io { path: dir, source }),
        };
        let mut links = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|source| Error::Io { path: dir.clone(), source })?;
            links.extend(entry.file_name().to_str().and_then(parse_pod_link));
        }
        links.sort_by_key(|(ifindex, _)| *ifindex);
        Ok(links)
    }
}

fn parse_pod_link(name: &str) -> Option<(u32, PodHook)> {
    let (ifindex, suffix) = name.strip_prefix("pod-")?.split_once('-')?;
    let hook = PodHook::BOTH.into_iter().find(|hook| hook.suffix() == suffix)?;
    Some((ifindex.parse().ok()?, hook))
}

/// Removes a directory of pins. Absence is no error.
pub(crate) fn remove_dir(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(Error::Io { path: path.to_owned(), source }),
        _ => Ok(()),
    }
}
