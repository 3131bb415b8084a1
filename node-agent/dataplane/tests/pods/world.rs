use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use skep_abi::{
    Addr, Backend, BackendState, Config, Counter, Direction, Endpoint, FlowEvent, Frontend, FrontendKey, Reason,
    SlotKey,
};
use skep_dataplane::{Dataplane, Options};

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
/// The node's own addresses.
pub(crate) const NODE4: &str = "192.0.2.1";
pub(crate) const NODE6: &str = "2001:db8::1";
/// Service addresses.
pub(crate) const VIPS: [&str; 2] = ["10.96.0.10", "fd53:6b65::10"];

type Task = Box<dyn FnOnce() + Send>;

/// A node and what runs on it.
pub(crate) struct Node {
    pub(crate) dataplane: Dataplane,
    pub(crate) bpf_dir: PathBuf,
    dir: tempfile::TempDir,
}

impl Node {
    /// A node without pods, or nothing when this is not root (the reason is printed).
    pub(crate) fn new() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: needs root for BPF programs and namespaces");
            return None;
        }
        unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET).unwrap();
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>).unwrap();
        let dir = tempfile::tempdir().unwrap();
        mount(Some("bpf"), dir.path(), Some("bpf"), MsFlags::empty(), None::<&str>).unwrap();
        ip("link set lo up");
        ip("link add uplink type veth peer name far");
        ip("link set far up");
        ip("link set uplink up");
        ip(&format!("addr add {NODE4}/24 dev uplink"));
        ip(&format!("addr add {NODE6}/64 dev uplink nodad"));
        // So that what no program translates has somewhere to go.
        ip("route add default dev uplink");
        ip("-6 route add default dev uplink");
        for sysctl in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            std::fs::write(format!("/proc/sys/net/{sysctl}"), "1").unwrap();
        }
        let bpf_dir = dir.path().join("skep");
        let dataplane = open(&bpf_dir, 0);
        Some(Self { dataplane, bpf_dir, dir })
    }

    /// A pod with the addresses 10.244.1.N and fd00:244::N and identity N.
    pub(crate) fn pod(&self, n: u8) -> Pod {
        let (sender, tasks) = channel::<Task>();
        thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            while let Ok(task) = tasks.recv() {
                task();
            }
        });
        let (addr4, addr6) = (format!("10.244.1.{n}"), format!("fd00:244::{n}"));
        let pod = Pod { sender, host: format!("pod{n}"), addrs: [addr4.parse().unwrap(), addr6.parse().unwrap()] };
        let host = &pod.host;
        let thread = pod.run(nix::unistd::gettid);
        let (outer, inner) = (format!("02:00:00:00:01:{n:02x}"), format!("02:00:00:00:02:{n:02x}"));
        ip(&format!("link add {host} address {outer} type veth peer name eth0 address {inner} netns {thread}"));
        std::fs::write(format!("/proc/sys/net/ipv6/conf/{host}/accept_dad"), "0").unwrap();
        ip(&format!("link set {host} up"));
        pod.run({
            let (addr4, addr6) = (addr4.clone(), addr6.clone());
            move || {
                ip("link set lo up");
                std::fs::write("/proc/sys/net/ipv6/conf/eth0/accept_dad", "0").unwrap();
                ip("link set eth0 up");
                ip(&format!("addr add {addr4}/32 dev eth0"));
                ip(&format!("addr add {addr6}/128 dev eth0 nodad"));
                ip(&format!("neigh add 169.254.1.1 lladdr {outer} dev eth0 nud permanent"));
                ip(&format!("neigh add fe80::1 lladdr {outer} dev eth0 nud permanent"));
                ip("route add 169.254.1.1 dev eth0");
                ip("route add default via 169.254.1.1 dev eth0");
                ip("-6 route add default via fe80::1 dev eth0");
            }
        });
        ip(&format!("route add {addr4}/32 dev {host}"));
        ip(&format!("-6 route add {addr6}/128 dev {host}"));
        let mac = [2, 0, 0, 0, 2, n];
        let endpoint = Endpoint {
            identity: n.into(),
            addr4: pod.addrs[0].into(),
            addr6: pod.addrs[1].into(),
            id: 100 + u32::from(n),
            flags: 0,
            rule_list: [0; 2],
            words: [0; 2],
            mac,
            pad: [0; 6],
        };
        let maps = self.dataplane.maps();
        let ifindex = pod.ifindex();
        maps.endpoints.set(&ifindex, &endpoint).unwrap();
        for addr in pod.addrs {
            maps.identities.set(&addr.into(), &n.into()).unwrap();
        }
        self.dataplane.attach_pod(host, ifindex).unwrap();
        pod
    }

    /// Changes a pod's entry.
    pub(crate) fn change(&self, pod: &Pod, change: impl FnOnce(&mut Endpoint)) {
        let endpoints = &self.dataplane.maps().endpoints;
        let mut endpoint = endpoints.get(&pod.ifindex()).unwrap().unwrap();
        change(&mut endpoint);
        endpoints.set(&pod.ifindex(), &endpoint).unwrap();
    }

    /// Makes `service` a Service address with these backends, as the next generation.
    pub(crate) fn serve(&self, service: SocketAddr, proto: u8, backends: &[SocketAddr]) {
        let maps = self.dataplane.maps();
        let key = FrontendKey { addr: service.ip().into(), port_be: service.port().to_be(), proto, scope: 0 };
        let old = maps.frontends.get(&key).unwrap();
        let service = old.map_or_else(|| maps.frontends.iter().unwrap().len() as u32 + 1, |old| old.service);
        let generation = old.map_or(1, |old| old.generation + 1);
        for index in 0..old.map_or(0, |old| old.count) {
            let slot = SlotKey { service, generation: generation - 1, index };
            let id = maps.slots.get(&slot).unwrap().unwrap();
            maps.backends.remove(&id).unwrap();
        }
        for (index, addr) in backends.iter().enumerate() {
            let index = index as u32;
            let id = service * 1000 + generation * 100 + index;
            let backend = Backend {
                addr: addr.ip().into(),
                node: Addr::NONE,
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

    /// As [`Self::serve`], with backends that are what their numbers say from one set to the next, and flags. Gives the number of
    /// the endpoint set.
    pub(crate) fn serve_set(
        &self,
        service: SocketAddr,
        proto: u8,
        backends: &[(u32, SocketAddr)],
        flags: u32,
        affinity_timeout: u32,
    ) -> u32 {
        let maps = self.dataplane.maps();
        let key = frontend_key(service, proto);
        let old = maps.frontends.get(&key).unwrap();
        let number = old.map_or_else(|| maps.frontends.iter().unwrap().len() as u32 + 1, |old| old.service);
        let generation = old.map_or(1, |old| old.generation + 1);
        for (index, (id, addr)) in backends.iter().enumerate() {
            let backend = Backend {
                addr: addr.ip().into(),
                node: Addr::NONE,
                flags: 0,
                port_be: addr.port().to_be(),
                proto,
                state: BackendState::Active as u8,
            };
            maps.backends.set(id, &backend).unwrap();
            maps.slots.set(&SlotKey { service: number, generation, index: index as u32 }, id).unwrap();
        }
        let count = backends.len() as u32;
        let frontend = Frontend { service: number, generation, count, flags, affinity_timeout };
        maps.frontends.set(&key, &frontend).unwrap();
        number
    }

    /// Says what a backend is up to.
    pub(crate) fn set_state(&self, id: u32, state: BackendState) {
        let backends = &self.dataplane.maps().backends;
        let mut backend = backends.get(&id).unwrap().unwrap();
        backend.state = state as u8;
        backends.set(&id, &backend).unwrap();
    }

    /// What a counter says.
    pub(crate) fn counter(&self, counter: Counter) -> u64 {
        let totals = self.dataplane.maps().counters.totals().unwrap();
        totals.into_iter().find(|(which, _)| *which == counter).unwrap().1
    }

    /// Packets dropped for a reason so far.
    pub(crate) fn drops(&self, reason: Reason, direction: Direction) -> u64 {
        let totals = self.dataplane.maps().drops.totals().unwrap();
        totals.iter().find(|t| t.reason == reason && t.direction == direction).unwrap().packets
    }

    /// All flow events since the last call.
    pub(crate) fn events(&self) -> Vec<FlowEvent> {
        let mut events = self.dataplane.events().unwrap();
        std::iter::from_fn(|| events.next()).collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let unmounted = umount2(self.dir.path(), MntFlags::MNT_DETACH);
        if !thread::panicking() {
            unmounted.unwrap();
        }
    }
}

pub(crate) fn frontend_key(service: SocketAddr, proto: u8) -> FrontendKey {
    FrontendKey { addr: service.ip().into(), port_be: service.port().to_be(), proto, scope: 0 }
}

pub(crate) fn open(bpf_dir: &std::path::Path, flags: u32) -> Dataplane {
    let addr = |text: &str| Addr::from(text.parse::<IpAddr>().unwrap());
    let config = Config {
        version: skep_abi::VERSION,
        flags,
        node_addr4: addr(NODE4),
        node_addr6: addr(NODE6),
        ..Config::default()
    };
    let options = Options { bpf_dir: bpf_dir.to_owned(), config, ..Options::default() };
    Dataplane::open(&options).unwrap_or_else(|error| panic!("{error}"))
}

/// Makes the pinned programs look like those of another kernel object.
pub(crate) fn pretend_other_object(bpf_dir: &std::path::Path) {
    let dir = bpf_dir.join(format!("v{}", skep_abi::VERSION));
    let names = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let [name] = names.filter(|name| name.starts_with("programs-")).collect::<Vec<_>>().try_into().unwrap();
    std::fs::rename(dir.join(name), dir.join("programs-0")).unwrap();
}

/// A network namespace with a thread in it.
pub(crate) struct Pod {
    sender: Sender<Task>,
    /// Name of the node's side of its interface.
    pub(crate) host: String,
    /// IPv4 and IPv6.
    pub(crate) addrs: [IpAddr; 2],
}

impl Pod {
    /// Runs something in the pod and waits for what it gives.
    pub(crate) fn run<T: Send + 'static>(&self, task: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, result) = channel();
        self.sender.send(Box::new(move || drop(done.send(task())))).unwrap();
        result.recv().expect("the pod's thread has panicked")
    }

    pub(crate) fn ifindex(&self) -> u32 {
        nix::net::if_::if_nametoindex(self.host.as_str()).unwrap()
    }

    /// A TCP server that tells each client which address it is seen at.
    pub(crate) fn tcp_server(&self, addr: IpAddr) -> SocketAddr {
        self.run(move || {
            let listener = TcpListener::bind((addr, 0)).unwrap();
            let local = listener.local_addr().unwrap();
            thread::spawn(move || {
                for stream in listener.incoming() {
                    let Ok(mut stream) = stream else { return };
                    let peer = stream.peer_addr().map(|peer| peer.to_string()).unwrap_or_default();
                    // The client may be gone; then nobody waits for the reply.
                    let _ = stream.write_all(peer.as_bytes());
                }
            });
            local
        })
    }

    /// A UDP server that tells each client which address it is seen at, and how much it sent.
    pub(crate) fn udp_server(&self, addr: IpAddr) -> SocketAddr {
        self.run(move || {
            let socket = UdpSocket::bind((addr, 0)).unwrap();
            let local = socket.local_addr().unwrap();
            thread::spawn(move || {
                let mut buffer = vec![0; 65536];
                while let Ok((len, from)) = socket.recv_from(&mut buffer) {
                    let _ = socket.send_to(format!("{from} {len}").as_bytes(), from);
                }
            });
            local
        })
    }

    /// A UDP server that tells each client its own address.
    pub(crate) fn named_udp_server(&self, addr: IpAddr) -> SocketAddr {
        self.run(move || {
            let socket = UdpSocket::bind((addr, 0)).unwrap();
            let local = socket.local_addr().unwrap();
            thread::spawn(move || {
                let mut buffer = vec![0; 65536];
                while let Ok((_, from)) = socket.recv_from(&mut buffer) {
                    let _ = socket.send_to(local.to_string().as_bytes(), from);
                }
            });
            local
        })
    }

    /// A datagram socket that is connected to a server, from a port that no other has had: flows are known for a while after
    /// their socket.
    pub(crate) fn connect(&self, server: SocketAddr) -> UdpSocket {
        /// Below what the kernel gives.
        static NEXT_PORT: AtomicU16 = AtomicU16::new(10_000);
        let port = NEXT_PORT.fetch_add(1, Ordering::Relaxed);
        let local = self.addrs[usize::from(server.is_ipv6())];
        self.run(move || {
            let socket = UdpSocket::bind((local, port)).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(700))).unwrap();
            socket.connect(server).unwrap();
            socket
        })
    }

    /// Connects and gives what the server says, with the connection's own addresses (local, peer).
    pub(crate) fn ask(&self, server: SocketAddr) -> std::io::Result<(String, SocketAddr, SocketAddr)> {
        self.run(move || {
            let mut stream = TcpStream::connect_timeout(&server, Duration::from_millis(700))?;
            stream.set_read_timeout(Some(Duration::from_secs(2)))?;
            let mut reply = String::new();
            stream.read_to_string(&mut reply)?;
            Ok((reply, stream.local_addr()?, stream.peer_addr()?))
        })
    }

    /// Sends a datagram of `len` bytes from a socket of its own and gives the answer, with its sender and the socket's
    /// port.
    pub(crate) fn send(&self, server: SocketAddr, len: usize) -> std::io::Result<(String, SocketAddr, u16)> {
        let local = self.addrs[usize::from(server.is_ipv6())];
        self.run(move || {
            let socket = UdpSocket::bind((local, 0))?;
            exchange(&socket, server, len).map(|(reply, from)| (reply, from, socket.local_addr().unwrap().port()))
        })
    }
}

/// Sends a datagram and waits for the answer.
pub(crate) fn exchange(socket: &UdpSocket, server: SocketAddr, len: usize) -> std::io::Result<(String, SocketAddr)> {
    socket.set_read_timeout(Some(Duration::from_millis(700)))?;
    socket.send_to(&vec![b'x'; len], server)?;
    let mut buffer = [0; 100];
    let (len, from) = socket.recv_from(&mut buffer)?;
    Ok((String::from_utf8_lossy(&buffer[..len]).into_owned(), from))
}

/// Sends a datagram by a connected socket and gives the answer.
pub(crate) fn talk(socket: &UdpSocket) -> std::io::Result<String> {
    socket.send(b"?")?;
    let mut buffer = [0; 100];
    let len = socket.recv(&mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer[..len]).into_owned())
}

/// Runs `ip` in this thread's namespace.
pub(crate) fn ip(args: &str) {
    let output = Command::new("ip").args(args.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {args}: {}", String::from_utf8_lossy(&output.stderr));
}
