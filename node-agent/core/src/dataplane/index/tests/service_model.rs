//! Any history of Services and slices ends in the maps of a fresh start, and no packet sees a half-written set on the way.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use skep_abi::{Addr, Backend, Frontend, FrontendKey, SlotKey};

use crate::dataplane::samples::{change, name, service, settle, slice, synced};
use crate::dataplane::{Change, Index, Kind, MapContents};

#[derive(Clone, Debug)]
enum Step {
    Change(Box<Change>),
    Drain,
    /// The agent starts anew with what the maps hold.
    Restart,
}

fn a_service() -> impl Strategy<Value = Change> {
    let ips = prop::sample::subsequence(vec!["10.96.0.1", "10.96.0.2", "fd00::1"], 1..=2);
    let ports = prop::sample::subsequence(vec!["a:80", "b:81"], 0..=2);
    (0..3, ips, ports, prop::bool::weighted(0.2)).prop_map(|(n, ips, ports, sticky)| {
        let mut service = service(&format!("ns/s{n}"), &ips, &ports);
        service.affinity_timeout_seconds = if sticky { 60 } else { 0 };
        Change::Service(service)
    })
}

fn a_slice() -> impl Strategy<Value = Change> {
    let endpoints = vec![
        "10.0.0.1",
        "10.0.0.2",
        "10.0.0.3",
        "10.0.0.1/terminating",
        "10.0.0.2/terminating",
        "10.0.0.3/notready",
        "fd01::1",
        "fd01::1/gone",
    ];
    let ports = prop::sample::subsequence(vec!["a:8080", "b:8080", "c:1"], 0..=3);
    (0..4, 0..3, ports, prop::sample::subsequence(endpoints, 0..=5)).prop_map(|(n, service, ports, endpoints)| {
        Change::EndpointSlice(slice(&format!("ns/e{n}"), &format!("s{service}"), &ports, &endpoints))
    })
}

fn a_step() -> impl Strategy<Value = Step> {
    let changes = prop_oneof![
        3 => a_service(),
        6 => a_slice(),
        1 => (0..3).prop_map(|n| Change::Deleted(Kind::Service, name(&format!("ns/s{n}")))),
        1 => (0..4).prop_map(|n| Change::Deleted(Kind::EndpointSlice, name(&format!("ns/e{n}")))),
    ];
    prop_oneof![
        8 => changes.prop_map(|change| Step::Change(Box::new(change))),
        4 => Just(Step::Drain),
        1 => Just(Step::Restart),
    ]
}

/// What a frontend stands for, without the numbers that differ from history to history.
type View = BTreeMap<FrontendKey, (u32, u32, BTreeSet<Row>)>;
type Row = (Addr, u16, u8, u8);

fn view(contents: &MapContents) -> View {
    let row = |backend: Backend| (backend.addr, backend.port_be, backend.proto, backend.state);
    let rows = |frontend| resolve(contents, frontend).unwrap().into_iter().map(row).collect();
    let frontends = contents.frontends.iter();
    frontends.map(|(&key, value)| (key, (value.flags, value.affinity_timeout, rows(value)))).collect()
}

/// The backends that a packet finds behind a frontend, or `None` when some is missing.
fn resolve(contents: &MapContents, frontend: &Frontend) -> Option<Vec<Backend>> {
    let slot = |index| SlotKey { service: frontend.service, generation: frontend.generation, index };
    (0..frontend.count).map(|index| contents.backends.get(contents.slots.get(&slot(index))?).copied()).collect()
}

type Objects = BTreeMap<(bool, String), Change>;

fn record(objects: &mut Objects, change: &Change) {
    match change {
        Change::Service(object) => objects.insert((false, object.name.name.clone()), change.clone()),
        Change::EndpointSlice(object) => objects.insert((true, object.name.name.clone()), change.clone()),
        Change::Deleted(kind, name) => objects.remove(&(*kind == Kind::EndpointSlice, name.name.clone())),
        _ => None,
    };
}

/// Drains one batch into `held` and looks at every moment of it: neither a packet that reads a frontend now nor one that
/// read it before the batch meets a hole.
fn drain(index: &mut Index, held: &mut MapContents) -> Result<(), TestCaseError> {
    let read_before: Vec<Frontend> = held.frontends.values().copied().collect();
    for write in index.drain() {
        held.apply(&write);
        for frontend in held.frontends.values().chain(&read_before) {
            prop_assert!(resolve(held, frontend).is_some(), "{frontend:?} has a hole after {write:?}");
        }
    }
    prop_assert_eq!(&*held, index.contents());
    Ok(())
}

fn restart(held: &MapContents, objects: &Objects) -> Index {
    let mut index = Index::new("n1");
    index.adopt(held.clone());
    change(&mut index, Change::SnapshotBegin);
    for object in objects.values() {
        change(&mut index, object.clone());
    }
    change(&mut index, Change::Synced);
    index
}

/// Whether two Services have one address, which the API does not allow and a stream may show for a moment.
fn share_an_address(objects: &Objects) -> bool {
    let services = objects.values().filter_map(|object| match object {
        Change::Service(service) => Some(service),
        _ => None,
    });
    let mut seen = BTreeSet::new();
    services.flat_map(|service| &service.cluster_ips).any(|ip| !seen.insert(ip))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history_ends_in_what_a_fresh_start_makes(steps in prop::collection::vec(a_step(), 1..40)) {
        let mut objects = Objects::new();
        let mut held = MapContents::default();
        let mut index = synced([]);
        for step in steps {
            match step {
                Step::Change(object) => {
                    record(&mut objects, &object);
                    change(&mut index, *object);
                }
                Step::Drain => drain(&mut index, &mut held)?,
                Step::Restart => index = restart(&held, &objects),
            }
        }
        drain(&mut index, &mut held)?;
        while index.has_retired() {
            drain(&mut index, &mut held)?;
        }
        let mut fresh = synced(objects.values().cloned());
        settle(&mut fresh);
        prop_assert_eq!(view(&held), view(fresh.contents()));
        prop_assert_eq!(held.slots.len(), fresh.contents().slots.len());
        prop_assert_eq!(held.backends.len(), fresh.contents().backends.len());
        // A set whose every address another Service has cannot be told from the maps.
        if !share_an_address(&objects) {
            prop_assert_eq!(settle(&mut restart(&held, &objects)), vec![]);
        }
    }
}
