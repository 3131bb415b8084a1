//! Kinds of Services beside the cluster IP, and what this node does for them beside map entries.

use std::collections::BTreeSet;
use std::net::IpAddr;

use skep_abi::{Addr, Frontend, FrontendKey, backend_flags, frontend_flags, scope};

use crate::dataplane::samples::{change, host_port, local, name, namespace, node, service, settle, slice, synced};
use crate::dataplane::{
    Change, GoneBackend, Index, Kind, MapWrite, ObjectName, Service, ServiceKind, Write, abi_addr, identity_hash,
};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn frontend(index: &Index, addr: &str, port: u16, scope: u8) -> Option<Frontend> {
    let key = FrontendKey { addr: abi_addr(ip(addr)), port_be: port.to_be(), proto: 6, scope };
    index.contents().frontends.get(&key).copied()
}

fn set(index: &Index, addr: &str, port: u16, scope: u8) -> u32 {
    frontend(index, addr, port, scope).unwrap().service
}

/// A Service with a node port, an external address and one of a load balancer.
fn public() -> Service {
    let mut public = service("ns/web", &["10.96.0.1"], &["http:80:30080"]);
    public.kind = ServiceKind::LoadBalancer;
    public.external_ips = vec![ip("203.0.113.1")];
    public.load_balancer_ips = vec![ip("198.51.100.1")];
    public
}

#[test]
fn addresses_with_the_same_endpoints_share_a_set() {
    let mut index = synced([
        Change::Service(public()),
        Change::EndpointSlice(slice("ns/web-1", "web", &["http:8080"], &["10.0.0.1", "10.0.0.2@n2"])),
    ]);
    settle(&mut index);
    let contents = index.contents();
    let sets: BTreeSet<u32> = contents.frontends.values().map(|frontend| frontend.service).collect();
    assert_eq!((contents.frontends.len(), sets.len(), contents.slots.len()), (7, 1, 2));
    assert_eq!(frontend(&index, "10.96.0.1", 80, scope::EXTERNAL), None);
    assert_eq!(frontend(&index, "10.96.0.1", 80, scope::INTERNAL).unwrap().flags, 0);
    for (addr, port) in [("203.0.113.1", 80), ("198.51.100.1", 80), ("0.0.0.0", 30080)] {
        for scope in [scope::INTERNAL, scope::EXTERNAL] {
            assert_eq!(frontend(&index, addr, port, scope).unwrap().flags, frontend_flags::EXTERNAL_ADDR, "{addr}");
        }
    }
}

#[test]
fn a_hint_that_narrows_gives_the_cluster_ip_a_set_of_its_own() {
    let mut hinted = slice("ns/web-1", "web", &["http:8080"], &["10.0.0.1", "10.0.0.2@n2"]);
    hinted.endpoints[0].for_zones = ["z1".into()].into();
    hinted.endpoints[1].for_zones = ["z2".into()].into();
    let mut own = node("n1", &["192.0.2.1"], &[]);
    own.zone = "z1".to_owned();
    let mut index = synced([Change::NodeRoute(own.clone()), Change::Service(public()), Change::EndpointSlice(hinted)]);
    settle(&mut index);
    let count = |index: &Index, addr, port| frontend(index, addr, port, scope::INTERNAL).unwrap().count;
    assert_eq!((count(&index, "10.96.0.1", 80), count(&index, "0.0.0.0", 30080)), (1, 2));
    // The node moves to where no endpoint is meant for it: everybody's endpoints, and one set again.
    own.zone = "z3".to_owned();
    change(&mut index, Change::NodeRoute(own));
    settle(&mut index);
    assert_eq!(count(&index, "10.96.0.1", 80), 2);
    assert_eq!(set(&index, "10.96.0.1", 80, scope::INTERNAL), set(&index, "0.0.0.0", 30080, scope::EXTERNAL));
    assert_eq!(index.contents().slots.len(), 2);
}

#[test]
fn source_ranges_are_of_the_load_balancers_address_from_outside() {
    let mut ranged = public();
    ranged.load_balancer_source_ranges = vec!["192.0.2.0/24".parse().unwrap(), "2001:db8::/32".parse().unwrap()];
    let mut index = synced([
        Change::Service(ranged.clone()),
        Change::EndpointSlice(slice("ns/web-1", "web", &["http:8080"], &["10.0.0.1"])),
    ]);
    settle(&mut index);
    let outside = frontend(&index, "198.51.100.1", 80, scope::EXTERNAL).unwrap();
    assert_eq!(outside.flags, frontend_flags::EXTERNAL_ADDR | frontend_flags::SOURCE_RANGES);
    for (addr, scope) in [("198.51.100.1", scope::INTERNAL), ("203.0.113.1", scope::EXTERNAL)] {
        let other = frontend(&index, addr, 80, scope).unwrap();
        assert_eq!(other.flags, frontend_flags::EXTERNAL_ADDR);
        assert_ne!(other.service, outside.service);
    }
    let ranges = |index: &Index| -> Vec<_> {
        index.contents().source_ranges.keys().map(|(len, key)| (*len, key.service, key.addr)).collect()
    };
    assert_eq!(ranges(&index), [(32 + 96 + 24, outside.service, abi_addr(ip("192.0.2.0")))]);
    // Another range: the set keeps its number, the old range goes at once.
    ranged.load_balancer_source_ranges = vec!["203.0.113.0/25".parse().unwrap()];
    change(&mut index, Change::Service(ranged.clone()));
    index.drain();
    assert_eq!(ranges(&index), [(32 + 96 + 25, outside.service, abi_addr(ip("203.0.113.0")))]);
    // None: the set goes, and its ranges only when no packet is on its way to them.
    ranged.load_balancer_source_ranges.clear();
    change(&mut index, Change::Service(ranged));
    index.drain();
    assert_eq!(ranges(&index).len(), 1);
    assert!(index.has_retired());
    settle(&mut index);
    assert_eq!(ranges(&index), []);
}

#[test]
fn a_range_that_cannot_be_written_opens_nothing() {
    let mut ranged = public();
    let mut index = synced([
        Change::Service(ranged.clone()),
        Change::EndpointSlice(slice("ns/web-1", "web", &["http:8080"], &["10.0.0.1"])),
    ]);
    settle(&mut index);
    ranged.load_balancer_source_ranges = vec!["192.0.2.0/24".parse().unwrap()];
    change(&mut index, Change::Service(ranged));
    let writes = index.drain();
    let range = writes.iter().find(|write| matches!(write, MapWrite::SourceRange(Write::Put(..)))).unwrap();
    index.write_failed(range);
    let flip = writes.iter().find(|write| matches!(write, MapWrite::Frontend(Write::Put(..)))).unwrap();
    assert!(index.is_void(flip));
}

#[test]
fn local_policies_and_where_endpoints_run() {
    let mut public = public();
    public.external_local = true;
    public.internal_local = true;
    let remote = "10.0.0.2@n2";
    let mut index = synced([
        Change::NodeRoute(node("n1", &["192.0.2.1"], &[])),
        Change::NodeRoute(node("n2", &["192.0.2.2"], &[])),
        Change::Service(public),
        Change::EndpointSlice(slice("ns/web-1", "web", &["http:8080"], &["10.0.0.1", remote, "192.0.2.2@n2"])),
    ]);
    settle(&mut index);
    let at = |index: &Index, addr, scope| frontend(index, addr, 80, scope).map(|found| (found.flags, found.count));
    let external = frontend_flags::EXTERNAL_ADDR;
    assert_eq!(at(&index, "10.96.0.1", scope::INTERNAL), Some((frontend_flags::LOCAL, 1)));
    assert_eq!(at(&index, "203.0.113.1", scope::EXTERNAL), Some((frontend_flags::LOCAL | external, 1)));
    assert_eq!(at(&index, "203.0.113.1", scope::INTERNAL), Some((external, 3)));
    assert_eq!(
        set(&index, "10.96.0.1", 80, scope::INTERNAL),
        set(&index, "203.0.113.1", 80, scope::EXTERNAL),
        "this node's endpoints are one set"
    );
    let places = |index: &Index| -> Vec<(u32, Addr)> {
        index.contents().backends.values().map(|backend| (backend.flags, backend.node)).collect()
    };
    let n2 = abi_addr(ip("192.0.2.2"));
    assert_eq!(places(&index), [(backend_flags::LOCAL, Addr::NONE), (0, n2), (backend_flags::HOST, n2)]);
    // The node gets another address.
    change(&mut index, Change::NodeRoute(node("n2", &["192.0.2.3"], &[])));
    settle(&mut index);
    let n2 = abi_addr(ip("192.0.2.3"));
    assert_eq!(places(&index), [(backend_flags::LOCAL, Addr::NONE), (0, n2), (0, n2)]);
    // Without an endpoint here, a local address has none.
    change(&mut index, Change::EndpointSlice(slice("ns/web-1", "web", &["http:8080"], &[remote])));
    settle(&mut index);
    assert_eq!(at(&index, "203.0.113.1", scope::EXTERNAL), Some((frontend_flags::LOCAL | external, 0)));
    assert_eq!(at(&index, "203.0.113.1", scope::INTERNAL), Some((external, 1)));
}

#[test]
fn names_alone_are_nothing_of_the_dataplanes() {
    let mut headless = Service::new(name("ns/headless"));
    headless.headless = true;
    headless.external_ips = vec![ip("203.0.113.1")];
    let mut alias = Service::new(name("ns/alias"));
    alias.kind = ServiceKind::ExternalName;
    alias.external_name = "example.org".to_owned();
    let endpoints = slice("ns/headless-1", "headless", &["http:8080"], &["10.0.0.1"]);
    let mut index = synced([Change::Service(headless), Change::Service(alias), Change::EndpointSlice(endpoints)]);
    settle(&mut index);
    assert!(index.contents().frontends.is_empty() && index.contents().backends.is_empty());
}

#[test]
fn the_agent_answers_at_the_addresses_of_dns_unless_somebody_else_does() {
    let dns = service("kube-system/kube-dns", &["10.96.0.10", "fd00::a"], &["dns:53"]);
    let mut index = synced([Change::Namespace(namespace("kube-system", "name=kube-system")), Change::Service(dns)]);
    settle(&mut index);
    assert_eq!(index.cluster_dns_addresses(), [ip("10.96.0.10"), ip("fd00::a")]);
    assert!(index.contents().frontends.is_empty());
    let labels = |key: &str, value: &str| [(key.to_owned(), value.to_owned())].into();
    let identity = identity_hash("kube-system", &labels("name", "kube-system"), &labels("k8s-app", "kube-dns"));
    for addr in ["10.96.0.10", "fd00::a"] {
        assert_eq!(index.contents().identities.get(&abi_addr(ip(addr))), Some(&identity));
    }
    let own = slice("kube-system/kube-dns-1", "kube-dns", &["dns:53"], &["10.0.0.1"]);
    change(&mut index, Change::EndpointSlice(own));
    settle(&mut index);
    assert_eq!(index.cluster_dns_addresses(), [] as [IpAddr; 0]);
    assert_eq!(frontend(&index, "10.96.0.10", 53, scope::INTERNAL).map(|found| found.count), Some(1));
    assert!(index.contents().identities.is_empty());
}

/// The addresses that each of three nodes answers for.
fn announced(changes: &[Change]) -> Vec<BTreeSet<IpAddr>> {
    let of = |name: &str| {
        let mut index = Index::new(name);
        changes.iter().for_each(|object| change(&mut index, object.clone()));
        change(&mut index, Change::Synced);
        settle(&mut index);
        let own: BTreeSet<_> = index.announced().iter().map(|&addr| abi_addr(addr)).collect();
        assert_eq!(own, index.contents().announced.keys().copied().collect());
        index.announced().clone()
    };
    ["n1", "n2", "n3"].map(of).into()
}

#[test]
fn one_node_answers_for_each_load_balancer_address() {
    let nodes = ["n1", "n2", "n3"].map(|name| node(name, &[&format!("192.0.2.{}", &name[1..])], &[]));
    let mut objects: Vec<_> = nodes.iter().cloned().map(Change::NodeRoute).collect();
    for n in 0..60 {
        let mut service = service(&format!("ns/s{n}"), &[&format!("10.96.1.{n}")], &["http:80"]);
        service.load_balancer_ips = vec![ip(&format!("198.51.100.{n}"))];
        objects.push(Change::Service(service));
    }
    let before = announced(&objects);
    assert_eq!(before.iter().map(BTreeSet::len).sum::<usize>(), 60);
    assert_eq!(before.iter().flatten().collect::<BTreeSet<_>>().len(), 60);
    assert!(before.iter().all(|own| own.len() > 8), "{before:?}");
    // A node that is not ready, or is to be left out: only its addresses move.
    for excluded in [true, false] {
        let mut gone = nodes[1].clone();
        gone.ready = excluded;
        gone.exclude_from_load_balancers = excluded;
        let after = announced(&[objects.clone(), vec![Change::NodeRoute(gone)]].concat());
        assert!(after[1].is_empty());
        assert!(after[0].is_superset(&before[0]) && after[2].is_superset(&before[2]));
        assert_eq!(after.iter().flatten().count(), 60);
    }
}

#[test]
fn with_a_local_policy_only_nodes_with_endpoints_answer() {
    let mut objects: Vec<_> = ["n1", "n2", "n3"].iter().map(|name| Change::NodeRoute(node(name, &[], &[]))).collect();
    let mut public = public();
    public.external_local = true;
    objects.push(Change::Service(public));
    let vip = BTreeSet::from([ip("198.51.100.1")]);
    let none = BTreeSet::new();
    for (endpoints, expected) in [
        (&["10.0.0.3@n3", "10.0.0.1@n1/notready"] as &[&str], [&none, &none, &vip]),
        (&["10.0.0.3@n3/terminating", "10.0.0.2@n2"], [&none, &vip, &none]),
        (&["10.0.0.3@n3/terminating", "10.0.0.2@n2/notready"], [&none, &none, &vip]),
        (&[], [&none, &none, &none]),
    ] {
        let slice = Change::EndpointSlice(slice("ns/web-1", "web", &["http:80"], endpoints));
        let found = announced(&[objects.clone(), vec![slice]].concat());
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{endpoints:?}");
    }
}

#[test]
fn health_checks_count_ready_endpoints_here() {
    let mut public = public();
    public.external_local = true;
    public.health_check_node_port = Some(32000);
    let mut index = synced([
        Change::Service(public.clone()),
        // A pod has an address of each family and is one endpoint.
        Change::EndpointSlice(slice(
            "ns/web-1",
            "web",
            &["http:80"],
            &["10.0.0.1", "10.0.0.2@n2", "10.0.0.3/terminating"],
        )),
    ]);
    let mut six = slice("ns/web-2", "web", &["http:80"], &["fd01::1"]);
    six.endpoints[0].pod = "pod-10.0.0.1".into();
    change(&mut index, Change::EndpointSlice(six));
    let shown = |index: &Index| -> Vec<_> {
        let checks = index.health_checks();
        checks
            .into_iter()
            .map(|check| (check.port, format!("{}/{}", check.namespace, check.name), check.local_endpoints))
            .collect()
    };
    assert_eq!(shown(&index), [(32000, "ns/web".to_owned(), 1)]);
    change(&mut index, Change::EndpointSlice(slice("ns/web-1", "web", &["http:80"], &["10.0.0.2@n2"])));
    change(&mut index, Change::Deleted(Kind::EndpointSlice, name("ns/web-2")));
    assert_eq!(shown(&index), [(32000, "ns/web".to_owned(), 0)]);
    public.external_local = false;
    change(&mut index, Change::Service(public));
    assert_eq!(shown(&index), []);
}

#[test]
fn a_backend_is_gone_when_nobody_lists_it() {
    let mut index = synced([
        Change::Service(service("ns/a", &["10.96.0.1"], &["http:80"])),
        Change::Service(service("ns/b", &["10.96.0.2"], &["http:80"])),
        Change::EndpointSlice(slice("ns/a-1", "a", &["http:80"], &["10.0.0.1", "10.0.0.2"])),
        Change::EndpointSlice(slice("ns/b-1", "b", &["http:80"], &["10.0.0.1"])),
    ]);
    settle(&mut index);
    assert_eq!(index.take_gone_backends(), []);
    let gone = |last| GoneBackend { addr: IpAddr::from([10, 0, 0, last]), port: 80, proto: 6 };
    // It is still the other Service's; and one that is not ready, or terminates, may answer those that it has.
    change(&mut index, Change::EndpointSlice(slice("ns/a-1", "a", &["http:80"], &["10.0.0.2/notready"])));
    settle(&mut index);
    change(&mut index, Change::EndpointSlice(slice("ns/a-1", "a", &["http:80"], &["10.0.0.2/gone"])));
    settle(&mut index);
    assert_eq!(index.take_gone_backends(), []);
    change(&mut index, Change::Deleted(Kind::EndpointSlice, name("ns/a-1")));
    settle(&mut index);
    assert_eq!(index.take_gone_backends(), [gone(2)]);
    change(&mut index, Change::Deleted(Kind::Service, name("ns/b")));
    // It went while no agent was there.
    let mut again = Index::new("n1");
    again.adopt(index.contents().clone());
    change(&mut again, Change::SnapshotBegin);
    change(&mut again, Change::Synced);
    settle(&mut again);
    assert_eq!(again.take_gone_backends(), [gone(1)]);
    settle(&mut index);
    assert_eq!(index.take_gone_backends(), [gone(1)]);
}

#[test]
fn host_ports_are_at_the_nodes_addresses_and_never_in_place_of_a_service() {
    let mut pod = local("ns/pod", "10.0.0.7", "");
    pod.host_ports = ["8080:80", "192.0.2.9:81:81", "127.0.0.1:82:82", "80:80"].map(host_port).into();
    let mut taken = service("ns/web", &["10.96.0.1"], &["http:80"]);
    taken.external_ips = vec![ip("192.0.2.1")];
    let mut index = synced([Change::NodeRoute(node("n1", &["192.0.2.1", "fd00::1"], &[])), Change::Service(taken)]);
    index.endpoint_added(pod);
    settle(&mut index);
    let host_port_flags = frontend_flags::EXTERNAL_ADDR | frontend_flags::HOST_PORT;
    let at = |index: &Index, addr, port| {
        let scopes = [scope::INTERNAL, scope::EXTERNAL];
        let found = scopes.map(|scope| frontend(index, addr, port, scope).map(|found| (found.flags, found.count)));
        assert_eq!(found[0], found[1]);
        found[0]
    };
    assert_eq!(at(&index, "192.0.2.1", 8080), Some((host_port_flags, 1)));
    assert_eq!(at(&index, "192.0.2.9", 81), Some((host_port_flags, 1)));
    assert_eq!(at(&index, "127.0.0.1", 82), None);
    // The Service has no endpoints, and keeps its address.
    assert_eq!(at(&index, "192.0.2.1", 80), Some((frontend_flags::EXTERNAL_ADDR, 0)));
    assert!(index.contents().backends.values().all(|backend| backend.flags == backend_flags::LOCAL));
    // The node moves.
    change(&mut index, Change::NodeRoute(node("n1", &["192.0.2.3"], &[])));
    change(&mut index, Change::Deleted(Kind::Service, name("ns/web")));
    settle(&mut index);
    assert_eq!(at(&index, "192.0.2.1", 8080), None);
    assert_eq!(at(&index, "192.0.2.3", 80), Some((host_port_flags, 1)));
    assert_eq!(
        index.names().services.values().map(|name| name.port.as_str()).collect::<Vec<_>>(),
        ["80/TCP", "81/TCP"]
    );
    index.endpoint_removed(7);
    change(&mut index, Change::Deleted(Kind::NodeRoute, ObjectName::new("", "n1")));
    settle(&mut index);
    assert_eq!(index.contents().len(), index.contents().node_addrs.len());
}
