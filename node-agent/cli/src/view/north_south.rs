//! Entries of the maps that translate at the uplink and say where addresses are.

use serde::Serialize;
use skep_abi::{
    Addr, AffinityKey, AffinityValue, Counter, NatKey, NatValue, NodeAddr, Route, RouteKey, SourceRangeKey, nat_flags,
    node_addr_flags, route_flags,
};
use skep_agent_core::dataplane::Names;

use super::connections::state;
use crate::show;
use crate::table::Row;

/// What becomes of the packets of one direction of a connection at the uplink.
#[derive(Debug, Serialize)]
pub(crate) struct NatRow {
    protocol: String,
    source: String,
    destination: String,
    new_source: String,
    new_destination: String,
    service: String,
    state: &'static str,
    flags: String,
    packets: u64,
    expires_in_seconds: i64,
}

impl NatRow {
    /// `now` in nanoseconds of the kernel's boot-time clock.
    pub(crate) fn new((key, value): &(NatKey, NatValue), names: &Names, now: u64) -> Self {
        let flags = [(nat_flags::FORWARD, "forward"), (nat_flags::SNAT, "snat"), (nat_flags::DSR, "direct-return")];
        let named: Vec<_> = flags.iter().map(|(bit, name)| (u32::from(*bit), *name)).collect();
        Self {
            protocol: show::protocol(key.proto),
            source: show::socket(key.src, key.src_port_be),
            destination: show::socket(key.dst, key.dst_port_be),
            new_source: show::socket(value.src, value.src_port_be),
            new_destination: show::socket(value.dst, value.dst_port_be),
            service: show::service(value.service, names),
            state: state(value.state),
            flags: show::flags(value.flags.into(), &named),
            packets: value.packets,
            expires_in_seconds: show::seconds_until(value.expires, now),
        }
    }
}

impl Row for NatRow {
    const HEADER: &'static [&'static str] = &[
        "PROTOCOL",
        "SOURCE",
        "DESTINATION",
        "NEW-SOURCE",
        "NEW-DESTINATION",
        "STATE",
        "FLAGS",
        "PACKETS",
        "EXPIRES",
        "SERVICE",
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.protocol.clone(),
            self.source.clone(),
            self.destination.clone(),
            self.new_source.clone(),
            self.new_destination.clone(),
            self.state.to_owned(),
            self.flags.clone(),
            self.packets.to_string(),
            show::expiry(self.expires_in_seconds),
            self.service.clone(),
        ]
    }
}

/// A client that is to stay with a backend.
#[derive(Debug, Serialize)]
pub(crate) struct AffinityRow {
    /// The client's address, or the network namespace that its socket is in.
    client: String,
    service: String,
    backend: u32,
    pod: String,
    last_used_seconds_ago: i64,
}

impl AffinityRow {
    /// `now` in nanoseconds of the kernel's boot-time clock.
    pub(crate) fn new((key, value): &(AffinityKey, AffinityValue), names: &Names, now: u64) -> Self {
        Self {
            client: client(key.client),
            service: show::service(key.service, names),
            backend: value.backend,
            pod: show::backend(value.backend, names),
            last_used_seconds_ago: show::seconds_until(now, value.last_used),
        }
    }
}

/// Sockets are known by their network namespace: its cookie follows eight bytes of 0xff.
fn client(client: Addr) -> String {
    match client.0 {
        [255, 255, 255, 255, 255, 255, 255, 255, cookie @ ..] => format!("netns {}", u64::from_ne_bytes(cookie)),
        _ => show::address(client),
    }
}

impl Row for AffinityRow {
    const HEADER: &'static [&'static str] = &["CLIENT", "BACKEND", "USED", "POD", "SERVICE"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.client.clone(),
            self.backend.to_string(),
            format!("{}s ago", self.last_used_seconds_ago),
            self.pod.clone(),
            self.service.clone(),
        ]
    }
}

/// Clients that may use a load balancer address.
#[derive(Debug, Serialize)]
pub(crate) struct SourceRangeRow {
    service: u32,
    service_name: String,
    range: String,
}

impl SourceRangeRow {
    pub(crate) fn new((len, key, _): &(u32, SourceRangeKey, u32), names: &Names) -> Self {
        Self {
            service: key.service,
            service_name: show::service(key.service, names),
            range: show::prefix(key.addr, len.saturating_sub(SourceRangeKey::BASE_BITS)),
        }
    }
}

impl Row for SourceRangeRow {
    const HEADER: &'static [&'static str] = &["SERVICE", "RANGE", "NAME"];

    fn cells(&self) -> Vec<String> {
        vec![self.service.to_string(), self.range.clone(), self.service_name.clone()]
    }
}

/// An address of a node.
#[derive(Debug, Serialize)]
pub(crate) struct NodeAddrRow {
    address: String,
    flags: String,
}

impl NodeAddrRow {
    pub(crate) fn new((addr, value): &(Addr, NodeAddr)) -> Self {
        let flags = [(node_addr_flags::LOCAL, "local"), (node_addr_flags::HOST_ONLY, "host-only")];
        Self { address: show::address(*addr), flags: show::flags(value.flags, &flags) }
    }
}

impl Row for NodeAddrRow {
    const HEADER: &'static [&'static str] = &["ADDRESS", "FLAGS"];

    fn cells(&self) -> Vec<String> {
        vec![self.address.clone(), self.flags.clone()]
    }
}

/// What is known about addresses of a prefix.
#[derive(Debug, Serialize)]
pub(crate) struct RouteRow {
    prefix: String,
    node: String,
    flags: String,
}

impl RouteRow {
    pub(crate) fn new((len, key, value): &(u32, RouteKey, Route)) -> Self {
        let flags = [
            (route_flags::LOCAL_PODS, "local-pods"),
            (route_flags::REMOTE_PODS, "remote-pods"),
            (route_flags::NO_MASQUERADE, "no-masquerade"),
        ];
        Self {
            prefix: show::prefix(key.addr, *len),
            node: show::address(value.node),
            flags: show::flags(value.flags, &flags),
        }
    }
}

impl Row for RouteRow {
    const HEADER: &'static [&'static str] = &["PREFIX", "NODE", "FLAGS"];

    fn cells(&self) -> Vec<String> {
        vec![self.prefix.clone(), self.node.clone(), self.flags.clone()]
    }
}

/// A load balancer address that this node answers for.
#[derive(Debug, Serialize)]
pub(crate) struct AnnouncedRow {
    address: String,
}

impl AnnouncedRow {
    pub(crate) fn new((addr, _): &(Addr, u32)) -> Self {
        Self { address: show::address(*addr) }
    }
}

impl Row for AnnouncedRow {
    const HEADER: &'static [&'static str] = &["ADDRESS"];

    fn cells(&self) -> Vec<String> {
        vec![self.address.clone()]
    }
}

/// New connections of an endpoint set.
#[derive(Debug, Serialize)]
pub(crate) struct HitsRow {
    service: u32,
    service_name: String,
    connections: u64,
}

impl HitsRow {
    pub(crate) fn new((service, connections): &(u32, u64), names: &Names) -> Self {
        Self { service: *service, service_name: show::service(*service, names), connections: *connections }
    }
}

impl Row for HitsRow {
    const HEADER: &'static [&'static str] = &["SERVICE", "CONNECTIONS", "NAME"];

    fn cells(&self) -> Vec<String> {
        vec![self.service.to_string(), self.connections.to_string(), self.service_name.clone()]
    }
}

/// A counter of things that are no drops.
#[derive(Debug, Serialize)]
pub(crate) struct CounterRow {
    counter: &'static str,
    count: u64,
}

impl CounterRow {
    pub(crate) fn new((counter, count): &(Counter, u64)) -> Self {
        Self { counter: counter.name(), count: *count }
    }
}

impl Row for CounterRow {
    const HEADER: &'static [&'static str] = &["COUNTER", "COUNT"];

    fn cells(&self) -> Vec<String> {
        vec![self.counter.to_owned(), self.count.to_string()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::columns;

    #[test]
    fn sockets_are_clients_by_their_namespace() {
        let mut socket = [0xff; 16];
        socket[8..].copy_from_slice(&7_u64.to_ne_bytes());
        let row = |client| {
            let value = AffinityValue { last_used: 1_000_000_000, backend: 3, slot: 0 };
            AffinityRow::new(&(AffinityKey { client, service: 1 }, value), &Names::default(), 5_000_000_000)
        };
        let rows = [row(Addr::v6(socket)), row(Addr::v4([192, 0, 2, 9]))];
        assert_eq!(
            columns(&rows),
            "\
CLIENT      BACKEND   USED     POD   SERVICE
netns 7     3         4s ago   -     -
192.0.2.9   3         4s ago   -     -
"
        );
    }

    #[test]
    fn prefixes_are_told_in_their_family() {
        let route = Route { node: Addr::v4([192, 0, 2, 2]), flags: route_flags::REMOTE_PODS, pad: 0 };
        let rows = [RouteRow::new(&(96 + 24, RouteKey { addr: Addr::v4([10, 244, 1, 0]) }, route))];
        assert_eq!(columns(&rows), "PREFIX          NODE        FLAGS\n10.244.1.0/24   192.0.2.2   remote-pods\n");
        let range =
            (SourceRangeKey::BASE_BITS + 96 + 8, SourceRangeKey { service: 4, addr: Addr::v4([10, 0, 0, 0]) }, 1);
        let row = SourceRangeRow::new(&range, &Names::default());
        assert_eq!(row.cells()[1], "10.0.0.0/8");
    }
}
