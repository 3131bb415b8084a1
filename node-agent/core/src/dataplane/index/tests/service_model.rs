//! Any history of Services, slices, nodes and host ports ends in the maps that the API's words ask for, and no packet sees
//! a half-written set on the way.

mod model;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use proptest::prelude::*;
use skep_abi::{Backend, BackendState, Frontend, FrontendKey, SlotKey, backend_flags, frontend_flags};

use crate::dataplane::samples::{change, host_port, local, name, node, service, settle, slice, synced};
use crate::dataplane::{Change, Index, Kind, LocalEndpoint, MapContents, ObjectName, abi_addr};
use model::{Meaning, OWN, Row, World};

#[derive(Clone, Debug)]
enum Step {
    Change(Box<Change>),
    PodAdded(Box<LocalEndpoint>),
    PodRemoved(u32),
    Drain,
    /// The agent starts anew with what the maps hold.
    Restart,
}

fn some(of: &[&'static str], most: usize) -> impl Strategy<Value = Vec<&'static str>> + use<> {
    prop::sample::subsequence(of.to_vec(), 0..=most)
}

/// Mostly addresses and ports of its own, seldom those of others too.
fn a_service() -> impl Strategy<Value = Change> {
    let flags = [0.3, 0.2, 0.3, 0.3, 0.05, 0.3, 0.2, 0.2].map(prop::bool::weighted).to_vec();
    let ranges = some(&["192.0.2.0/24", "2001:db8:1::/48"], 2);
    (0..3_u8, some(&["a:80:3008", "b:81"], 2), flags, ranges, prop::bool::weighted(0.1)).prop_map(
        |(n, ports, flags, ranges, common)| {
            let ports: Vec<String> = ports
                .into_iter()
                .map(|port| if port.ends_with("3008") { format!("{port}{n}") } else { port.into() })
                .collect();
            let ports: Vec<&str> = ports.iter().map(String::as_str).collect();
            let (v4, v6) = (format!("10.96.0.{n}"), format!("fd00::{n}"));
            let mut ips = vec![if common { "10.96.0.9" } else { &v4 }];
            if flags[0] {
                ips.push(&v6);
            }
            let mut service = service(&format!("ns/s{n}"), &ips, &ports);
            service.affinity_timeout_seconds = if flags[1] { 60 } else { 0 };
            service.internal_local = flags[2];
            service.external_local = flags[3];
            service.maglev = flags[4];
            let parse = |text: String| -> IpAddr { text.parse().unwrap() };
            if flags[5] {
                service.load_balancer_ips = vec![parse(format!("198.51.100.{n}")), parse(format!("2001:db8::{n}"))];
                service.load_balancer_source_ranges = ranges.iter().map(|range| range.parse().unwrap()).collect();
            }
            if flags[6] {
                service.external_ips = vec![parse(format!("203.0.113.{n}"))];
            }
            if flags[7] {
                // A host port's, or the load balancer's again.
                service.external_ips.push(parse("192.0.2.1".to_owned()));
                service.external_ips.push(parse(format!("198.51.100.{n}")));
            }
            Change::Service(service)
        },
    )
}

fn a_slice() -> impl Strategy<Value = Change> {
    // An address is on one node.
    let endpoints = some(
        &[
            "10.0.0.1",
            "10.0.0.2@n2",
            "10.0.0.3@n3",
            "10.0.0.1/terminating",
            "10.0.0.2@n2/terminating",
            "10.0.0.3@n3/notready",
            "fd01::1",
            "fd01::2@n2",
            "fd01::1/gone",
        ],
        5,
    );
    let hints = prop_oneof![
        2 => Just(None),
        1 => prop::collection::vec((0..3_usize, 0..3_usize), 5).prop_map(Some),
    ];
    let ports = some(&["a:8080", "b:8080", "c:1"], 3);
    (0..4, 0..3, ports, endpoints, hints).prop_map(|(n, service, ports, endpoints, hints)| {
        // An address has one state in a slice: the model need not know which of two counts.
        let mut seen = BTreeSet::new();
        let endpoints: Vec<&str> =
            endpoints.into_iter().filter(|text| seen.insert(text.split(['@', '/']).next())).collect();
        let mut slice = slice(&format!("ns/e{n}"), &format!("s{service}"), &ports, &endpoints);
        for (endpoint, (zone, node)) in slice.endpoints.iter_mut().zip(hints.into_iter().flatten()) {
            endpoint.for_zones = [vec![], vec!["z1".into()], vec!["z2".into()]][zone].clone().into();
            endpoint.for_nodes = [vec![], vec!["n1".into()], vec!["n2".into()]][node].clone().into();
        }
        Change::EndpointSlice(slice)
    })
}

fn a_node() -> impl Strategy<Value = Change> {
    (1..=3, 0..3_usize, any::<bool>()).prop_map(|(n, zone, ready)| {
        let addresses = [format!("192.0.2.{n}"), format!("fd02::{n}")];
        let mut node = node(&format!("n{n}"), &addresses.each_ref().map(String::as_str), &[]);
        node.zone = ["", "z1", "z2"][zone].to_owned();
        node.ready = ready;
        Change::NodeRoute(node)
    })
}

fn a_pod() -> impl Strategy<Value = LocalEndpoint> {
    (prop::sample::select(vec![1_u8, 4]), some(&["8080:80", "192.0.2.1:9090:81", "80:8080", "127.0.0.1:70:70"], 3))
        .prop_map(|(n, ports)| {
            let mut pod = local(&format!("ns/p{n}"), &format!("10.0.0.{n}"), "");
            // Two pods of one node never have the same host port, and one that does is not started.
            pod.host_ports = ports.into_iter().map(host_port).collect();
            pod.host_ports.iter_mut().for_each(|port| port.host_port += u16::from(n - 1));
            pod
        })
}

fn a_step() -> impl Strategy<Value = Step> {
    let changes = prop_oneof![
        6 => a_service(),
        12 => a_slice(),
        3 => a_node(),
        2 => (0..3).prop_map(|n| Change::Deleted(Kind::Service, name(&format!("ns/s{n}")))),
        2 => (0..4).prop_map(|n| Change::Deleted(Kind::EndpointSlice, name(&format!("ns/e{n}")))),
        1 => (1..=3).prop_map(|n| Change::Deleted(Kind::NodeRoute, ObjectName::new("", &format!("n{n}")))),
    ];
    prop_oneof![
        16 => changes.prop_map(|change| Step::Change(Box::new(change))),
        2 => a_pod().prop_map(|pod| Step::PodAdded(Box::new(pod))),
        1 => prop::sample::select(vec![1_u32, 4]).prop_map(Step::PodRemoved),
        8 => Just(Step::Drain),
        2 => Just(Step::Restart),
    ]
}

/// The backends that a packet finds behind a frontend, or `None` when some is missing.
fn resolve(contents: &MapContents, frontend: &Frontend) -> Option<Vec<Backend>> {
    let slot = |index| SlotKey { service: frontend.service, generation: frontend.generation, index };
    (0..frontend.count).map(|index| contents.backends.get(contents.slots.get(&slot(index))?).copied()).collect()
}

fn row(backend: &Backend) -> Row {
    (backend.addr, u16::from_be(backend.port_be), backend.proto)
}

/// What the maps mean, without the numbers that differ from history to history.
fn meanings(contents: &MapContents) -> BTreeMap<FrontendKey, Meaning> {
    let frontends = contents.frontends.iter();
    let meaning = |(&key, value): (&FrontendKey, &Frontend)| {
        let backends = resolve(contents, value).unwrap();
        assert!(backends.iter().all(|backend| backend.state == BackendState::Active as u8), "{backends:?}");
        let distinct: BTreeSet<Row> = backends.iter().map(row).collect();
        // Without a table each backend has one slot.
        let maglev = value.flags & frontend_flags::MAGLEV != 0;
        assert!(if maglev { backends.is_empty() || backends.len() >= 251 } else { backends.len() == distinct.len() });
        let ranges = contents.source_ranges.keys().filter(|(_, range)| range.service == value.service);
        let ranges = ranges.map(|(len, range)| (*len, range.addr)).collect();
        let (flags, affinity_timeout) = (value.flags, value.affinity_timeout);
        (key, Meaning { flags, affinity_timeout, backends: distinct, ranges })
    };
    frontends.map(meaning).collect()
}

/// Each backend says where it runs.
fn check_places(contents: &MapContents, world: &World) -> Result<(), TestCaseError> {
    for backend in contents.backends.values() {
        let ip = IpAddr::from(backend.addr.0).to_canonical();
        let last = backend.addr.0[15];
        // Of the pods, 1 and 4 are here.
        let local = matches!(last, 1 | 4);
        let place = world.nodes.get(&format!("n{last}")).filter(|_| !local);
        let address = place.and_then(|node| node.addresses.iter().find(|addr| addr.is_ipv4() == ip.is_ipv4()));
        prop_assert_eq!(backend.node, address.map_or(skep_abi::Addr::NONE, |&addr| abi_addr(addr)));
        prop_assert_eq!(backend.flags & backend_flags::LOCAL != 0, local);
    }
    Ok(())
}

struct Driven {
    index: Index,
    held: MapContents,
    /// Backends that were listed at the last drain.
    listed: BTreeSet<Row>,
}

impl Driven {
    /// Drains one batch and looks at every moment of it: neither a packet that reads a frontend now nor one that read it
    /// before the batch meets a hole.
    fn drain(&mut self, world: &World) -> Result<(), TestCaseError> {
        let read_before: Vec<Frontend> = self.held.frontends.values().copied().collect();
        for write in self.index.drain() {
            self.held.apply(&write);
            for frontend in self.held.frontends.values().chain(&read_before) {
                prop_assert!(resolve(&self.held, frontend).is_some(), "{frontend:?} has a hole after {write:?}");
            }
        }
        prop_assert_eq!(&self.held, self.index.contents());
        let gone: BTreeSet<Row> = self
            .index
            .take_gone_backends()
            .into_iter()
            .map(|gone| (abi_addr(gone.addr), gone.port, gone.proto))
            .collect();
        let listed = world.listed();
        prop_assert_eq!(gone, self.listed.difference(&listed).copied().collect::<BTreeSet<_>>());
        self.listed = listed;
        Ok(())
    }
}

fn restart(held: &MapContents, world: &World) -> Index {
    let mut index = Index::new(OWN);
    index.adopt(held.clone());
    world.pods.values().for_each(|pod| index.endpoint_added(pod.clone()));
    change(&mut index, Change::SnapshotBegin);
    for object in world.changes() {
        change(&mut index, object);
    }
    change(&mut index, Change::Synced);
    index
}

fn apply(world: &mut World, change: &Change) {
    match change.clone() {
        Change::Service(object) => drop(world.services.insert(object.name.name.clone(), object)),
        Change::EndpointSlice(object) => drop(world.slices.insert(object.name.name.clone(), object)),
        Change::NodeRoute(object) => drop(world.nodes.insert(object.name.clone(), object)),
        Change::Deleted(Kind::Service, name) => drop(world.services.remove(&name.name)),
        Change::Deleted(Kind::EndpointSlice, name) => drop(world.slices.remove(&name.name)),
        Change::Deleted(_, name) => drop(world.nodes.remove(&name.name)),
        _ => {}
    }
}

/// Whether an endpoint is in two slices of a Service with different words about it: which counts is no matter of the API's.
fn disagrees(world: &World) -> bool {
    let mut words = BTreeMap::new();
    let slices = world.slices.values().flat_map(|slice| slice.endpoints.iter().map(move |e| (&slice.service, e)));
    slices.into_iter().any(|(service, endpoint)| {
        words.insert((service, endpoint.address), endpoint).is_some_and(|other| other != endpoint)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history_ends_in_what_the_api_says(steps in prop::collection::vec(a_step(), 1..40)) {
        let mut world = World::default();
        let mut driven = Driven { index: synced([]), held: MapContents::default(), listed: BTreeSet::new() };
        for step in steps {
            match step {
                Step::Change(object) => {
                    apply(&mut world, &object);
                    change(&mut driven.index, *object);
                }
                Step::PodAdded(pod) => {
                    world.pods.insert(pod.ifindex, (*pod).clone());
                    driven.index.endpoint_added(*pod);
                }
                Step::PodRemoved(ifindex) => {
                    world.pods.remove(&ifindex);
                    driven.index.endpoint_removed(ifindex);
                }
                Step::Drain => driven.drain(&world)?,
                Step::Restart => {
                    driven.index = restart(&driven.held, &world);
                    driven.listed = driven.held.backends.values().map(row).collect();
                }
            }
        }
        driven.drain(&world)?;
        while driven.index.has_retired() {
            driven.drain(&world)?;
        }
        let held = &driven.held;
        if !disagrees(&world) {
            prop_assert_eq!(meanings(held), world.frontends());
        }
        check_places(held, &world)?;
        let fresh = {
            let mut fresh = restart(&MapContents::default(), &world);
            settle(&mut fresh);
            fresh
        };
        let sizes = |maps: &MapContents| {
            [maps.frontends.len(), maps.slots.len(), maps.backends.len(), maps.source_ranges.len()]
        };
        prop_assert_eq!(meanings(held), meanings(fresh.contents()));
        prop_assert_eq!(sizes(held), sizes(fresh.contents()));
        prop_assert_eq!(&held.node_addrs, &fresh.contents().node_addrs);
        prop_assert_eq!(&held.announced, &fresh.contents().announced);
        // A set whose every address another Service has cannot be told from the maps.
        if !world.is_contested() {
            prop_assert_eq!(settle(&mut restart(held, &world)), vec![]);
        }
    }
}
