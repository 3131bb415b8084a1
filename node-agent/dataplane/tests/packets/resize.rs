//! Maps take other sizes under connections that go on.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;

use skep_abi::{
    Addr, AffinityKey, AffinityValue, Backend, BackendState, ConnKey, ConnState, NatKey, NatValue, OriginKey,
    OriginValue, SlotKey, SourceRangeKey, map,
};
use skep_dataplane::{Error, Maps};

use crate::build::{ACK, Extra, SYN, TCP, read, tcp};
use crate::world::{OTHER, POD, VIP, World, at};

/// All sizes that differ from the object's.
const LARGER: [(&str, u32); 8] = [
    (map::FRONTENDS, 300_000),
    (map::SLOTS, 50_000),
    (map::SOURCE_RANGES, 2_000),
    (map::SERVICE_HITS, 1_000),
    (map::ORIGINS, 40_000),
    (map::CONNTRACK, 100_000),
    (map::NAT, 20_000),
    (map::AFFINITY, 20_000),
];

fn capacities(maps: &Maps) -> BTreeMap<&'static str, u32> {
    maps.capacities().unwrap().into_iter().map(|map| (map.name, map.capacity)).collect()
}

fn segment(from: SocketAddr, to: SocketAddr, flags: u8) -> Vec<u8> {
    tcp(from, to, flags, b"", &Extra::default())
}

/// A connection from the pod to a Service of which both sides have said something: pod, Service, backend.
fn connect(world: &World, i: usize) -> [SocketAddr; 3] {
    let (pod, service, backend) = (at(POD[i], 40000), at(VIP[i], 80), at(OTHER[i], 8080));
    world.serve(service, TCP, Some(backend));
    assert_eq!(read(&world.egress(&segment(pod, service, SYN)).packet).dst, backend);
    assert_eq!(read(&world.ingress(&segment(backend, pod, SYN | ACK)).packet).src, service);
    // The Service has another endpoint set from now on: only the connection knows the backend.
    let number = 50 + i as u32;
    let other = Backend {
        addr: backend.ip().into(),
        node: Addr::NONE,
        flags: 0,
        port_be: 9090_u16.to_be(),
        proto: TCP,
        state: BackendState::Active as u8,
    };
    let maps = world.dataplane.maps();
    maps.backends.set(&number, &other).unwrap();
    maps.slots.set(&SlotKey { service: number, generation: 1, index: 0 }, &number).unwrap();
    world.change_frontend(service, TCP, |frontend| frontend.service = number);
    [pod, service, backend]
}

fn goes_on(world: &World, [pod, service, backend]: [SocketAddr; 3]) {
    assert_eq!(read(&world.egress(&segment(pod, service, ACK)).packet).dst, backend);
    assert_eq!(read(&world.ingress(&segment(backend, pod, ACK)).packet).src, service);
}

fn nat_entry(n: u32) -> (NatKey, NatValue) {
    let [src, dst] = [Addr::v4((0x0a00_0000 + n).to_be_bytes()), Addr::v4([203, 0, 113, 9])];
    let key = NatKey { src, dst, src_port_be: 1, dst_port_be: 2, proto: TCP, pad: [0; 3] };
    let value = NatValue {
        expires: u64::MAX - u64::from(n),
        packets: 3,
        src,
        dst,
        src_port_be: 4,
        dst_port_be: 5,
        state: ConnState::Established as u8,
        flags: 0,
        pad: 0,
        backend: 6,
        service: 7,
    };
    (key, value)
}

fn fill(maps: &Maps) {
    let slots: Vec<SlotKey> = (0..10_000).map(|index| SlotKey { service: 77, generation: 1, index }).collect();
    assert!(maps.slots.set_all(&slots, &(0..10_000).collect::<Vec<u32>>()).is_empty());
    for n in 0..1_000_u32 {
        let addr = Addr::v4((0x0a00_0000 + (n << 8)).to_be_bytes());
        maps.source_ranges.set(32 + 120, &SourceRangeKey { service: 77, addr }, &n).unwrap();
    }
    for n in 0..9_000 {
        let (key, value) = nat_entry(n);
        maps.nat.set(&key, &value).unwrap();
    }
    for service in 0..5_000 {
        let client = Addr::v4([10, 0, 0, 1]);
        let value = AffinityValue { last_used: 5, backend: service, slot: 0 };
        maps.affinity.set(&AffinityKey { client, service }, &value).unwrap();
        let key = OriginKey { cookie: u64::from(service), addr: client, port_be: 1, proto: TCP, pad: [0; 5] };
        let value = OriginValue { addr: client, port_be: 2, pad: 0, backend: service, netns: 9 };
        maps.origins.set(&key, &value).unwrap();
    }
}

#[test]
fn entries_and_connections_stay_when_maps_take_other_sizes() {
    let Some(mut world) = World::new() else { return };
    let connections = [connect(&world, 0), connect(&world, 1)];
    fill(world.dataplane.maps());
    let before = world.dataplane.maps();
    let (frontends, slots) = (before.frontends.iter().unwrap(), before.slots.iter().unwrap());
    let (ranges, hits) = (before.source_ranges.iter().unwrap(), before.service_hits.totals().unwrap());
    let (nat, affinity) = (before.nat.iter().unwrap(), before.affinity.iter().unwrap());
    let (origins, conntrack) = (before.origins.iter().unwrap(), before.conntrack.iter().unwrap());
    assert_eq!((slots.len(), ranges.len(), nat.len(), hits.len()), (10_004, 1_000, 9_000, 2));
    assert_eq!(conntrack.len(), 4);
    let mut expected = capacities(before);
    expected.extend(LARGER);

    world.reopen(&LARGER).unwrap();
    let after = world.dataplane.maps();
    assert_eq!(capacities(after), expected);
    assert_eq!((after.frontends.iter().unwrap(), after.slots.iter().unwrap()), (frontends, slots));
    assert_eq!((after.source_ranges.iter().unwrap(), after.service_hits.totals().unwrap()), (ranges, hits));
    assert_eq!((after.nat.iter().unwrap(), after.affinity.iter().unwrap()), (nat, affinity));
    assert_eq!((after.origins.iter().unwrap(), after.conntrack.iter().unwrap()), (origins, conntrack));
    for connection in connections {
        goes_on(&world, connection);
        // A new one goes where the Service is now.
        let [pod, service, _] = connection;
        let other = SocketAddr::new(pod.ip(), 40001);
        assert_eq!(read(&world.egress(&segment(other, service, SYN)).packet).dst.port(), 9090);
    }
    let moved = world.dataplane.programs();
    world.reopen(&LARGER).unwrap();
    assert_eq!(world.dataplane.programs(), moved, "maps of the right sizes are adopted");
    assert_eq!(fs::read_dir(world.pins().join("maps-old")).unwrap().count(), 0);
    assert!(!world.pins().join("maps-new").exists());

    // And back, to less than the object's sizes.
    world.reopen(&[(map::CONNTRACK, 4_096), (map::NAT, 9_000), (map::SOURCE_RANGES, 1_000)]).unwrap();
    connections.into_iter().for_each(|connection| goes_on(&world, connection));
    assert_eq!(world.dataplane.maps().nat.iter().unwrap().len(), 9_000);
    let smaller = capacities(world.dataplane.maps());
    assert_eq!((smaller[map::CONNTRACK], smaller[map::SLOTS]), (4_096, 50_000));
    assert_eq!(world.drops(), []);
}

#[test]
fn a_map_is_not_made_too_small_for_what_is_in_it() {
    let Some(mut world) = World::new() else { return };
    let connection = connect(&world, 0);
    fill(world.dataplane.maps());
    let (sizes, programs) = (capacities(world.dataplane.maps()), world.dataplane.programs());
    for (name, entries, capacity) in
        [(map::NAT, 9_000, 8_999), (map::SLOTS, 10_002, 10_000), (map::SOURCE_RANGES, 1_000, 500)]
    {
        // One that could be done is not done either.
        let refused = world.reopen(&[(map::CONNTRACK, 100_000), (name, capacity)]).unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!("map {name} has {entries} entries in use: there is no room for them in {capacity}")
        );
        assert!(matches!(refused, Error::TooSmall { .. }));
        assert_eq!((capacities(world.dataplane.maps()), world.dataplane.programs()), (sizes.clone(), programs.clone()));
        assert_eq!(capacities(&Maps::open(world.pins().parent().unwrap()).unwrap()), sizes);
        goes_on(&world, connection);
    }
    for name in ["config", "drops", "events", "nothing"] {
        assert!(matches!(world.reopen(&[(name, 100)]), Err(Error::NotInObject(_))), "{name}");
    }
    goes_on(&world, connection);
}

#[test]
fn connections_that_are_over_need_no_room() {
    let Some(mut world) = World::new() else { return };
    let connection = connect(&world, 0);
    let maps = world.dataplane.maps();
    let known = maps.conntrack.iter().unwrap();
    let (key, value) = known[0];
    let over = |n: u16| ConnKey { local_port_be: n, remote_port_be: 9, ..key };
    for n in 0..3_000 {
        maps.conntrack.set(&over(n), &skep_abi::ConnValue { expires: 1, ..value }).unwrap();
    }
    let census: BTreeMap<_, _> = world.dataplane.census().count().unwrap().into_iter().collect();
    assert_eq!(census[map::SERVICE_HITS], 1);
    world.reopen(&[(map::CONNTRACK, 1_024)]).unwrap();
    let kept = world.dataplane.maps().conntrack.iter().unwrap();
    assert_eq!(kept.len(), known.len());
    let swept = world.dataplane.conntrack_sweeper().unwrap().sweep(2).unwrap();
    assert_eq!((swept.entries, swept.removed, swept.capacity), (known.len(), 0, 1_024));
    goes_on(&world, connection);
}

/// As an agent leaves it that ends between the exchange of pins and that of programs.
fn cut_short(world: &World, name: &str) {
    let (maps, old) = (world.pins().join("maps"), world.pins().join("maps-old"));
    fs::create_dir_all(&old).unwrap();
    fs::rename(maps.join(name), old.join(name)).unwrap();
}

#[test]
fn what_an_agent_left_half_done_is_brought_to_its_end() {
    let Some(mut world) = World::new() else { return };
    let connections = [connect(&world, 0), connect(&world, 1)];
    let maps = world.dataplane.maps();
    for n in 0..100 {
        let (key, value) = nat_entry(n);
        maps.nat.set(&key, &value).unwrap();
    }
    let conntrack = maps.conntrack.iter().unwrap();
    for name in [map::CONNTRACK, map::NAT] {
        cut_short(&world, name);
    }
    world.reopen(&[(map::NAT, 5_000), (map::CONNTRACK, 70_000), (map::SLOTS, 50_000)]).unwrap();
    let after = world.dataplane.maps();
    assert_eq!(after.conntrack.iter().unwrap(), conntrack);
    assert_eq!(after.nat.iter().unwrap().len(), 100);
    let sizes = capacities(after);
    assert_eq!((sizes[map::NAT], sizes[map::CONNTRACK], sizes[map::SLOTS]), (5_000, 70_000, 50_000));
    connections.into_iter().for_each(|connection| goes_on(&world, connection));
    assert_eq!(fs::read_dir(world.pins().join("maps-old")).unwrap().count(), 0);
}

#[test]
fn of_two_states_of_a_connection_the_later_one_counts() {
    let Some(mut world) = World::new() else { return };
    connect(&world, 0);
    let old = world.dataplane.maps().conntrack.iter().unwrap();
    let changed = |expires: fn(u64) -> u64| {
        let change = |&(key, value): &(ConnKey, skep_abi::ConnValue)| {
            (key, skep_abi::ConnValue { expires: expires(value.expires), tx_packets: 1_000, ..value })
        };
        old.iter().map(change).collect::<Vec<_>>()
    };
    for (states, newer) in [(changed(|expires| expires + 1), true), (changed(|expires| expires - 1), false)] {
        for (key, value) in &old {
            world.dataplane.maps().conntrack.set(key, value).unwrap();
        }
        cut_short(&world, map::CONNTRACK);
        // The next agent has made the new map, and its programs have been at work.
        let made = world.pins().join("maps-old").join(map::CONNTRACK);
        let aside = world.pins().join("aside");
        fs::create_dir_all(&aside).unwrap();
        fs::rename(&made, aside.join(map::CONNTRACK)).unwrap();
        world.reopen(&[]).unwrap();
        for (key, value) in &states {
            world.dataplane.maps().conntrack.set(key, value).unwrap();
        }
        fs::rename(aside.join(map::CONNTRACK), &made).unwrap();
        world.reopen(&[]).unwrap();
        let kept = world.dataplane.maps().conntrack.iter().unwrap();
        assert_eq!(kept, if newer { states } else { old.clone() });
    }
}
