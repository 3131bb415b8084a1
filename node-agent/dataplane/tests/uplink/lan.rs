use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use skep_abi::{
    Addr, Backend, BackendState, Config, Counter, Direction, Endpoint, Frontend, FrontendKey, NodeAddr, Reason, Route,
    RouteKey, SlotKey, backend_flags, config_flags, node_addr_flags, route_flags, scope,
};
use skep_dataplane::{Dataplane, Options, XdpMode, XdpState};

use crate::machine::Machine;
use crate::offload;

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
/// Load balancer addresses on the link.
pub(crate) const VIPS: [&str; 2] = ["192.0.2.50", "2001:db8::50"];
/// A node port.
pub(crate) const NODE_PORT: u16 = 30_080;

/// The switch's interfaces to the nodes.
const PORTS: [&str; 2] = ["node1", "node2"];

/// A node with its dataplane.
pub(crate) struct Node {
    pub(crate) machine: Machine,
    pub(crate) dataplane: Arc<Dataplane>,
    pub(crate) options: Options,
    number: u8,
}

/// Where a backend is.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) addr: SocketAddr,
    /// Index of the node.
    pub(crate) node: usize,
    /// A process of the host, and no pod.
    pub(crate) host: bool,
}

impl Place {
    pub(crate) fn pod(node: usize, addr: SocketAddr) -> Self {
        Self { addr, node, host: false }
    }
}

/// The machines of one link.
pub(crate) struct Lan {
    pub(crate) client: Machine,
    pub(crate) nodes: [Node; 2],
    services: std::cell::Cell<u32>,
    switch: Machine,
    dir: tempfile::TempDir,
}

impl Lan {
    /// Two nodes and a client, or nothing when this is not root (the reason is printed). `flags` are those of the nodes'
    /// configuration.
    pub(crate) fn new(flags: u32) -> Option<Self> {
        Self::with(|config| config.flags = flags)
    }

    pub(crate) fn with(change: impl Fn(&mut Config)) -> Option<Self> {
        Self::build(false, XdpMode::Off, change)
    }

    /// With an overlay between the nodes.
    pub(crate) fn overlaid(flags: u32) -> Option<Self> {
        Self::build(true, XdpMode::Off, |config| config.flags = flags)
    }

    /// With XDP on the nodes, and a switch that is fit for it.
    pub(crate) fn with_xdp(overlay: bool, flags: u32) -> Option<Self> {
        Self::build(overlay, XdpMode::Native, |config| config.flags = flags)
    }

    fn build(overlay: bool, xdp: XdpMode, change: impl Fn(&mut Config)) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: needs root for BPF programs and namespaces");
            return None;
        }
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>).unwrap();
        let dir = tempfile::tempdir().unwrap();
        mount(Some("bpf"), dir.path(), Some("bpf"), MsFlags::empty(), None::<&str>).unwrap();
        let switch = Machine::new(["0.0.0.0", "::"]);
        switch.ip("link add switch type bridge forward_delay 0 mcast_snooping 0");
        switch.ip("link set switch up");
        let client = Machine::new(["192.0.2.100", "2001:db8::100"]);
        plug(&switch, &client, "client", 100);
        let node = |number: u8, addrs: [&str; 2]| {
            let machine = Machine::new(addrs);
            for sysctl in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                machine.sysctl(sysctl, "1");
            }
            let port = PORTS[usize::from(number) - 1];
            plug(&switch, &machine, port, number);
            if xdp != XdpMode::Off {
                switch.run(move || {
                    offload::set(port, offload::GRO, true);
                    offload::set(port, offload::SENT_CHECKSUMS, false);
                });
            }
            if overlay {
                machine.ip(&format!(
                    "link add skep_vxlan type vxlan external nolearning dstport {}",
                    skep_abi::OVERLAY_PORT
                ));
                machine.ip("link set skep_vxlan mtu 1430 arp off up");
            }
            let mut config = Config {
                version: skep_abi::VERSION,
                node_addr4: machine.addrs[0].into(),
                node_addr6: machine.addrs[1].into(),
                node_port_first: 30_000,
                node_port_last: 32_767,
                snat_port_first: 1024,
                snat_port_last: 65_535,
                ..Config::default()
            };
            change(&mut config);
            let options = Options {
                bpf_dir: dir.path().join(format!("node{number}")),
                uplink: Some(machine.ifindex("eth0")),
                overlay: overlay.then(|| machine.ifindex("skep_vxlan")),
                xdp,
                config,
                ..Options::default()
            };
            let dataplane = Arc::new(open(&machine, &options));
            Node { machine, dataplane, options, number }
        };
        let nodes = [node(1, ["192.0.2.1", "2001:db8::1"]), node(2, ["192.0.2.2", "2001:db8::2"])];
        for (i, node) in nodes.iter().enumerate() {
            node.know(&nodes, i);
        }
        Some(Self { client, nodes, services: std::cell::Cell::new(0), switch, dir })
    }

    /// Makes an address a Service's on both nodes. An unspecified one is a node port's. With [`frontend_flags::LOCAL`]
    /// each node has its own backends only.
    ///
    /// [`frontend_flags::LOCAL`]: skep_abi::frontend_flags::LOCAL
    pub(crate) fn serve(&self, addr: SocketAddr, proto: u8, flags: u32, places: &[Place]) -> u32 {
        self.serve_in(scope::EXTERNAL, addr, proto, flags, places)
    }

    /// As [`Self::serve`], for clients of one scope.
    pub(crate) fn serve_in(&self, scope: u8, addr: SocketAddr, proto: u8, flags: u32, places: &[Place]) -> u32 {
        let service = self.services.get() + 1;
        self.services.set(service);
        for (i, node) in self.nodes.iter().enumerate() {
            let maps = node.dataplane.maps();
            let local = flags & skep_abi::frontend_flags::LOCAL != 0;
            let mut count = 0;
            for (place, number) in places.iter().filter(|place| !local || place.node == i).zip(0..) {
                let here = place.node == i;
                let behind = self.nodes[place.node].machine.addr(place.addr.is_ipv6());
                let backend = Backend {
                    addr: place.addr.ip().into(),
                    node: if here { Addr::NONE } else { behind.into() },
                    port_be: place.addr.port().to_be(),
                    proto,
                    state: BackendState::Active as u8,
                    flags: if here { backend_flags::LOCAL } else { 0 }
                        | if place.host { backend_flags::HOST } else { 0 },
                };
                let id = service * 100 + number;
                maps.backends.set(&id, &backend).unwrap();
                maps.slots.set(&SlotKey { service, generation: 1, index: number }, &id).unwrap();
                count += 1;
            }
            let any = if addr.is_ipv4() { FrontendKey::ANY4 } else { FrontendKey::ANY6 };
            let at = if addr.ip().is_unspecified() { any } else { addr.ip().into() };
            let key = FrontendKey { addr: at, port_be: addr.port().to_be(), proto, scope };
            let frontend = Frontend { service, generation: 1, count, flags, affinity_timeout: 0 };
            maps.frontends.set(&key, &frontend).unwrap();
        }
        service
    }

    /// Makes the first node answer for the load balancer addresses.
    pub(crate) fn announce(&self) {
        for vip in VIPS {
            self.nodes[0].dataplane.maps().announced.set(&vip.parse::<IpAddr>().unwrap().into(), &1).unwrap();
        }
    }

    /// Whether the switch's ports to the nodes take frames from XDP.
    pub(crate) fn take_frames(&self, take: bool) {
        self.switch.run(move || PORTS.map(|port| offload::set(port, offload::GRO, take)));
    }

    /// Whether the switch leaves checksums of what it sends to the nodes unfinished.
    pub(crate) fn leave_checksums(&self, leave: bool) {
        self.switch.run(move || PORTS.map(|port| offload::set(port, offload::SENT_CHECKSUMS, leave)));
    }

    /// The node port of a node.
    pub(crate) fn node_port(&self, node: usize, v6: bool) -> SocketAddr {
        (self.nodes[node].machine.addr(v6), NODE_PORT).into()
    }
}

/// A node port's address in [`Lan::serve`].
pub(crate) fn any(v6: bool) -> SocketAddr {
    let any: IpAddr = if v6 { "::".parse().unwrap() } else { "0.0.0.0".parse().unwrap() };
    (any, NODE_PORT).into()
}

impl Drop for Lan {
    fn drop(&mut self) {
        let unmounted = umount2(self.dir.path(), MntFlags::MNT_DETACH);
        if !std::thread::panicking() {
            unmounted.unwrap();
        }
    }
}

impl Node {
    /// Tells the node of all nodes.
    fn know(&self, nodes: &[Self; 2], own: usize) {
        let maps = self.dataplane.maps();
        for (i, node) in nodes.iter().enumerate() {
            let flags = if i == own { node_addr_flags::LOCAL } else { 0 };
            for (v6, addr) in node.machine.addrs.into_iter().enumerate() {
                maps.node_addrs.set(&addr.into(), &NodeAddr { flags }).unwrap();
                let range = node.range(v6 == 1);
                let route = Route {
                    node: if i == own { Addr::NONE } else { addr.into() },
                    flags: if i == own { route_flags::LOCAL_PODS } else { route_flags::REMOTE_PODS },
                    pad: 0,
                };
                let len = if v6 == 1 { 64 } else { 96 + 24 };
                maps.routes.set(len, &RouteKey { addr: range.into() }, &route).unwrap();
                if i != own {
                    let family = if v6 == 1 { "-6 " } else { "" };
                    let len = if v6 == 1 { 64 } else { 24 };
                    let source = self.machine.addr(v6 == 1);
                    let way = match self.options.overlay {
                        Some(_) => format!("dev skep_vxlan src {source}"),
                        None => format!("via {addr}"),
                    };
                    self.machine.ip(&format!("{family}route add {range}/{len} {way}"));
                }
            }
        }
    }

    fn range(&self, v6: bool) -> IpAddr {
        let n = self.number;
        if v6 { format!("fd00:244:{n}::") } else { format!("10.244.{n}.0") }.parse().unwrap()
    }

    /// A pod with the addresses 10.244.NODE.N and fd00:244:NODE::N.
    pub(crate) fn pod(&self, n: u8) -> Machine {
        let node = self.number;
        let (addr4, addr6) = (format!("10.244.{node}.{n}"), format!("fd00:244:{node}::{n}"));
        let pod = Machine::new([&addr4, &addr6]);
        let host: &'static str = format!("pod{n}").leak();
        let (outer, inner) = (format!("02:00:00:{node:02x}:01:{n:02x}"), format!("02:00:00:{node:02x}:02:{n:02x}"));
        let thread = pod.thread();
        let outside = &self.machine;
        outside.ip(&format!("link add {host} address {outer} type veth peer name eth0 address {inner} netns {thread}"));
        outside.run(move || std::fs::write(format!("/proc/sys/net/ipv6/conf/{host}/accept_dad"), "0").unwrap());
        let mtu = if self.options.overlay.is_some() { 1430 } else { 1500 };
        outside.ip(&format!("link set {host} mtu {mtu} up"));
        pod.sysctl("ipv6/conf/eth0/accept_dad", "0");
        for args in [
            format!("link set eth0 mtu {mtu} up"),
            format!("addr add {addr4}/32 dev eth0"),
            format!("addr add {addr6}/128 dev eth0 nodad"),
            format!("neigh add 169.254.1.1 lladdr {outer} dev eth0 nud permanent"),
            format!("neigh add fe80::1 lladdr {outer} dev eth0 nud permanent"),
            "route add 169.254.1.1 dev eth0".to_owned(),
            "route add default via 169.254.1.1 dev eth0".to_owned(),
            "-6 route add default via fe80::1 dev eth0".to_owned(),
        ] {
            pod.ip(&args);
        }
        outside.ip(&format!("route add {addr4}/32 dev {host}"));
        outside.ip(&format!("-6 route add {addr6}/128 dev {host}"));
        let endpoint = Endpoint {
            identity: u64::from(node) * 100 + u64::from(n),
            addr4: pod.addrs[0].into(),
            addr6: pod.addrs[1].into(),
            id: 100 + u32::from(n),
            flags: 0,
            rule_list: [0; 2],
            words: [0; 2],
            mac: [2, 0, 0, node, 2, n],
            pad: [0; 6],
        };
        let ifindex = outside.ifindex(host);
        self.dataplane.maps().endpoints.set(&ifindex, &endpoint).unwrap();
        let dataplane = Arc::clone(&self.dataplane);
        outside.run(move || dataplane.attach_pod(host, ifindex).unwrap());
        pod
    }

    /// Changes the entry of the pod of this number.
    pub(crate) fn change(&self, n: u8, change: impl FnOnce(&mut Endpoint)) {
        let ifindex = self.machine.ifindex(format!("pod{n}").leak());
        let endpoints = &self.dataplane.maps().endpoints;
        let mut endpoint = endpoints.get(&ifindex).unwrap().unwrap();
        change(&mut endpoint);
        endpoints.set(&ifindex, &endpoint).unwrap();
    }

    /// Packets dropped for a reason so far.
    pub(crate) fn drops(&self, reason: Reason, direction: Direction) -> u64 {
        let totals = self.dataplane.maps().drops.totals().unwrap();
        totals.iter().find(|t| t.reason == reason && t.direction == direction).unwrap().packets
    }

    pub(crate) fn count(&self, counter: Counter) -> u64 {
        let totals = self.dataplane.maps().counters.totals().unwrap();
        totals.iter().find(|(found, _)| *found == counter).unwrap().1
    }

    /// Puts XDP on the uplink or takes it off, as the agent does now and then.
    pub(crate) fn settle_xdp(&self) -> XdpState {
        let dataplane = Arc::clone(&self.dataplane);
        self.machine.run(move || dataplane.settle_xdp().unwrap())
    }

    /// Opens the dataplane again, as an agent that is started anew does.
    pub(crate) fn restart(&mut self) {
        self.dataplane = Arc::new(open(&self.machine, &self.options));
    }
}

fn open(machine: &Machine, options: &Options) -> Dataplane {
    let options = options.clone();
    machine.run(move || Dataplane::open(&options).unwrap_or_else(|error| panic!("{error}")))
}

/// Connects a machine to the switch, by the interface `eth0`.
fn plug(switch: &Machine, machine: &Machine, port: &'static str, n: u8) {
    let thread = machine.thread();
    switch.ip(&format!("link add {port} type veth peer name eth0 address 02:00:00:00:00:{n:02x} netns {thread}"));
    switch.ip(&format!("link set {port} master switch up"));
    machine.sysctl("ipv6/conf/eth0/accept_dad", "0");
    machine.ip("link set eth0 up");
    let [addr4, addr6] = machine.addrs;
    machine.ip(&format!("addr add {addr4}/24 dev eth0"));
    machine.ip(&format!("addr add {addr6}/64 dev eth0 nodad"));
}

/// With masquerade.
pub(crate) const MASQUERADE: u32 = config_flags::MASQUERADE;
