use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use skep_abi::{Backend, BackendState, Config, Frontend, FrontendKey, SlotKey};
use skep_dataplane::{Dataplane, Options};

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;

/// The process can be in one cgroup only: worlds come one after the other.
static TURN: Mutex<()> = Mutex::new(());

/// A network namespace with addresses to play backends, a BPF file system, and a cgroup that holds this process.
pub(crate) struct World {
    pub(crate) bpf_dir: PathBuf,
    pub(crate) cgroup: PathBuf,
    home: PathBuf,
    dir: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl World {
    /// A new world, or nothing when this is not root (the reason is printed).
    pub(crate) fn new() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: needs root for BPF programs and namespaces");
            return None;
        }
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET).unwrap();
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>).unwrap();
        let dir = tempfile::tempdir().unwrap();
        mount(Some("bpf"), dir.path(), Some("bpf"), MsFlags::empty(), None::<&str>).unwrap();
        for args in ["link set lo up", "addr add 10.244.1.2/32 dev lo", "addr add fd00:244::2/128 dev lo nodad"] {
            ip(args);
        }
        let root = cgroup2_root();
        let home = root.join(own_cgroup().trim_start_matches('/'));
        let cgroup = root.join(format!("skep-sockets-{}", std::process::id()));
        fs::create_dir_all(&cgroup).unwrap();
        move_to(&cgroup);
        let bpf_dir = dir.path().join("skep");
        Some(Self { bpf_dir, cgroup, home, dir, _turn: turn })
    }

    pub(crate) fn open(&self) -> Dataplane {
        Dataplane::open(&self.options()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The directory of this version's pins.
    pub(crate) fn versioned(&self) -> PathBuf {
        self.bpf_dir.join(format!("v{}", skep_abi::VERSION))
    }

    /// The directory of the pinned programs; there is one only.
    pub(crate) fn programs_dir(&self) -> PathBuf {
        let dirs = fs::read_dir(self.versioned()).unwrap().map(|entry| entry.unwrap().path());
        let programs = dirs.filter(|dir| dir.file_name().unwrap().to_str().unwrap().starts_with("programs-"));
        let [dir] = programs.collect::<Vec<_>>().try_into().unwrap();
        dir
    }

    /// Makes the pinned programs look like those of another kernel object.
    pub(crate) fn pretend_other_object(&self) {
        fs::rename(self.programs_dir(), self.versioned().join("programs-0")).unwrap();
    }

    pub(crate) fn options(&self) -> Options {
        Options {
            bpf_dir: self.bpf_dir.clone(),
            cgroup: Some(self.cgroup.clone()),
            config: config(),
            ..Options::default()
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        move_to(&self.home);
        // Hooks that are left die with their cgroup and the BPF file system.
        let removed = fs::remove_dir(&self.cgroup);
        let unmounted = nix::mount::umount2(self.dir.path(), nix::mount::MntFlags::MNT_DETACH);
        if !std::thread::panicking() {
            removed.unwrap();
            unmounted.unwrap();
        }
    }
}

pub(crate) fn config() -> Config {
    Config { version: skep_abi::VERSION, ..Config::default() }
}

/// The number of this thread's network namespace.
pub(crate) fn netns_cookie() -> u64 {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    let mut cookie = 0_u64;
    let mut len = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes eight bytes into the place given for them.
    #[allow(unsafe_code, reason = "no safe form")]
    let result = unsafe {
        let cookie = (&raw mut cookie).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_NETNS_COOKIE, cookie, &raw mut len)
    };
    assert_eq!(result, 0);
    cookie
}

/// Changes the node-wide settings.
pub(crate) fn configure(dataplane: &Dataplane, change: impl FnOnce(&mut Config)) {
    let setting = &dataplane.maps().config;
    let mut config = setting.get().unwrap();
    change(&mut config);
    setting.set(&config).unwrap();
}

/// Changes what a Service address stands for.
pub(crate) fn change(dataplane: &Dataplane, key: &FrontendKey, change: impl FnOnce(&mut Frontend)) {
    let frontends = &dataplane.maps().frontends;
    let mut frontend = frontends.get(key).unwrap().unwrap();
    change(&mut frontend);
    frontends.set(key, &frontend).unwrap();
}

/// Makes `service` a Service address with these backends, as the next generation.
pub(crate) fn serve(dataplane: &Dataplane, service: SocketAddr, proto: u8, backends: &[SocketAddr]) {
    let maps = dataplane.maps();
    let key = frontend_key(service, proto);
    let old = maps.frontends.get(&key).unwrap();
    let service = old.map_or_else(|| maps.frontends.iter().unwrap().len() as u32 + 1, |old| old.service);
    let generation = old.map_or(1, |old| old.generation + 1);
    for (index, addr) in backends.iter().enumerate() {
        let index = index as u32;
        let id = service * 1000 + generation * 100 + index;
        let backend = Backend {
            addr: addr.ip().into(),
            node: skep_abi::Addr::NONE,
            flags: 0,
            port_be: addr.port().to_be(),
            proto,
            state: BackendState::Active as u8,
        };
        maps.backends.set(&id, &backend).unwrap();
        maps.slots.set(&SlotKey { service, generation, index }, &id).unwrap();
    }
    let frontend = Frontend { service, generation, count: backends.len() as u32, flags: 0, affinity_timeout: 0 };
    maps.frontends.set(&key, &frontend).unwrap();
}

pub(crate) fn frontend_key(service: SocketAddr, proto: u8) -> FrontendKey {
    FrontendKey { addr: service.ip().into(), port_be: service.port().to_be(), proto, scope: 0 }
}

/// `::ffff:a.b.c.d` of an IPv4 address.
pub(crate) fn mapped(addr: SocketAddr) -> SocketAddr {
    let IpAddr::V4(v4) = addr.ip() else { panic!("{addr} is not IPv4") };
    SocketAddr::new(v4.to_ipv6_mapped().into(), addr.port())
}

/// Runs `ip` in this thread's namespace.
pub(crate) fn ip(args: &str) {
    let status = Command::new("ip").args(args.split(' ')).status().unwrap();
    assert!(status.success(), "ip {args}");
}

/// The error that is pending on a socket, if any.
pub(crate) fn pending_error(socket: &impl AsRawFd) -> Option<i32> {
    let mut error: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes an int into the place given for it.
    #[allow(unsafe_code, reason = "no safe form without further features")]
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ERROR, (&raw mut error).cast(), &raw mut len)
    };
    assert_eq!(result, 0);
    (error != 0).then_some(error)
}

fn move_to(cgroup: &Path) {
    fs::write(cgroup.join("cgroup.procs"), std::process::id().to_string()).unwrap();
}

fn cgroup2_root() -> PathBuf {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mut fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mount = fields.find(|fields| fields[2] == "cgroup2").expect("no cgroup2 is mounted");
    PathBuf::from(mount[1])
}

fn own_cgroup() -> String {
    let cgroups = fs::read_to_string("/proc/self/cgroup").unwrap();
    cgroups.lines().find_map(|line| line.strip_prefix("0::")).unwrap().to_owned()
}
