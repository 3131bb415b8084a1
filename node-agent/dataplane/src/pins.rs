use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Error;

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
