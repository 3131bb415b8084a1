//! Prints how fast cluster DNS answers: `cargo run --release -p skep-agent --example dns` (root; a network namespace of its
//! own). Clients on the same machine ask at a fixed rate, and then as fast as they are answered.

use std::error::Error;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use domain::base::iana::Rtype;
use domain::base::{MessageBuilder, Name};
use nix::sched::{CloneFlags, unshare};
use skep_agent::dns::{ClusterDns, Dns, DnsArgs, Feed, Place, Settings, SharedZone};
use skep_agent::netlink::Netlink;
use skep_proto::dataplane::v1 as proto;
use skep_proto::dataplane::v1::watch_event::Event;
use tokio::sync::watch;

const SERVICES: u32 = 10_000;
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 96, 0, 10));
/// Clients that ask at the same time.
const CLIENTS: u32 = 8;
/// Questions a second of all clients.
const RATE: u32 = 10_000;
const DURATION: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(2);

fn main() -> Result<(), Box<dyn Error>> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let (dns, zone) = runtime.block_on(start())?;
    let mut out = std::io::stdout().lock();
    let before = memory();
    let started = Instant::now();
    fill(&zone);
    writeln!(
        out,
        "{SERVICES} Services and as many endpoints: {:?}, {} KiB more resident",
        started.elapsed(),
        memory() - before
    )?;
    let pause = Duration::from_secs(1) * CLIENTS / RATE;
    for (label, pause) in [(format!("{RATE} queries/s asked"), Some(pause)), ("as fast as answered".to_owned(), None)] {
        let mut times = load(pause)?;
        times.sort_unstable();
        let at = |thousandths: usize| times[(times.len() - 1) * thousandths / 1000];
        writeln!(
            out,
            "{label}, {CLIENTS} clients: {} queries/s answered, p50 {:?}, p99 {:?}, p99.9 {:?}, worst {:?}",
            times.len() as u64 * 1000 / u64::try_from(DURATION.as_millis())?,
            at(500),
            at(990),
            at(999),
            at(1000),
        )?;
    }
    writeln!(out, "{}", serde_json::to_string(&dns.status().counts)?)?;
    Ok(())
}

async fn start() -> Result<(Dns, SharedZone), Box<dyn Error>> {
    let netlink = Netlink::open()?;
    // `lo` is the first interface of every namespace.
    netlink.set_up(1).await?;
    let zone = SharedZone::default();
    let dns = ClusterDns { servers: vec![SERVER], domain: "cluster.local".to_owned() };
    let settings = watch::channel(Settings { dns: Some(dns), settled: true }).1;
    let dns = Dns::start_at(Place::default(), &DnsArgs::default(), zone.clone(), netlink, settings)?;
    while dns.status().listening.is_empty() {
        if let Some(problem) = dns.status().problem {
            return Err(problem.into());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok((dns, zone))
}

fn fill(zone: &SharedZone) {
    let mut feed = Feed::new(zone.clone());
    let mut send = |event| {
        feed.take(&proto::WatchEvent { revision: 1, event: Some(event), ..Default::default() });
        feed.publish();
    };
    send(Event::SnapshotBegin(proto::SnapshotBegin {}));
    send(Event::Namespace(proto::Namespace { name: "shop".to_owned(), ..Default::default() }));
    for n in 0..SERVICES {
        let ip = |first: u32| Ipv4Addr::from((first << 24) + 0x10_0000 + n).to_string();
        send(Event::Service(proto::Service {
            namespace: "shop".to_owned(),
            name: format!("web-{n}"),
            r#type: proto::ServiceType::ClusterIp.into(),
            cluster_ips: if n % 10 == 0 { Vec::new() } else { vec![ip(10)] },
            headless: n % 10 == 0,
            ..Default::default()
        }));
        send(Event::EndpointSlice(proto::EndpointSlice {
            namespace: "shop".to_owned(),
            name: format!("web-{n}-a"),
            service: format!("web-{n}"),
            endpoints: vec![proto::Endpoint { addresses: vec![ip(11)], ready: true, ..Default::default() }],
            ports: Vec::new(),
        }));
    }
    send(Event::Synced(proto::Synced {}));
}

/// How long each answer took, from the moment at which the question was due: one that waits behind a late answer counts.
fn load(pause: Option<Duration>) -> Result<Vec<Duration>, Box<dyn Error>> {
    let clients: Vec<_> = (0..CLIENTS).map(|client| std::thread::spawn(move || ask(client, pause))).collect();
    let mut times = Vec::new();
    for client in clients {
        times.extend(client.join().map_err(|_| "a client failed")??);
    }
    Ok(times)
}

fn ask(client: u32, pause: Option<Duration>) -> std::io::Result<Vec<Duration>> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(SocketAddr::new(SERVER, 53))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut buffer = [0; 1500];
    let mut times = Vec::new();
    // Clients do not all ask in one instant.
    let started = Instant::now() + pause.unwrap_or_default() * client / CLIENTS;
    for n in 0_u32.. {
        let due = pause.map_or_else(Instant::now, |pause| started + pause * n);
        if started.elapsed() >= DURATION {
            break;
        }
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        socket.send(&question(client * 7919 + n))?;
        socket.recv(&mut buffer)?;
        times.push(due.elapsed());
    }
    Ok(times)
}

/// As pods ask: mostly Services, both families, and names outside with each suffix of the search list.
fn question(n: u32) -> Vec<u8> {
    let service = n.wrapping_mul(2_654_435_761) % SERVICES;
    let (name, rtype) = match n % 10 {
        0 | 1 => ("www.example.com.shop.svc.cluster.local".to_owned(), Rtype::A),
        2 => ("www.example.com.svc.cluster.local".to_owned(), Rtype::AAAA),
        3..7 => (format!("web-{service}.shop.svc.cluster.local"), Rtype::AAAA),
        _ => (format!("web-{service}.shop.svc.cluster.local"), Rtype::A),
    };
    let mut builder = MessageBuilder::new_vec().question();
    builder.header_mut().set_rd(true);
    // A text of this form is a name, and a vector takes it.
    if let Ok(name) = Name::<Vec<u8>>::vec_from_str(&name) {
        let _pushed = builder.push((name, rtype));
    }
    builder.finish()
}

/// Resident memory of this process, KiB.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok()).unwrap_or(0)
}
