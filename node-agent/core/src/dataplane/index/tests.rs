mod policy_model;
mod service_model;
mod wire;

use std::net::IpAddr;

use skep_abi::{Direction, endpoint_flags};

use super::Index;
use crate::dataplane::policies::evaluate::{Connection, allows};
use crate::dataplane::samples::{
    change, local, name, namespace, node, policy, selector, service, settle, slice, synced, workload,
};
use crate::dataplane::{
    Change, Event, Invalid, Kind, MapContents, MapWrite, ObjectRef, Problem, Protocol, Write, abi_addr,
};

fn objects() -> Vec<Change> {
    vec![
        Change::Namespace(namespace("ns", "team=a")),
        Change::Service(service("ns/web", &["10.96.0.1"], &["http:80"])),
        Change::EndpointSlice(slice("ns/web-1", "web", &["http:8080"], &["10.0.0.1", "10.0.0.2/terminating"])),
        Change::Workload(workload("ns/web", &["10.0.0.1"], "app=web", &[])),
        Change::Workload(workload("ns/client", &["10.0.0.2"], "app=client", &[])),
        Change::NetworkPolicy(policy("ns/deny", "app=web", Some(vec![]), None)),
    ]
}

fn ingress(index: &Index, ifindex: u32) -> Option<bool> {
    let remote = IpAddr::from([192, 0, 2, 1]);
    let connection = Connection { ifindex, direction: Direction::Ingress, remote, protocol: Protocol::Tcp, port: 80 };
    allows(index.contents(), connection)
}

#[test]
fn before_the_stream_is_complete_only_new_endpoints_are_written_and_closed() {
    let mut index = Index::new("n1");
    change(&mut index, Change::SnapshotBegin);
    for object in objects() {
        change(&mut index, object);
    }
    index.endpoint_added(local("ns/web", "10.0.0.1", "app=web"));
    let writes = index.drain();
    assert!(
        matches!(writes.as_slice(), [MapWrite::Endpoint(Write::Put(1, value))] if value.flags == endpoint_flags::CLOSED),
        "{writes:?}"
    );
    assert!(!index.is_synced());
    change(&mut index, Change::Synced);
    settle(&mut index);
    assert_eq!(index.contents().endpoints[&1].flags, 0);
    assert_ne!(index.contents().endpoints[&1].rule_list[0], 0);
    assert_eq!(index.contents().frontends.len(), 1);
}

#[test]
fn a_restart_that_finds_nothing_changed_writes_nothing() {
    let mut before = synced(objects());
    before.endpoint_added(local("ns/web", "10.0.0.1", "app=web"));
    settle(&mut before);
    let held = before.contents().clone();

    let mut after = Index::new("n1");
    after.adopt(held.clone());
    after.endpoint_added(local("ns/web", "10.0.0.1", "app=web"));
    assert_eq!(after.drain(), []);
    change(&mut after, Change::SnapshotBegin);
    for object in objects() {
        change(&mut after, object);
        assert_eq!(after.drain(), []);
    }
    change(&mut after, Change::Synced);
    assert_eq!(settle(&mut after), []);
    assert_eq!(*after.contents(), held);
    assert_eq!(after.names(), before.names());
}

#[test]
fn a_restart_removes_what_went_meanwhile_and_numbers_go_on() {
    let mut before = synced(objects());
    before.endpoint_added(local("ns/web", "10.0.0.1", "app=web"));
    before.endpoint_added(local("ns/gone", "10.0.0.9", "app=gone"));
    settle(&mut before);

    let mut after = Index::new("n1");
    after.adopt(before.contents().clone());
    after.endpoint_added(local("ns/web", "10.0.0.1", "app=web"));
    change(&mut after, Change::SnapshotBegin);
    change(&mut after, Change::Service(service("ns/new", &["10.96.0.2"], &["http:80"])));
    change(&mut after, Change::EndpointSlice(slice("ns/new-1", "new", &["http:80"], &["10.0.0.3"])));
    change(&mut after, Change::NetworkPolicy(policy("ns/other", "", None, Some(vec![]))));
    change(&mut after, Change::Synced);
    settle(&mut after);
    let contents = after.contents();
    assert_eq!(contents.frontends.len(), 1);
    assert_eq!(contents.frontends.values().next().map(|frontend| frontend.service), Some(2));
    assert_eq!(contents.backends.keys().copied().collect::<Vec<_>>(), [3]);
    assert_eq!(contents.slots.len(), 1);
    assert_eq!(contents.endpoints.keys().copied().collect::<Vec<_>>(), [1]);
    assert_eq!(contents.endpoints[&1].rule_list, [0, 2]);
    assert_eq!(contents.rule_lists.len(), 1);
    assert_eq!(contents.identities.len(), 1);
    assert_eq!(contents.identity_tails.len(), 1);
}

#[test]
fn what_an_interrupted_agent_left_half_written_is_repaired() {
    let mut whole = synced(objects());
    whole.endpoint_added(local("ns/web", "10.0.0.1", "app=web"));
    settle(&mut whole);
    change(&mut whole, Change::EndpointSlice(slice("ns/web-1", "web", &["http:8080"], &["10.0.0.3"])));
    change(&mut whole, Change::NetworkPolicy(policy("ns/deny", "app=web", None, Some(vec![]))));
    let base = whole.contents().clone();
    let mut later = whole;
    let writes = settle(&mut later);
    for cut in 0..=writes.len() {
        let mut held = base.clone();
        writes.iter().take(cut).for_each(|write| held.apply(write));
        let mut index = Index::new("n1");
        index.adopt(held.clone());
        index.endpoint_added(local("ns/web", "10.0.0.1", "app=web"));
        change(&mut index, Change::SnapshotBegin);
        for object in objects() {
            change(&mut index, object);
        }
        change(&mut index, Change::Synced);
        for write in settle(&mut index) {
            held.apply(&write);
        }
        assert_eq!(held, *index.contents(), "cut at {cut}");
        assert_eq!((held.slots.len(), held.backends.len(), held.rule_lists.len()), (1, 2, 1), "cut at {cut}");
        // And the next change does not stumble over what was left.
        change(&mut index, Change::EndpointSlice(slice("ns/web-1", "web", &["http:8080"], &["10.0.0.3", "10.0.0.4"])));
        for write in settle(&mut index) {
            held.apply(&write);
        }
        assert_eq!(held, *index.contents(), "cut at {cut}");
        assert_eq!((held.slots.len(), held.backends.len()), (2, 2), "cut at {cut}");
    }
}

#[test]
fn maps_that_lost_entries_are_filled_again() {
    let mut index = synced(objects());
    index.endpoint_added(local("ns/web", "10.0.0.1", "app=web"));
    settle(&mut index);
    let held = index.contents().clone();
    index.adopt(MapContents::default());
    settle(&mut index);
    assert_eq!(*index.contents(), held);
}

#[test]
fn whatever_write_fails_packets_see_whole_sets_and_a_later_adoption_repairs() {
    let mut base = synced(objects());
    base.endpoint_added(local("ns/web", "10.0.0.1", "app=web"));
    settle(&mut base);
    let before = base.contents().clone();
    let next = |index: &mut Index| {
        change(index, Change::EndpointSlice(slice("ns/web-1", "web", &["http:8080"], &["10.0.0.1", "10.0.0.3"])));
        let rule = crate::dataplane::PolicyRule { peers: vec![], ports: vec![] };
        change(index, Change::NetworkPolicy(policy("ns/deny", "app=web", Some(vec![rule]), Some(vec![]))));
    };
    next(&mut base);
    let writes = settle(&mut base);
    let wanted = base.contents().clone();
    for failing in writes.iter().filter(|write| !format!("{write:?}").contains("Delete")) {
        let mut index = Index::new("n1");
        index.adopt(before.clone());
        index.endpoint_added(local("ns/web", "10.0.0.1", "app=web"));
        change(&mut index, Change::SnapshotBegin);
        objects().into_iter().for_each(|object| change(&mut index, object));
        change(&mut index, Change::Synced);
        let mut held = before.clone();
        assert_eq!(settle(&mut index), []);
        next(&mut index);
        while {
            for write in index.drain() {
                if write == *failing || index.is_void(&write) {
                    index.write_failed(&write);
                } else {
                    held.apply(&write);
                }
                for frontend in held.frontends.values() {
                    let slot =
                        |index| skep_abi::SlotKey { service: frontend.service, generation: frontend.generation, index };
                    let whole = (0..frontend.count).all(|index| held.backends.contains_key(&held.slots[&slot(index)]));
                    assert!(whole, "{failing:?}");
                }
                let endpoint = held.endpoints[&1];
                let lists = endpoint.rule_list.into_iter().filter(|list| *list != 0);
                let closed = endpoint.flags & endpoint_flags::CLOSED != 0;
                for list in lists.filter(|_| !closed) {
                    assert!(held.rule_lists.contains_key(&skep_abi::RuleListKey { list, word: 0 }), "{failing:?}");
                }
            }
            index.has_retired()
        } {}
        index.adopt(held.clone());
        settle(&mut index).iter().for_each(|write| held.apply(write));
        assert_eq!(held, *index.contents());
        let sizes =
            |maps: &MapContents| [maps.slots.len(), maps.backends.len(), maps.rule_lists.len(), maps.endpoints.len()];
        assert_eq!(sizes(&held), sizes(&wanted), "{failing:?}");
        assert_eq!(held.endpoints[&1].flags, 0, "{failing:?}");
    }
}

#[test]
fn a_full_snapshot_removes_what_it_does_not_have() {
    let mut index = synced(objects());
    settle(&mut index);
    change(&mut index, Change::SnapshotBegin);
    for object in objects().into_iter().skip(2) {
        change(&mut index, object);
    }
    assert_eq!(settle(&mut index), []);
    change(&mut index, Change::Synced);
    settle(&mut index);
    assert!(index.contents().frontends.is_empty());
    assert_eq!(index.contents().identities.len(), 2);
}

#[test]
fn a_snapshot_cut_short_removes_nothing() {
    let mut index = synced(objects());
    settle(&mut index);
    change(&mut index, Change::SnapshotBegin);
    assert_eq!(index.begin_stream(), 7);
    // The new stream resumes: no snapshot, at once complete.
    change(&mut index, Change::Synced);
    assert_eq!(settle(&mut index), []);
}

#[test]
fn the_revision_to_resume_from_is_that_of_complete_states() {
    let at = |revision, change| Event { revision, change };
    let mut index = Index::new("n1");
    assert_eq!(index.begin_stream(), 0);
    index.apply(at(5, Change::SnapshotBegin));
    index.apply(at(5, Change::Namespace(namespace("ns", ""))));
    assert_eq!(index.begin_stream(), 0);
    index.apply(at(5, Change::SnapshotBegin));
    index.apply(at(6, Change::Synced));
    index.apply(at(8, Change::Progress));
    assert_eq!(index.begin_stream(), 8);
    index.apply(at(9, Change::Namespace(namespace("ns", ""))));
    assert_eq!(index.begin_stream(), 8);
    index.apply(at(9, Change::Synced));
    assert_eq!(index.begin_stream(), 9);
}

fn invalid(kind: Kind, text: &str, selects: Option<&str>) -> Invalid {
    let object = ObjectRef { kind: Some(kind), name: name(text) };
    Invalid { object, field: "f".to_owned(), problem: Problem::Missing, selects: selects.map(selector) }
}

#[test]
fn an_object_that_cannot_be_read_keeps_its_earlier_version() {
    let mut index = synced(objects());
    index.endpoint_added(local("ns/web", "10.0.0.1", "app=web"));
    settle(&mut index);
    change(&mut index, Change::SnapshotBegin);
    for object in
        objects().into_iter().filter(|object| !matches!(object, Change::Service(_) | Change::NetworkPolicy(_)))
    {
        change(&mut index, object);
    }
    index.reject(&invalid(Kind::Service, "ns/web", None));
    index.reject(&invalid(Kind::NetworkPolicy, "ns/deny", Some("")));
    change(&mut index, Change::Synced);
    assert_eq!(settle(&mut index), []);
}

#[test]
fn pods_of_a_policy_that_cannot_be_read_are_closed() {
    for (selects, closed) in [(Some("app=web"), [true, false]), (None, [true, true])] {
        let mut index = synced(objects().into_iter().take(5));
        index.endpoint_added(local("ns/web", "10.0.0.1", "app=web"));
        index.endpoint_added(local("ns/client", "10.0.0.2", "app=client"));
        settle(&mut index);
        assert_eq!([ingress(&index, 1), ingress(&index, 2)], [Some(true); 2]);
        index.reject(&invalid(Kind::NetworkPolicy, "ns/bad", selects));
        settle(&mut index);
        assert_eq!([ingress(&index, 1), ingress(&index, 2)], closed.map(|closed| Some(!closed)));
        change(&mut index, Change::NetworkPolicy(policy("ns/bad", "", Some(vec![Default::default()]), None)));
        settle(&mut index);
        assert_eq!([ingress(&index, 1), ingress(&index, 2)], [Some(true); 2]);
        assert!(index.closed().is_empty());
    }
}

#[test]
fn an_address_belongs_to_the_local_pod_then_to_the_youngest() {
    let identity = |index: &Index| index.contents().identities.get(&abi_addr([10, 0, 0, 9].into())).copied();
    let of = |index: &Index, app: &str| {
        let names = index.names().identities;
        names.into_iter().find(|(_, name)| name.labels["app"] == app).map(|(identity, _)| identity)
    };
    let mut index = synced([Change::Workload(workload("ns/z-old", &["10.0.0.9"], "app=old", &[]))]);
    settle(&mut index);
    change(&mut index, Change::Workload(workload("ns/a-new", &["10.0.0.9"], "app=new", &[])));
    settle(&mut index);
    assert_eq!(identity(&index), of(&index, "new"));
    // A late word about the old pod does not bring it back.
    change(&mut index, Change::Workload(workload("ns/z-old", &["10.0.0.9"], "app=old,phase=going", &[])));
    settle(&mut index);
    assert_eq!(identity(&index), of(&index, "new"));
    index.endpoint_added(local("ns/here", "10.0.0.9", "app=here"));
    settle(&mut index);
    assert_eq!(identity(&index), of(&index, "here"));
    index.endpoint_removed(9);
    change(&mut index, Change::Deleted(Kind::Workload, name("ns/a-new")));
    change(&mut index, Change::Deleted(Kind::Workload, name("ns/z-old")));
    settle(&mut index);
    assert_eq!(identity(&index), None);
    assert!(index.contents().endpoints.is_empty());
}

#[test]
fn the_own_node_has_no_route() {
    let route = |name: &str, cidr: &str| Change::NodeRoute(node(name, &["192.0.2.1"], &[cidr]));
    let mut index = synced([route("n1", "10.244.0.0/24"), route("n2", "10.244.1.0/24")]);
    assert_eq!(index.routes().len(), 1);
    change(&mut index, Change::Deleted(Kind::NodeRoute, crate::dataplane::ObjectName::new("", "n2")));
    assert!(index.routes().is_empty());
}
