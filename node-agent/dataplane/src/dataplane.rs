use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use skep_abi::{Config, Direction};

use crate::object::{self, FROM_POD, Features, SOCKET_HOOKS, TO_POD};
use crate::pins::{Pins, PodHook};
use crate::programs::{ProgramInfo, Programs};
use crate::sys::{AttachType, Target};
use crate::trial::{self, Trial};
use crate::{Error, Events, Maps, bpffs, clsact, layout, link};

/// What [`Dataplane::open`] needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directory on a BPF file system, this node's own. One below `/sys/fs/bpf` is mounted when needed.
    pub bpf_dir: PathBuf,
    /// cgroup2 directory whose processes get socket load balancing; without one the tc programs translate alone.
    pub cgroup: Option<PathBuf>,
    /// Written to the `config` map before any program runs.
    pub config: Config,
}

/// The loaded programs and their pinned maps and links.
///
/// Dropping it detaches nothing: links stay pinned. Methods act in the network namespace of the calling thread.
pub struct Dataplane {
    maps: Maps,
    pins: Pins,
    features: Features,
    programs: Programs,
}

impl Dataplane {
    /// Adopts maps, links and programs that are pinned under the same ABI version, and loads what is missing of the
    /// kernel object.
    ///
    /// Maps keep their entries. Programs are loaded only when those that are pinned were made from another object or
    /// work on other maps. Links that run get the programs in place: first the ones of pods that are still there, then
    /// the socket hooks. Without [`Options::cgroup`] socket hooks of an earlier run are removed.
    ///
    /// # Errors
    ///
    /// When the directory is not on a BPF file system, a pinned map has another layout, or the kernel refuses a program
    /// or link. Programs that ran before go on running.
    pub fn open(options: &Options) -> Result<Self, Error> {
        bpffs::prepare(&options.bpf_dir)?;
        let pins = Pins::new(&options.bpf_dir);
        pins.create()?;
        layout::check(&pins)?;
        let features = object::features()?;
        let programs = Programs::open(&pins, features, options.cgroup.is_some())?;
        let maps = Maps::open(&options.bpf_dir)?;
        maps.config.set(&options.config)?;
        let dataplane = Self { maps, pins, features, programs };
        dataplane.adopt_pods()?;
        match &options.cgroup {
            Some(cgroup) => dataplane.attach_socket_hooks(cgroup)?,
            None => dataplane.detach_socket_hooks()?,
        }
        // Only now does no link need them any more.
        dataplane.pins.remove_other_programs()?;
        Ok(dataplane)
    }

    /// The maps.
    pub fn maps(&self) -> &Maps {
        &self.maps
    }

    /// What this kernel can do beyond the minimum.
    pub fn features(&self) -> Features {
        self.features
    }

    /// The programs in use and what the verifier made of them, by name.
    pub fn programs(&self) -> Vec<ProgramInfo> {
        self.programs.infos()
    }

    /// Runs a pod program in the kernel on a made-up packet, against the maps as they are. Nothing is sent, but counters,
    /// events and conntrack take the packet for real.
    ///
    /// # Errors
    ///
    /// When the kernel refuses the packet, as it does one shorter than an Ethernet header.
    pub fn try_packet(&self, direction: Direction, packet: &[u8], repeat: u32) -> Result<Trial, Error> {
        let programs = self.programs.classifiers();
        let (program, name) = match direction {
            Direction::Ingress => (&programs.to_pod, TO_POD),
            Direction::Egress => (&programs.from_pod, FROM_POD),
        };
        trial::run(program, name, packet, repeat)
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
        if !self.features.tcx {
            return clsact::attach(&mut self.programs.classifiers(), ifname);
        }
        // For each new hook the kernel lets packets that are under way pass, some 13 ms, and holds the lock on all
        // interfaces meanwhile: two at the same time would take as long.
        self.attach_hook(ifindex, PodHook::To)?;
        self.attach_hook(ifindex, PodHook::From)
    }

    fn attach_hook(&self, ifindex: u32, hook: PodHook) -> Result<(), Error> {
        let path = self.pins.pod_link(ifindex, hook);
        let target = Target::Interface(ifindex);
        link::ensure(&path, self.programs.pod(hook), target, u64::from(ifindex), pod_attach_type(hook))
    }

    /// Removes the programs from a pod's interface, which may be gone already.
    ///
    /// # Errors
    ///
    /// When a pin cannot be removed.
    pub fn detach_pod(&self, ifindex: u32) -> Result<(), Error> {
        for hook in PodHook::BOTH {
            link::remove(&self.pins.pod_link(ifindex, hook))?;
        }
        Ok(())
    }

    /// Interface indexes that have pinned links, in order.
    ///
    /// # Errors
    ///
    /// When the link directory cannot be read.
    pub fn attached_pods(&self) -> Result<Vec<u32>, Error> {
        let mut pods: Vec<u32> = self.pins.pod_links()?.into_iter().map(|(ifindex, _)| ifindex).collect();
        pods.dedup();
        Ok(pods)
    }

    /// Gives the links of pods the new programs; those whose interface is gone are removed.
    fn adopt_pods(&self) -> Result<(), Error> {
        for (ifindex, hook) in self.pins.pod_links()? {
            let path = self.pins.pod_link(ifindex, hook);
            let target = Target::Interface(ifindex);
            if !link::update(&path, self.programs.pod(hook), target, u64::from(ifindex), pod_attach_type(hook))? {
                tracing::info!(ifindex, "a pod's interface is gone; its link is removed");
                link::remove(&path)?;
            }
        }
        Ok(())
    }

    fn attach_socket_hooks(&self, cgroup: &Path) -> Result<(), Error> {
        let failed = |source| Error::Io { path: cgroup.to_owned(), source };
        let dir = File::open(cgroup).map_err(failed)?;
        // The id of a cgroup is the inode number of its directory.
        let id = fs::metadata(cgroup).map_err(failed)?.ino();
        for hook in SOCKET_HOOKS {
            let program = self.programs.socket(hook.program)?;
            let path = self.pins.cgroup_link(hook.link);
            link::ensure(&path, program, Target::Cgroup(dir.as_fd()), id, hook.attach)?;
        }
        Ok(())
    }

    /// In the reverse order of attaching: those that translate go before those that show.
    fn detach_socket_hooks(&self) -> Result<(), Error> {
        for hook in SOCKET_HOOKS.iter().rev() {
            link::remove(&self.pins.cgroup_link(hook.link))?;
        }
        Ok(())
    }
}

fn pod_attach_type(hook: PodHook) -> AttachType {
    match hook {
        PodHook::From => AttachType::TcxIngress,
        PodHook::To => AttachType::TcxEgress,
    }
}
