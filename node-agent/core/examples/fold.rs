//! Prints what the fold costs: `cargo run --release -p skep-agent-core --example fold`.

use std::error::Error;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use skep_agent_core::dataplane::{
    Change, Endpoint, EndpointPort, EndpointSlice, Event, Index, Namespace, NetworkPolicy, NodeRoute, ObjectName,
    PodPeer, PolicyPeer, PolicyRule, Protocol, Requirement, Selector, Service, ServicePort, Workload,
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    for (services, backends) in [(1, 10), (100, 10), (10_000, 10), (1_000, 250), (100_000, 1), (50_000, 5)] {
        let resident_before = resident_bytes()?;
        let mut index = Index::new("n1");
        // As they come from the stream, so that their making is not counted.
        let mut objects: Vec<Change> = Vec::new();
        for n in 0..services {
            objects.push(Change::Service(service(n)));
            objects.push(Change::EndpointSlice(slice(n, backends, 0)));
        }
        apply(&mut index, Change::SnapshotBegin);
        for n in 0..100 {
            apply(&mut index, Change::NodeRoute(node(n)));
        }
        let start = Instant::now();
        objects.into_iter().for_each(|object| apply(&mut index, object));
        apply(&mut index, Change::Synced);
        let folded = start.elapsed();
        let start = Instant::now();
        let writes = settle(&mut index);
        let compiled = start.elapsed();
        let resident = resident_bytes()?.saturating_sub(resident_before);
        let (one, one_writes) = median(|round| {
            apply(&mut index, Change::EndpointSlice(slice(services / 2, backends, round + 1)));
            settle(&mut index)
        });
        let start = Instant::now();
        let source = index.name_source();
        let sourced = start.elapsed();
        let start = Instant::now();
        let names = source.names();
        let named = start.elapsed();
        let again = restart(&index, services, backends);
        writeln!(
            out,
            "{services} Services x {backends} backends: fold {folded:?}, compile {compiled:?} ({writes} writes), {} MiB resident, \
             one slice {one:?} ({one_writes} writes), restart without a change {again:?}, names {sourced:?} on the thread and \
             {named:?} elsewhere ({} backends)",
            resident >> 20,
            names.backends.len()
        )?;
    }
    for pods in [100, 10_000] {
        let (one, writes, policy, policy_writes) = policies(pods);
        writeln!(
            out,
            "{pods} pods of as many identities, 100 policies on 100 local pods: one pod comes or goes {one:?} ({writes} \
             writes), one policy changes {policy:?} ({policy_writes} writes)"
        )?;
    }
    Ok(())
}

fn apply(index: &mut Index, change: Change) {
    index.apply(Event { revision: 1, change });
}

fn settle(index: &mut Index) -> usize {
    let mut writes = index.drain().len();
    while index.has_retired() {
        writes += index.drain().len();
    }
    writes
}

fn median(mut round: impl FnMut(u32) -> usize) -> (Duration, usize) {
    let mut times: Vec<_> = (0..101)
        .map(|n| {
            let start = Instant::now();
            let writes = round(n);
            (start.elapsed(), writes)
        })
        .collect();
    times.sort_unstable();
    times.get(50).copied().unwrap_or_default()
}

fn restart(index: &Index, services: u32, backends: u32) -> Duration {
    let contents = index.contents().clone();
    let start = Instant::now();
    let mut again = Index::new("n1");
    again.adopt(contents);
    for n in 0..100 {
        apply(&mut again, Change::NodeRoute(node(n)));
    }
    for n in 0..services {
        apply(&mut again, Change::Service(service(n)));
        apply(&mut again, Change::EndpointSlice(slice(n, backends, if n == services / 2 { 101 } else { 0 })));
    }
    apply(&mut again, Change::Synced);
    let writes = settle(&mut again);
    assert_eq!(writes, 0, "nothing changed");
    start.elapsed()
}

fn policies(pods: u32) -> (Duration, usize, Duration, usize) {
    let mut index = Index::new("n1");
    apply(&mut index, Change::Namespace(Namespace { name: "ns".to_owned(), labels: Default::default() }));
    for n in 0..pods {
        apply(&mut index, Change::Workload(workload(n)));
    }
    for n in 0..100 {
        apply(&mut index, Change::NetworkPolicy(policy(n, n + 1)));
        index.endpoint_added(skep_agent_core::dataplane::LocalEndpoint {
            id: n + 1,
            ifindex: n + 1,
            namespace: "ns".to_owned(),
            name: format!("pod-{n}"),
            uid: n.to_string(),
            addr4: Some(Ipv4Addr::from_bits(0x0a00_0000 + n)),
            addr6: None,
            mac: [0; 6],
            labels: Default::default(),
            named_ports: Vec::new(),
            host_ports: Vec::new(),
        });
    }
    apply(&mut index, Change::Synced);
    settle(&mut index);
    let (pod, pod_writes) = median(|round| {
        if round % 2 == 0 {
            apply(&mut index, Change::Workload(workload(pods)));
        } else {
            let name = ObjectName::new("ns", &format!("pod-{pods}"));
            apply(&mut index, Change::Deleted(skep_agent_core::dataplane::Kind::Workload, name));
        }
        settle(&mut index)
    });
    let (policy, policy_writes) = median(|round| {
        apply(&mut index, Change::NetworkPolicy(policy(50, 1 + round % 2)));
        settle(&mut index)
    });
    (pod, pod_writes, policy, policy_writes)
}

/// Bytes of this process that are in memory.
fn resident_bytes() -> Result<u64, Box<dyn Error>> {
    let pages: u64 = std::fs::read_to_string("/proc/self/statm")?.split(' ').nth(1).unwrap_or("0").parse()?;
    Ok(pages * 4096)
}

fn node(n: u32) -> NodeRoute {
    NodeRoute {
        name: format!("node-{n}"),
        addresses: vec![IpAddr::V4(Ipv4Addr::from_bits(0xc000_0200 + n))],
        pod_cidrs: Vec::new(),
        zone: String::new(),
        ready: true,
        exclude_from_load_balancers: false,
    }
}

fn service(n: u32) -> Service {
    Service {
        cluster_ips: vec![IpAddr::V4(Ipv4Addr::from_bits(0x0a60_0000 + n))],
        ports: vec![ServicePort { name: "http".to_owned(), protocol: Protocol::Tcp, port: 80, node_port: None }],
        ..Service::new(ObjectName::new("ns", &format!("service-{n}")))
    }
}

/// The backends of a Service; the last differs from version to version.
fn slice(n: u32, backends: u32, version: u32) -> EndpointSlice {
    let address = |i: u32| {
        let last = if i + 1 == backends { version } else { 0 };
        IpAddr::V4(Ipv4Addr::from_bits(0x0b00_0000 + n * backends + i + (last << 20)))
    };
    let endpoint = |i| Endpoint {
        address: address(i),
        ready: true,
        serving: true,
        terminating: false,
        node: format!("node-{}", i % 100).into(),
        zone: "zone".into(),
        pod: format!("pod-{n}-{i}").into(),
        hostname: "".into(),
        for_zones: [].into(),
        for_nodes: [].into(),
    };
    EndpointSlice {
        name: ObjectName::new("ns", &format!("service-{n}-abcde")),
        service: format!("service-{n}"),
        endpoints: (0..backends).map(endpoint).collect(),
        ports: vec![EndpointPort { name: "http".to_owned(), protocol: Protocol::Tcp, port: 8080 }],
    }
}

fn workload(n: u32) -> Workload {
    Workload {
        name: ObjectName::new("ns", &format!("pod-{n}")),
        uid: n.to_string(),
        node: "n1".to_owned(),
        addresses: vec![IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + n))],
        labels: [("app".to_owned(), format!("app-{n}"))].into(),
        named_ports: Vec::new(),
    }
}

/// Selects one pod; allows `port` from a tenth of all applications.
fn policy(n: u32, port: u32) -> NetworkPolicy {
    let app = |values: Vec<String>| Selector { requirements: vec![Requirement::In("app".to_owned(), values)] };
    let peers = app((0..10).map(|i| format!("app-{}", n * 10 + i)).collect());
    let peer = PolicyPeer::Pods(PodPeer { namespace_selector: None, pod_selector: peers });
    let port = u16::try_from(port).unwrap_or(1);
    let port = skep_agent_core::dataplane::PolicyPort {
        protocol: Protocol::Tcp,
        ports: skep_agent_core::dataplane::PolicyPorts::Range(port, port),
    };
    NetworkPolicy {
        name: ObjectName::new("ns", &format!("policy-{n}")),
        pod_selector: app(vec![format!("app-{n}")]),
        ingress: Some(vec![PolicyRule { peers: vec![peer], ports: vec![port] }]),
        egress: None,
    }
}
