use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use skep_abi::{Config, Direction, config_flags};

use crate::object::{self, FROM_POD, FROM_UPLINK, Features, SOCKET_HOOKS, TO_POD, TO_UPLINK, Wanted, XDP_UPLINK};
use crate::pins::{Hook, Pins, Role};
use crate::programs::{ProgramInfo, Programs};
use crate::resize::Resize;
use crate::sys::{AttachType, Target};
use crate::trial::{self, Trial};
use crate::xdp::{Xdp, XdpMode, XdpState};
use crate::{Census, ConntrackSweeper, Error, Events, Maps, NatSweeper, bpffs, clsact, interface, layout, link};

/// What [`Dataplane::open`] needs to know.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Directory on a BPF file system, this node's own. One below `/sys/fs/bpf` is mounted when needed.
    pub bpf_dir: PathBuf,
    /// cgroup2 directory whose processes get socket load balancing; without one the tc programs translate alone.
    pub cgroup: Option<PathBuf>,
    /// Index of the interface that leads to other nodes and out of the cluster; without one nothing comes in from outside.
    pub uplink: Option<u32>,
    /// Index of the overlay's interface, by which packets reach pods of other nodes; without one routes are direct. It needs
    /// an uplink.
    pub overlay: Option<u32>,
    /// Whether packets that only pass through this node are sent on at the uplink's driver.
    pub xdp: XdpMode,
    /// Written to the `config` map before any program runs. What it says about uplink and overlay is filled in.
    pub config: Config,
    /// Most entries of hashes and tries, by name. The others have as many as they have, or as the kernel object gives them.
    pub capacities: BTreeMap<&'static str, u32>,
}

/// The loaded programs and their pinned maps and links.
///
/// Dropping it detaches nothing: links stay pinned. Methods act in the network namespace of the calling thread.
pub struct Dataplane {
    maps: Maps,
    pins: Pins,
    features: Features,
    programs: Programs,
    xdp: Xdp,
    resize: Mutex<Resize>,
}

impl Dataplane {
    /// Adopts maps, links and programs that are pinned under the same ABI version, and loads what is missing of the
    /// kernel object.
    ///
    /// Maps keep their entries. Programs are loaded only when those that are pinned were made from another object or
    /// work on other maps. Links that run get the programs in place: first the ones of pods that are still there, then
    /// the socket hooks. Without [`Options::cgroup`] socket hooks of an earlier run are removed.
    ///
    /// A map that is to have another capacity than the pinned one is made anew and gets its entries, also those that programs
    /// write until they are exchanged for ones on the new map: connections go on.
    ///
    /// # Errors
    ///
    /// When the directory is not on a BPF file system, a pinned map has another layout or more entries than it is to have
    /// room for ([`Error::TooSmall`]), or the kernel refuses a program or link. Programs that ran before go on running.
    pub fn open(options: &Options) -> Result<Self, Error> {
        let dataplane = Self::open_once(options)?;
        // Where there are no links, the pods' programs are exchanged later, and so the sizes with the next start.
        if dataplane.features.tcx && dataplane.resize().was_unfinished() {
            return Self::open_once(options);
        }
        Ok(dataplane)
    }

    fn open_once(options: &Options) -> Result<Self, Error> {
        bpffs::prepare(&options.bpf_dir)?;
        let pins = Pins::new(&options.bpf_dir);
        pins.create()?;
        layout::check(&pins)?;
        let features = object::features()?;
        let mut xdp = Xdp { mode: options.xdp, uplink: options.uplink, refused: None };
        let mut wanted = Wanted {
            sockets: options.cgroup.is_some(),
            uplink: options.uplink.is_some(),
            overlay: options.overlay.is_some(),
            xdp: options.uplink.is_some() && options.xdp != XdpMode::Off,
        };
        let mut resize = Resize::plan(&pins, &options.capacities)?;
        let programs = match Programs::open(&pins, features, wanted, &options.capacities, &mut resize) {
            Err(error @ Error::Program { name: XDP_UPLINK, .. }) if options.xdp == XdpMode::Auto => {
                tracing::warn!(%error, "no XDP: the kernel refuses the program");
                xdp.refused = Some("the kernel refuses the program".to_owned());
                wanted.xdp = false;
                Programs::open(&pins, features, wanted, &options.capacities, &mut resize)?
            }
            programs => programs?,
        };
        let maps = Maps::open(&options.bpf_dir)?;
        let mut config = options.config;
        (config.uplink_ifindex, config.uplink_mac) = match options.uplink {
            Some(ifindex) => (ifindex, interface::mac(ifindex)?),
            None => (0, [0; 6]),
        };
        config.tunnel_ifindex = options.overlay.unwrap_or(0);
        if xdp.redirects()? {
            config.flags |= config_flags::XDP_REDIRECT;
        }
        maps.config.set(&config)?;
        let dataplane = Self { maps, pins, features, programs, xdp, resize: Mutex::new(resize) };
        dataplane.adopt_pods()?;
        dataplane.attach_only(Role::Uplink, options.uplink)?;
        dataplane.attach_only(Role::Overlay, options.overlay)?;
        // After what it leaves packets to.
        match (dataplane.settle_xdp()?, options.uplink) {
            (XdpState::Unavailable(reason), Some(ifindex)) if options.xdp == XdpMode::Native => {
                return Err(Error::Xdp { ifindex, reason });
            }
            _ => {}
        }
        match &options.cgroup {
            Some(cgroup) => dataplane.attach_socket_hooks(cgroup)?,
            None => dataplane.detach_socket_hooks()?,
        }
        // Only now does no link need them any more.
        dataplane.pins.remove_other_programs()?;
        if features.tcx {
            dataplane.settle()?;
        }
        Ok(dataplane)
    }

    /// Ends a change of maps' sizes: brings over what was written to the old maps while programs were exchanged. Opening does it
    /// where programs hang on links; where they do not (before Linux 6.6), it is due when every pod has been attached again.
    /// When there is nothing to do, nothing is done.
    ///
    /// # Errors
    ///
    /// When a map cannot be read or written. It is tried again by the next [`Dataplane::open`].
    pub fn settle(&self) -> Result<(), Error> {
        self.resize().settle(&self.pins)
    }

    fn resize(&self) -> MutexGuard<'_, Resize> {
        self.resize.lock().unwrap_or_else(PoisonError::into_inner)
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
        let name = match direction {
            Direction::Ingress => TO_POD,
            Direction::Egress => FROM_POD,
        };
        trial::run(self.programs.classifiers().get(name)?, name, packet, repeat)
    }

    /// As [`Self::try_packet`] for the programs of the uplink: [`Direction::Ingress`] is towards this node.
    ///
    /// # Errors
    ///
    /// Also when there is no uplink.
    pub fn try_uplink_packet(&self, direction: Direction, packet: &[u8], repeat: u32) -> Result<Trial, Error> {
        let name = match direction {
            Direction::Ingress => FROM_UPLINK,
            Direction::Egress => TO_UPLINK,
        };
        trial::run(self.programs.classifiers().get(name)?, name, packet, repeat)
    }

    /// As [`Self::try_packet`] for the program at the uplink's driver, to which packets come from outside only.
    ///
    /// # Errors
    ///
    /// Also when the program is not wanted.
    pub fn try_xdp_packet(&self, packet: &[u8], repeat: u32) -> Result<Trial, Error> {
        let program = self.programs.get(XDP_UPLINK)?;
        trial::run_xdp(program, packet, repeat).map_err(|source| Error::Trial { name: XDP_UPLINK, source })
    }

    /// Puts the XDP program on the uplink or takes it off, as the uplink's driver is able now: one side of a veth pair can do no
    /// more than what the other takes, which its owner may change at any time.
    ///
    /// # Errors
    ///
    /// When the interface is gone, or a pin cannot be made or removed.
    pub fn settle_xdp(&self) -> Result<XdpState, Error> {
        self.xdp.settle(&self.pins, &self.programs)
    }

    /// What removes translations that are over.
    ///
    /// # Errors
    ///
    /// When the map cannot be opened.
    pub fn nat_sweeper(&self) -> Result<NatSweeper, Error> {
        NatSweeper::open(&self.pins)
    }

    /// What removes connections that are over.
    ///
    /// # Errors
    ///
    /// When the map cannot be opened.
    pub fn conntrack_sweeper(&self) -> Result<ConntrackSweeper, Error> {
        ConntrackSweeper::open(&self.pins)
    }

    /// What counts the entries of maps that programs fill.
    pub fn census(&self) -> Census {
        Census::new(self.pins.clone())
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
        self.attach_interface(Role::Pod, ifname, ifindex)
    }

    fn attach_interface(&self, role: Role, ifname: &str, ifindex: u32) -> Result<(), Error> {
        if !self.features.tcx {
            return clsact::attach(&mut self.programs.classifiers(), role, ifname);
        }
        // For each new hook the kernel lets packets that are under way pass, some 13 ms, and holds the lock on all
        // interfaces meanwhile: two at the same time would take as long.
        for hook in Hook::BOTH {
            let path = self.pins.link(role, ifindex, hook);
            let program = self.programs.get(role.program(hook))?;
            link::ensure(&path, program, Target::Interface(ifindex), u64::from(ifindex), attach_type(hook))?;
        }
        Ok(())
    }

    /// Puts the programs on the one interface of a role, and takes them off what was one before.
    fn attach_only(&self, role: Role, ifindex: Option<u32>) -> Result<(), Error> {
        if let Some(ifindex) = ifindex {
            self.attach_interface(role, &interface::name(ifindex)?, ifindex)?;
        }
        for (other, hook) in self.pins.interface_links(role)? {
            if Some(other) != ifindex {
                link::remove(&self.pins.link(role, other, hook))?;
            }
        }
        Ok(())
    }

    /// Removes the programs from a pod's interface, which may be gone already.
    ///
    /// # Errors
    ///
    /// When a pin cannot be removed.
    pub fn detach_pod(&self, ifindex: u32) -> Result<(), Error> {
        for hook in Hook::BOTH {
            link::remove(&self.pins.link(Role::Pod, ifindex, hook))?;
        }
        Ok(())
    }

    /// Interface indexes that have pinned links, in order.
    ///
    /// # Errors
    ///
    /// When the link directory cannot be read.
    pub fn attached_pods(&self) -> Result<Vec<u32>, Error> {
        let mut pods: Vec<u32> =
            self.pins.interface_links(Role::Pod)?.into_iter().map(|(ifindex, _)| ifindex).collect();
        pods.dedup();
        Ok(pods)
    }

    /// Gives the links of pods the new programs; those whose interface is gone are removed.
    fn adopt_pods(&self) -> Result<(), Error> {
        for (ifindex, hook) in self.pins.interface_links(Role::Pod)? {
            let path = self.pins.link(Role::Pod, ifindex, hook);
            let program = self.programs.get(Role::Pod.program(hook))?;
            let target = Target::Interface(ifindex);
            if !link::update(&path, program, target, u64::from(ifindex), attach_type(hook))? {
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
            let program = self.programs.get(hook.program)?;
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

fn attach_type(hook: Hook) -> AttachType {
    match hook {
        Hook::From => AttachType::TcxIngress,
        Hook::To => AttachType::TcxEgress,
    }
}
