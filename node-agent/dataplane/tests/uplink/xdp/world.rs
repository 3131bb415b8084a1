use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use skep_abi::{Backend, BackendState, ConnState, Counter, Direction, NatKey, NatValue, nat_flags};
use skep_dataplane::{Action, Trial};
use skep_verdict::conn::{SECOND, lifetime};
use skep_verdict::nat;

use crate::lan::Lan;

/// Id of the backend of every flow.
pub(super) const BACKEND: u32 = 7;

/// Two nodes, of which the first runs the programs on made-up packets.
pub(super) struct World {
    pub(super) lan: Lan,
}

/// A connection of the client to a node port of the first node, whose backend is behind the second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub(super) v6: bool,
    pub(super) proto: u8,
}

impl Flow {
    pub(super) fn backend(self) -> SocketAddr {
        let addr = if self.v6 { "fd00:244:2::1" } else { "10.244.2.1" };
        (addr.parse::<IpAddr>().unwrap(), 8080).into()
    }

    /// The client, the node port, the node as the backend sees it.
    fn sockets(self) -> [SocketAddr; 3] {
        let [client, node] = if self.v6 { ["2001:db8::100", "2001:db8::1"] } else { ["192.0.2.100", "192.0.2.1"] };
        [(client, 40_000), (node, 30_080), (node, 50_000)]
            .map(|(addr, port)| (addr.parse::<IpAddr>().unwrap(), port).into())
    }

    /// Where packets come from and go to when they meet the program.
    pub(super) fn ends(self, reply: bool) -> (SocketAddr, SocketAddr) {
        let [client, port, node] = self.sockets();
        if reply { (self.backend(), node) } else { (client, port) }
    }

    /// The entries of the two directions, in these states, as of now.
    pub(super) fn entries(self, world: &World, states: [ConnState; 2]) -> [(NatKey, NatValue); 2] {
        let [client, port, node] = self.sockets();
        let entry = |(from, to): (SocketAddr, SocketAddr), new: (SocketAddr, SocketAddr), state: ConnState, flags| {
            let key = NatKey {
                src: from.ip().into(),
                dst: to.ip().into(),
                src_port_be: from.port().to_be(),
                dst_port_be: to.port().to_be(),
                proto: self.proto,
                pad: [0; 3],
            };
            let value = NatValue {
                expires: 0,
                packets: 5,
                src: new.0.ip().into(),
                dst: new.1.ip().into(),
                src_port_be: new.0.port().to_be(),
                dst_port_be: new.1.port().to_be(),
                state: state as u8,
                flags: nat_flags::SNAT | flags,
                pad: 0,
                backend: BACKEND,
                service: 1,
            };
            (key, value)
        };
        let forward = entry((client, port), (node, self.backend()), states[0], nat_flags::FORWARD);
        let reply = entry((self.backend(), node), (port, client), states[1], 0);
        let backend = Backend {
            addr: self.backend().ip().into(),
            node: world.lan.nodes[1].machine.addr(self.v6).into(),
            port_be: self.backend().port().to_be(),
            proto: self.proto,
            state: BackendState::Active as u8,
            flags: 0,
        };
        world.lan.nodes[0].dataplane.maps().backends.set(&BACKEND, &backend).unwrap();
        // Not at the end of a stretch, whose next packet is tc's.
        let mut now = boot_time();
        while [forward, reply].iter().any(|(key, value)| {
            let value = NatValue { expires: now + lifetime(key.proto, value.state), ..*value };
            nat::begins_stretch(&value, key, now + SECOND / 2)
        }) {
            std::thread::sleep(Duration::from_millis(100));
            now = boot_time();
        }
        [forward, reply]
            .map(|(key, value)| (key, NatValue { expires: now + lifetime(key.proto, value.state), ..value }))
    }
}

/// The clock of expiry, nanoseconds.
pub(super) fn boot_time() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).unwrap();
    time.tv_sec().unsigned_abs() * SECOND + time.tv_nsec().unsigned_abs()
}

impl World {
    pub(super) fn new(flags: u32) -> Option<Self> {
        Self::with(false, flags)
    }

    /// With an overlay between the nodes or without.
    pub(super) fn with(overlay: bool, flags: u32) -> Option<Self> {
        let lan = Lan::with_xdp(overlay, flags)?;
        for (addr, number) in [("192.0.2.2", 2), ("2001:db8::2", 2), ("192.0.2.100", 100), ("2001:db8::100", 100)] {
            let neighbour = format!("{addr} lladdr 02:00:00:00:00:{number:02x} dev eth0 nud permanent");
            lan.nodes[0].machine.ip(&format!("neigh replace {neighbour}"));
        }
        Some(Self { lan })
    }

    pub(super) fn set(&self, entries: &[(NatKey, NatValue)]) {
        let nat = &self.lan.nodes[0].dataplane.maps().nat;
        for (key, value) in entries {
            nat.set(key, value).unwrap();
        }
    }

    pub(super) fn get(&self, entries: &[(NatKey, NatValue)]) -> Vec<Option<NatValue>> {
        let nat = &self.lan.nodes[0].dataplane.maps().nat;
        entries.iter().map(|(key, _)| nat.get(key).unwrap()).collect()
    }

    pub(super) fn count(&self, counter: Counter) -> u64 {
        self.lan.nodes[0].count(counter)
    }

    pub(super) fn tc(&self, packet: &[u8]) -> Trial {
        // Test runs happen on the loopback interface, whose address is zero.
        let packet = [&[0; 6][..], &packet[6..]].concat();
        let dataplane = Arc::clone(&self.lan.nodes[0].dataplane);
        let run = move || dataplane.try_uplink_packet(Direction::Ingress, &packet, 1).unwrap();
        self.lan.nodes[0].machine.run(run)
    }

    pub(super) fn xdp(&self, packet: &[u8]) -> Trial {
        self.repeat(packet, 1)
    }

    pub(super) fn repeat(&self, packet: &[u8], runs: u32) -> Trial {
        self.at(packet, [2, 0, 0, 0, 0, 1], runs)
    }

    /// A frame to a link-layer address.
    pub(super) fn at(&self, packet: &[u8], mac: [u8; 6], runs: u32) -> Trial {
        let packet = [&mac[..], &packet[6..]].concat();
        let dataplane = Arc::clone(&self.lan.nodes[0].dataplane);
        self.lan.nodes[0].machine.run(move || dataplane.try_xdp_packet(&packet, runs).unwrap())
    }

    /// Asserts that a packet goes to tc as it came, and that nothing has changed.
    pub(super) fn passes(&self, what: &str, entries: &[(NatKey, NatValue)], packet: &[u8]) {
        self.set(entries);
        let trial = self.xdp(packet);
        assert_eq!(trial.action, Action::Pass, "{what}");
        assert_eq!(trial.packet[6..], packet[6..], "{what}");
        assert_eq!(self.get(entries), entries.iter().map(|(_, value)| Some(*value)).collect::<Vec<_>>(), "{what}");
    }
}
