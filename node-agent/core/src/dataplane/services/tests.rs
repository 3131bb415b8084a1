mod kinds;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use skep_abi::{Backend, BackendState, Frontend, FrontendKey, SlotKey, frontend_flags};

use crate::dataplane::samples::{change, name, service, settle, slice, synced};
use crate::dataplane::{Change, Index, Kind, MapContents, MapWrite, Protocol, ServicePort, Write, abi_addr};

/// `address:port` of the frontends and of the backends in their slots.
fn shown(contents: &MapContents) -> BTreeMap<String, Vec<String>> {
    let text = |addr: skep_abi::Addr, port_be: u16, proto: u8| {
        let addr: IpAddr = std::net::Ipv6Addr::from(addr.0).to_canonical();
        let proto = if proto == 6 { "" } else { "/udp" };
        format!("{}{proto}", std::net::SocketAddr::new(addr, u16::from_be(port_be)))
    };
    let slots = |frontend: &Frontend| {
        let slot = |index| SlotKey { service: frontend.service, generation: frontend.generation, index };
        let mut backends: Vec<_> = (0..frontend.count)
            .map(|index| contents.backends[&contents.slots[&slot(index)]])
            .map(|backend| text(backend.addr, backend.port_be, backend.proto))
            .collect();
        backends.sort();
        backends
    };
    contents.frontends.iter().map(|(key, value)| (text(key.addr, key.port_be, key.proto), slots(value))).collect()
}

fn expect(index: &Index, rows: &[(&str, &[&str])]) {
    let rows: BTreeMap<String, Vec<String>> =
        rows.iter().map(|(key, slots)| ((*key).to_owned(), slots.iter().map(|&s| s.to_owned()).collect())).collect();
    assert_eq!(shown(index.contents()), rows);
}

fn states(index: &Index) -> Vec<(u8, u8)> {
    let last = |backend: &Backend| backend.addr.0[15];
    index.contents().backends.values().map(|backend| (last(backend), backend.state)).collect()
}

const ACTIVE: u8 = BackendState::Active as u8;
const TERMINATING: u8 = BackendState::Terminating as u8;

#[test]
fn each_address_port_and_protocol_is_a_frontend() {
    let mut web = service("ns/web", &["10.96.0.1", "fd00::1"], &["http:80", "https:443"]);
    web.ports.push(ServicePort { name: "dns".to_owned(), protocol: Protocol::Udp, port: 80, node_port: None });
    let mut index = synced([
        Change::Service(web),
        Change::EndpointSlice(slice("ns/web-4", "web", &["http:8080", "https:8443"], &["10.0.0.1", "10.0.0.2"])),
        Change::EndpointSlice(slice("ns/web-6", "web", &["http:8080"], &["fd01::1"])),
        Change::EndpointSlice(slice("other/web-4", "web", &["http:8080"], &["10.0.0.9"])),
    ]);
    settle(&mut index);
    expect(
        &index,
        &[
            ("10.96.0.1:443", &["10.0.0.1:8443", "10.0.0.2:8443"]),
            ("10.96.0.1:80", &["10.0.0.1:8080", "10.0.0.2:8080"]),
            ("10.96.0.1:80/udp", &[]),
            ("[fd00::1]:443", &[]),
            ("[fd00::1]:80", &["[fd01::1]:8080"]),
            ("[fd00::1]:80/udp", &[]),
        ],
    );
}

#[test]
fn slices_merge_by_port_name_and_share_backends() {
    let mut index = synced([
        Change::Service(service("ns/a", &["10.96.0.1"], &["http:80"])),
        Change::Service(service("ns/b", &["10.96.0.2"], &["web:80"])),
        Change::EndpointSlice(slice("ns/a-1", "a", &["http:80"], &["10.0.0.1", "10.0.0.2"])),
        // The same name on another port, the same address again, and a port of another name.
        Change::EndpointSlice(slice("ns/a-2", "a", &["http:81"], &["10.0.0.3"])),
        Change::EndpointSlice(slice("ns/a-3", "a", &["http:80", "other:99"], &["10.0.0.1"])),
        Change::EndpointSlice(slice("ns/b-1", "b", &["web:80"], &["10.0.0.1"])),
    ]);
    settle(&mut index);
    expect(
        &index,
        &[("10.96.0.1:80", &["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:81"]), ("10.96.0.2:80", &["10.0.0.1:80"])],
    );
    assert_eq!(index.contents().backends.len(), 3);
    change(&mut index, Change::Deleted(Kind::EndpointSlice, name("ns/a-1")));
    change(&mut index, Change::Deleted(Kind::EndpointSlice, name("ns/a-3")));
    settle(&mut index);
    expect(&index, &[("10.96.0.1:80", &["10.0.0.3:81"]), ("10.96.0.2:80", &["10.0.0.1:80"])]);
    assert_eq!(index.contents().backends.len(), 2);
}

#[test]
fn terminating_endpoints_take_connections_only_when_none_is_ready() {
    type Case<'a> = (&'a [&'a str], &'a [&'a str], &'a [(u8, u8)]);
    let cases: [Case<'_>; 5] = [
        (&["10.0.0.1", "10.0.0.2/notready"], &["10.0.0.1:80"], &[(1, ACTIVE)]),
        (&["10.0.0.1", "10.0.0.2/terminating"], &["10.0.0.1:80"], &[(1, ACTIVE), (2, TERMINATING)]),
        (&["10.0.0.1/notready", "10.0.0.2/terminating"], &["10.0.0.2:80"], &[(2, ACTIVE)]),
        (&["10.0.0.1/gone", "10.0.0.2/notready"], &[], &[]),
        (&[], &[], &[]),
    ];
    for (endpoints, slots, backends) in cases {
        let mut index = synced([
            Change::Service(service("ns/a", &["10.96.0.1"], &["http:80"])),
            Change::EndpointSlice(slice("ns/a-1", "a", &["http:80"], endpoints)),
        ]);
        settle(&mut index);
        expect(&index, &[("10.96.0.1:80", slots)]);
        assert_eq!(states(&index), backends, "{endpoints:?}");
    }
}

#[test]
fn a_changed_set_is_a_new_generation_and_the_old_one_goes_a_drain_later() {
    let mut index = synced([
        Change::Service(service("ns/a", &["10.96.0.1"], &["http:80"])),
        Change::EndpointSlice(slice("ns/a-1", "a", &["http:80"], &["10.0.0.1", "10.0.0.2"])),
    ]);
    settle(&mut index);
    let key = FrontendKey { addr: abi_addr("10.96.0.1".parse().unwrap()), port_be: 80_u16.to_be(), proto: 6, scope: 0 };
    let before = index.contents().frontends[&key];
    let backends = index.contents().backends.clone();

    change(&mut index, Change::EndpointSlice(slice("ns/a-1", "a", &["http:80"], &["10.0.0.2", "10.0.0.3"])));
    let after = Frontend { generation: before.generation + 1, ..before };
    let slot = |generation, index| SlotKey { service: before.service, generation, index };
    let new = Backend {
        addr: abi_addr("10.0.0.3".parse().unwrap()),
        node: skep_abi::Addr::NONE,
        flags: skep_abi::backend_flags::LOCAL,
        port_be: 80_u16.to_be(),
        proto: 6,
        state: ACTIVE,
    };
    assert_eq!(
        index.drain(),
        [
            MapWrite::Slot(Write::Put(slot(after.generation, 0), 2)),
            MapWrite::Slot(Write::Put(slot(after.generation, 1), 3)),
            MapWrite::Backend(Write::Put(3, new)),
            MapWrite::Frontend(Write::Put(key, after)),
        ]
    );
    assert!(index.has_retired());
    assert_eq!(
        index.drain(),
        [
            MapWrite::Backend(Write::Delete(1)),
            MapWrite::Slot(Write::Delete(slot(before.generation, 0))),
            MapWrite::Slot(Write::Delete(slot(before.generation, 1))),
        ]
    );
    assert_eq!(index.contents().backends[&2], backends[&2]);
    assert!(!index.has_retired());
    assert_eq!(index.drain(), []);
}

#[test]
fn what_is_said_twice_is_written_once() {
    let objects = [
        Change::Service(service("ns/a", &["10.96.0.1"], &["http:80"])),
        Change::EndpointSlice(slice("ns/a-1", "a", &["http:80"], &["10.0.0.1", "10.0.0.2"])),
    ];
    let mut index = synced(objects.clone());
    settle(&mut index);
    for object in objects {
        change(&mut index, object);
    }
    // The order of endpoints means nothing.
    change(&mut index, Change::EndpointSlice(slice("ns/a-1", "a", &["http:80"], &["10.0.0.2", "10.0.0.1"])));
    assert_eq!(settle(&mut index), []);
}

#[test]
fn affinity_is_written_beside_the_set() {
    let mut sticky = service("ns/a", &["10.96.0.1"], &["http:80"]);
    sticky.affinity_timeout_seconds = 10800;
    let mut index = synced([Change::Service(sticky)]);
    settle(&mut index);
    let frontends: Vec<_> = index.contents().frontends.values().collect();
    assert_eq!((frontends[0].flags, frontends[0].affinity_timeout), (frontend_flags::AFFINITY, 10800));
}

#[test]
fn a_deleted_service_leaves_nothing() {
    let mut index = synced([
        Change::Service(service("ns/a", &["10.96.0.1", "fd00::1"], &["http:80"])),
        Change::EndpointSlice(slice("ns/a-1", "a", &["http:80"], &["10.0.0.1", "10.0.0.2/terminating"])),
    ]);
    settle(&mut index);
    change(&mut index, Change::Deleted(Kind::Service, name("ns/a")));
    let writes = index.drain();
    assert!(writes.iter().all(|write| matches!(write, MapWrite::Frontend(Write::Delete(_)))), "{writes:?}");
    settle(&mut index);
    // The loopback addresses are node addresses always.
    let left = index.contents();
    assert_eq!((left.len(), left.node_addrs.len()), (2, 2), "{left:?}");
}

#[test]
fn an_address_that_moves_between_services_always_has_one() {
    let mut index = synced([
        Change::Service(service("ns/b", &["10.96.0.1"], &["http:80"])),
        Change::EndpointSlice(slice("ns/a-1", "a", &["http:80"], &["10.0.0.1"])),
        Change::EndpointSlice(slice("ns/b-1", "b", &["http:80"], &["10.0.0.2"])),
    ]);
    settle(&mut index);
    change(&mut index, Change::Service(service("ns/a", &["10.96.0.1"], &["http:80"])));
    settle(&mut index);
    expect(&index, &[("10.96.0.1:80", &["10.0.0.1:80"])]);
    change(&mut index, Change::Deleted(Kind::Service, name("ns/a")));
    settle(&mut index);
    expect(&index, &[("10.96.0.1:80", &["10.0.0.2:80"])]);
}

#[test]
fn one_change_writes_only_its_own_service() {
    let mut objects = Vec::new();
    for i in 0..200 {
        objects.push(Change::Service(service(&format!("ns/s{i}"), &[&format!("10.96.1.{i}")], &["http:80"])));
        objects.push(Change::EndpointSlice(slice(
            &format!("ns/s{i}-1"),
            &format!("s{i}"),
            &["http:80"],
            &["10.0.0.1"],
        )));
    }
    let mut index = synced(objects);
    settle(&mut index);
    change(&mut index, Change::EndpointSlice(slice("ns/s7-1", "s7", &["http:80"], &["10.0.0.1", "10.0.0.2"])));
    let frontends: BTreeSet<_> = settle(&mut index)
        .into_iter()
        .filter_map(|write| match write {
            MapWrite::Frontend(Write::Put(key, _)) => Some(key.addr.0[15]),
            _ => None,
        })
        .collect();
    assert_eq!(frontends, [7].into());
}
