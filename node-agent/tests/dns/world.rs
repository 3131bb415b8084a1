//! A node with cluster DNS, in a network namespace of the test's own.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};
use skep_agent::dns::{ClusterDns, Dns, DnsArgs, Feed, Patience, Place, Settings, SharedZone};
use skep_agent::netlink::Netlink;
use skep_proto::dataplane::v1 as proto;
use skep_proto::dataplane::v1::watch_event::Event as Wire;
use tempfile::TempDir;
use tokio::sync::watch;

/// Where it is served.
pub const CLUSTER_DNS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(10, 96, 0, 10)), IpAddr::V6(Ipv6Addr::new(0xfd00, 0x96, 0, 0, 0, 0, 0, 0xa))];

/// How long anything that must happen may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// `lo` is the first interface of every namespace.
const LOOPBACK: u32 = 1;

pub struct World {
    pub dns: Dns,
    pub netlink: Netlink,
    pub settings: watch::Sender<Settings>,
    zone: SharedZone,
    dir: TempDir,
}

/// Runs `test` in a world of its own; says why not, where it cannot.
pub fn run(test: impl AsyncFnOnce(&mut World) + Send + 'static) {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: network namespaces need root");
        return;
    }
    // Threads that begin in the namespace stay in it, and it ends with them.
    let inside = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let mut world = World::start().await;
            test(&mut world).await;
        });
    });
    if let Err(panic) = inside.join() {
        std::panic::resume_unwind(panic);
    }
}

impl World {
    async fn start() -> Self {
        let netlink = Netlink::open().unwrap();
        netlink.set_up(LOOPBACK).await.unwrap();
        let dir = TempDir::new().unwrap();
        let dns = ClusterDns { servers: CLUSTER_DNS.to_vec(), domain: "cluster.local".to_owned() };
        let settings = watch::channel(Settings { dns: Some(dns), settled: true }).0;
        let zone = SharedZone::default();
        let dns = start_dns(&dir, &zone, &netlink, &settings);
        let world = Self { dns, netlink, settings, zone, dir };
        world.listens().await;
        world
    }

    async fn listens(&self) {
        let mut last = None;
        eventually("listening", async || {
            let status = self.dns.status();
            if status.problem.is_some() && status.problem != last {
                println!("problem: {:?}", status.problem);
                last = status.problem;
            }
            (status.listening.len() == CLUSTER_DNS.len()).then_some(())
        })
        .await;
    }

    /// Another agent after the first one.
    pub async fn restart(&mut self) {
        self.dns = start_dns(&self.dir, &self.zone, &self.netlink, &self.settings);
        self.listens().await;
    }

    /// Gives the zone events, as the driver does.
    pub fn feed(&self, events: Vec<Wire>) {
        let mut feed = Feed::new(self.zone.clone());
        for event in events {
            feed.take(&proto::WatchEvent { revision: 7, event: Some(event), ..Default::default() });
        }
        feed.publish();
    }

    /// Has the node's resolv.conf name these, and waits until they are asked.
    pub async fn use_servers(&self, servers: &[&str]) {
        self.write_resolv_conf(servers);
        eventually("other name servers", async || (!self.dns.status().upstream.is_empty()).then_some(())).await;
    }

    pub fn write_resolv_conf(&self, servers: &[&str]) {
        let text: String = servers.iter().map(|server| format!("nameserver {server}\n")).collect();
        std::fs::write(self.dir.path().join("resolv.conf"), text).unwrap();
    }
}

fn start_dns(dir: &TempDir, zone: &SharedZone, netlink: &Netlink, settings: &watch::Sender<Settings>) -> Dns {
    let place = Place {
        resolv_conf: dir.path().join("resolv.conf"),
        patience: Patience { attempt: Duration::from_millis(400), total: Duration::from_secs(2) },
        review: Duration::from_millis(50),
        ..Place::default()
    };
    Dns::start_at(place, &DnsArgs::default(), zone.clone(), netlink.clone(), settings.subscribe()).unwrap()
}

/// Waits until `check` gives something; panics with `what` when it does not.
pub async fn eventually<T>(what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = check().await {
            return value;
        }
        assert!(started.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A complete state of these objects.
pub fn synced(events: impl IntoIterator<Item = Wire>) -> Vec<Wire> {
    let begin = Wire::SnapshotBegin(proto::SnapshotBegin {});
    let shop = Wire::Namespace(proto::Namespace { name: "shop".to_owned(), ..Default::default() });
    let end = Wire::Synced(proto::Synced {});
    [begin, shop].into_iter().chain(events).chain([end]).collect()
}

/// A Service; headless without addresses.
pub fn service(name: &str, ips: &[&str]) -> Wire {
    Wire::Service(proto::Service {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        uid: format!("{name}-uid"),
        r#type: proto::ServiceType::ClusterIp.into(),
        cluster_ips: ips.iter().map(|&ip| ip.to_owned()).collect(),
        headless: ips.is_empty(),
        ..Default::default()
    })
}

pub fn external(name: &str, target: &str) -> Wire {
    Wire::Service(proto::Service {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        uid: format!("{name}-uid"),
        r#type: proto::ServiceType::ExternalName.into(),
        external_name: target.to_owned(),
        ..Default::default()
    })
}

pub fn slice(service: &str, name: &str, addresses: &[&str]) -> Wire {
    let endpoint =
        |addr: &&str| proto::Endpoint { addresses: vec![(*addr).to_owned()], ready: true, ..Default::default() };
    Wire::EndpointSlice(proto::EndpointSlice {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        service: service.to_owned(),
        endpoints: addresses.iter().map(endpoint).collect(),
        ports: Vec::new(),
    })
}
