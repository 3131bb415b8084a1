use std::net::{IpAddr, SocketAddr};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use skep_abi::{Addr, Backend, BackendState, Config, Direction, Endpoint, Frontend, FrontendKey, Reason, SlotKey};
use skep_dataplane::{Dataplane, Error, Options, Trial};

/// Test runs happen on the loopback interface.
const IFINDEX: u32 = 1;

/// Addresses of the pod.
pub(crate) const POD: [&str; 2] = ["10.244.1.1", "fd00:244::1"];
/// Addresses of somebody else.
pub(crate) const OTHER: [&str; 2] = ["10.244.2.9", "fd00:244:0:1::9"];
/// Service addresses.
pub(crate) const VIP: [&str; 2] = ["10.96.0.10", "fd53:6b65::10"];

pub(crate) fn at(addr: &str, port: u16) -> SocketAddr {
    SocketAddr::new(addr.parse().unwrap(), port)
}

/// The programs with maps of their own and one pod.
pub(crate) struct World {
    pub(crate) dataplane: Dataplane,
    dir: tempfile::TempDir,
}

impl World {
    /// A new world, or nothing when this is not root (the reason is printed).
    pub(crate) fn new() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: needs root for BPF programs and namespaces");
            return None;
        }
        unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET).unwrap();
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>).unwrap();
        let dir = tempfile::tempdir().unwrap();
        mount(Some("bpf"), dir.path(), Some("bpf"), MsFlags::empty(), None::<&str>).unwrap();
        let dataplane = open(dir.path(), &[]).unwrap_or_else(|error| panic!("{error}"));
        let world = Self { dataplane, dir };
        world.dataplane.maps().endpoints.set(&IFINDEX, &endpoint()).unwrap();
        Some(world)
    }

    /// Opens the dataplane again, with maps of these sizes.
    pub(crate) fn reopen(&mut self, capacities: &[(&'static str, u32)]) -> Result<(), Error> {
        self.dataplane = open(self.dir.path(), capacities)?;
        Ok(())
    }

    /// The directory of pins.
    pub(crate) fn pins(&self) -> std::path::PathBuf {
        self.dir.path().join(format!("skep/v{}", skep_abi::VERSION))
    }

    /// Changes the pod's entry.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Endpoint)) {
        let mut endpoint = endpoint();
        change(&mut endpoint);
        self.dataplane.maps().endpoints.set(&IFINDEX, &endpoint).unwrap();
    }

    /// Makes an address a Service's, with one backend or none.
    pub(crate) fn serve(&self, service: SocketAddr, proto: u8, backend: Option<SocketAddr>) {
        let maps = self.dataplane.maps();
        let number = maps.frontends.iter().unwrap().len() as u32 + 1;
        if let Some(addr) = backend {
            let state = BackendState::Active as u8;
            let backend = Backend {
                addr: addr.ip().into(),
                node: Addr::NONE,
                flags: 0,
                port_be: addr.port().to_be(),
                proto,
                state,
            };
            maps.backends.set(&number, &backend).unwrap();
            maps.slots.set(&SlotKey { service: number, generation: 1, index: 0 }, &number).unwrap();
        }
        let key = FrontendKey { addr: service.ip().into(), port_be: service.port().to_be(), proto, scope: 0 };
        let count = u32::from(backend.is_some());
        let frontend = Frontend { service: number, generation: 1, count, flags: 0, affinity_timeout: 0 };
        maps.frontends.set(&key, &frontend).unwrap();
    }

    /// Changes what a Service address stands for.
    pub(crate) fn change_frontend(&self, service: SocketAddr, proto: u8, change: impl FnOnce(&mut Frontend)) {
        let key = FrontendKey { addr: service.ip().into(), port_be: service.port().to_be(), proto, scope: 0 };
        let frontends = &self.dataplane.maps().frontends;
        let mut frontend = frontends.get(&key).unwrap().unwrap();
        change(&mut frontend);
        frontends.set(&key, &frontend).unwrap();
    }

    /// Runs the program for packets that the pod sends.
    pub(crate) fn egress(&self, packet: &[u8]) -> Trial {
        self.dataplane.try_packet(Direction::Egress, packet, 1).unwrap()
    }

    /// Runs the program for packets to the pod.
    pub(crate) fn ingress(&self, packet: &[u8]) -> Trial {
        self.dataplane.try_packet(Direction::Ingress, packet, 1).unwrap()
    }

    /// Reasons of all drops so far, with their numbers.
    pub(crate) fn drops(&self) -> Vec<(Reason, u64)> {
        let totals = self.dataplane.maps().drops.totals().unwrap();
        let mut by_reason: Vec<(Reason, u64)> = Vec::new();
        for total in totals.into_iter().filter(|total| total.packets > 0) {
            match by_reason.last_mut() {
                Some((reason, packets)) if *reason == total.reason => *packets += total.packets,
                _ => by_reason.push((total.reason, total.packets)),
            }
        }
        by_reason
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let unmounted = umount2(self.dir.path(), MntFlags::MNT_DETACH);
        if !std::thread::panicking() {
            unmounted.unwrap();
        }
    }
}

fn open(dir: &std::path::Path, capacities: &[(&'static str, u32)]) -> Result<Dataplane, Error> {
    let config = Config { version: skep_abi::VERSION, ..Config::default() };
    let capacities = capacities.iter().copied().collect();
    Dataplane::open(&Options { bpf_dir: dir.join("skep"), config, capacities, ..Options::default() })
}

fn endpoint() -> Endpoint {
    let addr = |text: &str| text.parse::<IpAddr>().unwrap().into();
    Endpoint {
        identity: 1,
        addr4: addr(POD[0]),
        addr6: addr(POD[1]),
        id: 7,
        flags: 0,
        rule_list: [0; 2],
        words: [0; 2],
        mac: [2, 0, 0, 0, 2, 1],
        pad: [0; 6],
    }
}
