//! Puts the parts of the agent together.

use std::fs::{self, File};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use k8s_openapi::api::core::v1::{ContainerPort, Pod};
use nix::fcntl::{Flock, FlockArg};
use skep_abi::Addr;
use skep_agent_core::dataplane::{Index, LocalEndpoint};
use skep_agent_core::ipam::{HostPort, NamedPort};
use skep_dataplane::{Events, Options};
use tokio::sync::mpsc;
use tracing::{error, info, warn};

use crate::cni::{self, Adopted, Endpoints, Journal, NodeNetwork, PodFacts, PodLookup};
use crate::config::{Config, Routing};
use crate::dataplane::{self, Dataplane, Occupancy, Start};
use crate::dns::{self, Dns, Feed, SettingsWatch, SharedZone};
use crate::local_api::LocalApi;
use crate::metrics::{DataplaneSources, Metrics, ProgrammingLatency};
use crate::netlink::Netlink;
use crate::node_status::NodeReporter;
use crate::pods::{Pods, PodsConfig};
use crate::tls::Pki;
use crate::uplink::Announcer;
use crate::upstream::{self, Session, StreamState, Upstream};
use crate::{local_api, memory, node_api, node_server, stale_sockets, uplink};

/// Reports and events that may wait to be sent.
const QUEUE: usize = 256;
/// Sandboxes that are made at the same time.
const SANDBOX_PARALLELISM: usize = 4;

/// A running agent. Its tasks run until the process ends; there is nothing to be undone then: pods, maps, links and routes
/// stay as they are for the agent that comes next.
pub struct Agent {
    dataplane: Dataplane,
    _lock: Flock<File>,
}

impl Agent {
    /// Takes over what an earlier agent left, and starts.
    ///
    /// # Errors
    /// What the agent cannot do without is not there.
    pub async fn start(config: Config) -> anyhow::Result<Self> {
        config.check()?;
        let config = Arc::new(config);
        for dir in [&config.state_dir, &config.run_dir] {
            fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
        }
        let lock = lock(&config.run_dir)?;
        let pki = Pki::read(&config.pki_dir)?;
        let upstream = Upstream::new(&config.node_name, &config.control, &pki)?;

        let netlink = Netlink::open().context("netlink socket")?;
        let mut network = NodeNetwork::prepare(netlink.clone(), &config).await?;
        let overlay = match config.routing {
            Routing::Direct => {
                uplink::remove_overlay(&netlink).await?;
                None
            }
            Routing::Vxlan => {
                let (index, mtu) = uplink::prepare_overlay(&netlink, network.mtu, &config.node_address).await?;
                network.mtu = mtu;
                Some(index)
            }
        };
        let in_use = !netlink.links_with_prefix(cni::HOST_PREFIX).await?.is_empty();
        let journal = Journal::open(&config.state_dir, in_use)?;
        let (endpoints, adopted) = Endpoints::adopt(journal.clone(), network.clone()).await?;
        let uplink = uplink::find(&netlink, &config).await?;
        let zone = SharedZone::default();
        let feed = (!config.dns.no_cluster_dns).then(|| Feed::new(zone.clone()));
        let programming = ProgrammingLatency::default();
        let (dataplane, programs, flow_events) =
            start_dataplane(&config, uplink, overlay, endpoints, feed, programming.clone()).await?;
        // Relocation against the kernel's type information took tens of megabytes for a moment.
        memory::give_back();

        let (reports, reports_to_send) = mpsc::channel(QUEUE);
        let (events, events_to_send) = mpsc::channel(QUEUE);
        let dns_settings = dns::SettingsKeeper::open(&config.dns, &config.state_dir);
        let dns = Dns::start(&config.dns, zone, netlink.clone(), dns_settings.watch()).context("cluster DNS")?;
        let pods = Pods::start(pods_config(&config, dns_settings.watch()), reports, events);
        let endpoints = start_cni(&config, adopted, &dataplane, Arc::clone(&programs), &pods).await?;

        let flows = dataplane::follow_flows(flow_events, dataplane.clone()).context("flow records")?;
        let source = network.clone();
        tokio::spawn(dataplane::keep_routes(dataplane.clone(), netlink.clone(), overlay, move |ipv4| {
            source.source(ipv4)
        }));
        tokio::spawn(dataplane::keep_health_checks(dataplane.clone()));
        let swept = dataplane::collect(&programs).context("connections and translations that are over")?;
        let xdp = uplink::keep_xdp(Arc::clone(&programs)).context("XDP on the uplink")?;
        let occupancy = Occupancy::start(&programs, dataplane.clone(), swept.clone()).context("entries of the maps")?;
        let nearly_full = occupancy.watch_pressure();
        let sources = DataplaneSources { dataplane: dataplane.clone(), programs: Arc::clone(&programs), occupancy };
        let metrics = Metrics::new(&programming, sources, dns.clone());
        if let Some(uplink) = uplink
            && let Some(link) = netlink.link_by_index(uplink).await?
        {
            let announcer = Announcer::open(uplink, link.mac).context("announcements on the uplink")?;
            tokio::spawn(dataplane::keep_announced(dataplane.clone(), announcer));
        }
        tokio::spawn(dataplane::end_stale_sockets(dataplane.clone(), programs, journal.clone()));

        let (of_pods, of_dataplane) = (pods.clone(), dataplane.clone());
        let reporter =
            NodeReporter::new(Arc::clone(&config), of_pods, of_dataplane, journal.clone(), nearly_full.clone());
        let registering = reporter.clone();
        let session = Session::start(upstream.clone(), move || {
            let reporter = registering.clone();
            async move { reporter.node().await }
        });
        tokio::spawn(follow_ranges(Arc::clone(&config), session.clone(), journal.clone()));
        tokio::spawn(upstream::renew_lease(upstream.clone(), session.clone()));
        tokio::spawn(reporter.report(upstream.clone(), session.clone()));
        tokio::spawn(upstream::report_pods(upstream.clone(), reports_to_send, pods.clone()));
        tokio::spawn(upstream::report_events(upstream.clone(), events_to_send));
        let pod_stream = Arc::new(StreamState::default());
        let dns_settled = dns::settled(dns_settings.watch());
        tokio::spawn(dns_settings.follow(session.watch()));
        let watch_pods = upstream::watch_pods(upstream.clone(), session, pods.clone(), Arc::clone(&pod_stream));
        tokio::spawn(async move {
            // Pods are told of their name server when they start.
            dns_settled.await;
            watch_pods.await;
        });
        let dataplane_stream = Arc::new(StreamState::default());
        tokio::spawn(upstream::watch_dataplane(upstream, dataplane.clone(), Arc::clone(&dataplane_stream)));

        let api = LocalApi {
            node: config.node_name.clone(),
            pods: pod_stream,
            dataplane_stream,
            dataplane: dataplane.clone(),
            journal,
            flows,
            swept,
            xdp,
            dns,
            nearly_full,
            metrics: metrics.clone(),
        };
        local_api::serve(&config.local_api_socket(), api).context("local API socket")?;
        let addr = config.node_api();
        node_server::serve(addr, pki.server()?, node_api::router(pods.clone()).merge(metrics.router()))
            .await
            .with_context(|| format!("--node-api-listen {addr}"))?;
        tokio::spawn(cni::keep_clean(endpoints, pods, config.state_dir.clone()));
        info!(node = config.node_name, version = env!("CARGO_PKG_VERSION"), "agent runs");
        Ok(Self { dataplane, _lock: lock })
    }

    /// Waits for a failure that only a new start can mend.
    pub async fn failed(&self) -> anyhow::Error {
        self.dataplane.ended().await;
        anyhow!("the dataplane has ended")
    }
}

/// Two agents of one node would undo each other's work.
fn lock(run_dir: &Path) -> anyhow::Result<Flock<File>> {
    let path = run_dir.join("agent.lock");
    let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock)
        .map_err(|(_, errno)| anyhow!("another agent uses {} ({errno})", run_dir.display()))
}

/// Loads the programs, and begins from what the maps hold.
async fn start_dataplane(
    config: &Config,
    uplink: Option<u32>,
    overlay: Option<u32>,
    endpoints: Vec<(LocalEndpoint, String)>,
    dns: Option<Feed>,
    programming: ProgrammingLatency,
) -> anyhow::Result<(Dataplane, Arc<skep_dataplane::Dataplane>, Events)> {
    let addr = |ipv4| config.address(ipv4).map_or(Addr::NONE, Addr::from);
    let options = Options {
        bpf_dir: config.bpf_dir.clone(),
        cgroup: (!config.no_socket_lb).then(|| config.cgroup.clone()),
        config: skep_abi::Config {
            version: skep_abi::VERSION,
            flags: config.dataplane_flags(),
            node_addr4: addr(true),
            node_addr6: addr(false),
            host_netns: host_netns(),
            node_port_first: config.node_port_range.first,
            node_port_last: config.node_port_range.last,
            snat_port_first: config.snat_port_range.first,
            snat_port_last: config.snat_port_range.last,
            ..skep_abi::Config::default()
        },
        uplink,
        overlay,
        xdp: config.xdp_mode(),
        capacities: config.capacity.capacities().maps().into(),
    };
    let node = config.node_name.clone();
    let no_masquerade = config.no_masquerade_cidr.clone();
    let run_dir = config.run_dir.clone();
    let runtime = tokio::runtime::Handle::current();
    // The verifier takes its time.
    tokio::task::spawn_blocking(move || {
        let _runtime = runtime.enter();
        let started = std::time::Instant::now();
        let loaded = skep_dataplane::Dataplane::open(&options).context("load the dataplane")?;
        let events = loaded.events().context("flow records")?;
        let mut index = Index::new(&node);
        index.set_no_masquerade(no_masquerade);
        index.adopt(dataplane::read_contents(loaded.maps()).context("read the maps")?);
        let count = endpoints.len();
        let present: Vec<u32> = endpoints.iter().map(|(endpoint, _)| endpoint.ifindex).collect();
        for (endpoint, ifname) in endpoints {
            // Programs of an earlier version are exchanged for this one's.
            loaded.attach_pod(&ifname, endpoint.ifindex).with_context(|| format!("attach to {ifname}"))?;
            index.endpoint_added(endpoint);
        }
        for ifindex in loaded.attached_pods().context("pinned links")? {
            if !present.contains(&ifindex) {
                loaded.detach_pod(ifindex).with_context(|| format!("pinned links of interface {ifindex}"))?;
            }
        }
        loaded.settle().context("maps of another size")?;
        info!(took = ?started.elapsed(), pods = count, "dataplane is loaded");
        let loaded = Arc::new(loaded);
        let start = Start { dataplane: Arc::clone(&loaded), index, endpoints: count, run_dir, dns, programming };
        let dataplane = Dataplane::start(start)?;
        Ok((dataplane, loaded, events))
    })
    .await
    .context("load the dataplane")?
}

/// Cookie of this network namespace, by which programs know the host's sockets; 0 when the kernel has none (before 5.14).
fn host_netns() -> u64 {
    let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0));
    match socket.and_then(|socket| stale_sockets::netns_cookie(&socket)) {
        Ok(cookie) => cookie,
        Err(problem) => {
            warn!(%problem, "node ports cannot be told apart at loopback addresses: no cookie of the network namespace");
            0
        }
    }
}

fn pods_config(config: &Config, cluster_dns: SettingsWatch) -> PodsConfig {
    PodsConfig {
        node_name: config.node_name.clone(),
        node_addresses: config.node_address.clone(),
        cri_socket: config.cri_socket.clone(),
        state_dir: config.state_dir.clone(),
        pod_log_dir: config.pod_log_dir.clone(),
        cgroup_parent: config.cgroup_parent.clone(),
        cluster_dns: Some(cluster_dns),
        sandbox_parallelism: SANDBOX_PARALLELISM,
    }
}

/// Listens for the runtime's plugin, and hears what it could not say before.
async fn start_cni(
    config: &Config,
    adopted: Adopted,
    dataplane: &Dataplane,
    programs: Arc<skep_dataplane::Dataplane>,
    pods: &Pods,
) -> anyhow::Result<Endpoints> {
    let lookup: PodLookup = {
        let pods = pods.clone();
        Arc::new(move |namespace, name, uid| pod_facts(&*pods.pod(namespace, name)?, uid))
    };
    let endpoints = adopted.endpoints(dataplane.clone(), programs, lookup);
    cni::serve(&config.cni_socket(), endpoints.clone()).context("CNI socket")?;
    // After the socket is there: no DEL can come between.
    cni::collect_missed_deletes(&endpoints, &config.state_dir).await.context("notes of removed sandboxes")?;
    cni::install_plugin(config)?;
    Ok(endpoints)
}

/// What concerns a pod's network; `None` when it is another pod of the same name.
fn pod_facts(pod: &Pod, uid: &str) -> Option<PodFacts> {
    if pod.metadata.uid.as_deref() != Some(uid) {
        return None;
    }
    let spec = pod.spec.as_ref();
    // Restartable init containers serve for the pod's life, as the others do.
    let containers = spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
    let ports: Vec<&ContainerPort> = containers.flat_map(|container| container.ports.iter().flatten()).collect();
    let protocol = |port: &ContainerPort| port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
    let number = |port: i32| u16::try_from(port).ok().filter(|port| *port != 0);
    let named_ports = ports.iter().filter_map(|port| {
        Some(NamedPort {
            name: port.name.clone()?,
            protocol: protocol(port),
            port: u16::try_from(port.container_port).ok()?,
        })
    });
    let host_ports = ports.iter().filter_map(|port| {
        let host_ip = port.host_ip.as_deref().filter(|ip| !ip.is_empty());
        let parsed = host_ip.map(str::parse::<IpAddr>).transpose();
        // The API checks it.
        let host_ip = parsed.inspect_err(|problem| warn!(?host_ip, %problem, "a host port is left out")).ok()?;
        Some(HostPort {
            host_ip: host_ip.map(|ip| ip.to_canonical()),
            host_port: number(port.host_port?)?,
            container_port: number(port.container_port)?,
            protocol: protocol(port),
        })
    });
    Some(PodFacts {
        labels: pod.metadata.labels.clone().unwrap_or_default(),
        named_ports: named_ports.collect(),
        host_ports: host_ports.collect(),
    })
}

/// Takes the ranges of each registration, and then tells the runtime that there is a network.
async fn follow_ranges(config: Arc<Config>, session: Session, journal: Journal) {
    if journal.read(skep_agent_core::ipam::Ipam::has_ranges).await {
        // An earlier registration's do until the control service answers.
        install(&config).await;
    }
    let mut registrations = session.watch();
    loop {
        let registration = registrations.borrow_and_update().clone();
        if let Some(registration) = registration {
            match journal.change(|ipam| ipam.set_ranges(&registration.pod_ranges)).await {
                Ok(()) => install(&config).await,
                Err(problem) => error!(%problem, "pod address ranges"),
            }
        }
        if registrations.changed().await.is_err() {
            return;
        }
    }
}

async fn install(config: &Arc<Config>) {
    let own = Arc::clone(config);
    match tokio::task::spawn_blocking(move || cni::install_configuration(&own)).await {
        Ok(Ok(())) => {}
        Ok(Err(problem)) => error!(%problem, "the runtime cannot be told of its network"),
        Err(problem) => error!(%problem, "the runtime cannot be told of its network"),
    }
}
