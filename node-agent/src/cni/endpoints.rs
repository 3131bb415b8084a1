use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};

use jiff::Timestamp;
use skep_agent_core::dataplane::{self as core, EndpointPort, LocalEndpoint, Protocol};
use skep_agent_core::ipam::{Allocation, HostPort, IpamError, NamedPort, Owner, Progress};
use skep_cni::{Added, Command, FAILED, Failure, Request, Response, TRY_AGAIN};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tracing::{error, info, warn};

use super::journal::{Journal, JournalError};
use super::plumbing::{NodeNetwork, Pair, PlumbingError, host_ifname, macs};
use crate::dataplane::{Dataplane, DataplaneError};
use crate::netlink::NetlinkError;

/// A request of the runtime's could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum CniError {
    /// No addresses, or the journal cannot be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// No interfaces, addresses or routes.
    #[error(transparent)]
    Plumbing(#[from] PlumbingError),
    /// No map entries.
    #[error(transparent)]
    Dataplane(#[from] DataplaneError),
    /// The programs could not be put on its interface.
    #[error("attach programs to {ifname}: {source}")]
    Attach {
        /// The interface.
        ifname: String,
        /// Why.
        source: Box<skep_dataplane::Error>,
    },
    /// The work was cut short.
    #[error("cut short: {0}")]
    Task(tokio::task::JoinError),
    /// CHECK: the sandbox has no network.
    #[error("sandbox {0} has no network")]
    Unknown(String),
    /// CHECK: the interface is gone.
    #[error("interface {0} is gone")]
    Gone(String),
}

impl CniError {
    fn failure(&self) -> Failure {
        let code = match self {
            Self::Journal(JournalError::Ipam(IpamError::NoRange | IpamError::Exhausted(_)))
            | Self::Dataplane(DataplaneError::Ended) => TRY_AGAIN,
            _ => FAILED,
        };
        Failure { code, message: self.to_string() }
    }
}

/// What is known of a pod when its sandbox is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFacts {
    /// `metadata.labels`.
    pub labels: std::collections::BTreeMap<String, String>,
    /// Ports of its containers that have names.
    pub named_ports: Vec<NamedPort>,
    /// Ports of the node that lead to it.
    pub host_ports: Vec<HostPort>,
}

/// Tells what is known of a pod by Namespace, name and UID.
pub type PodLookup = Arc<dyn Fn(&str, &str, &str) -> Option<PodFacts> + Send + Sync>;

/// The networks of this node's sandboxes.
#[derive(Clone)]
pub struct Endpoints {
    journal: Journal,
    network: NodeNetwork,
    dataplane: Dataplane,
    programs: Arc<skep_dataplane::Dataplane>,
    lookup: PodLookup,
    /// One request at a time for each sandbox.
    locks: Arc<StdMutex<HashMap<String, Arc<Mutex<()>>>>>,
    /// Index of the node's side of each sandbox's interface pair, for when the interface is gone before the DEL comes.
    indexes: Arc<StdMutex<HashMap<String, u32>>>,
}

impl Endpoints {
    /// Finds the endpoints that an earlier agent left, and undoes those that it did not finish. Gives what the dataplane
    /// must know before it starts, and what becomes an [`Endpoints`] once it has.
    ///
    /// # Errors
    /// [`CniError`].
    pub async fn adopt(
        journal: Journal,
        network: NodeNetwork,
    ) -> Result<(Vec<(LocalEndpoint, String)>, Adopted), CniError> {
        let allocations: Vec<Allocation> = journal.read(|ipam| ipam.allocations().cloned().collect()).await;
        let mut found = Vec::new();
        let mut indexes = HashMap::new();
        let mut lost = Vec::new();
        let interfaces = network.netlink.links_with_prefix(super::HOST_PREFIX).await.map_err(PlumbingError::from)?;
        let mut known = Vec::new();
        for allocation in allocations {
            let ifname = host_ifname(allocation.endpoint);
            let index = interfaces.iter().find(|(name, _)| *name == ifname).map(|&(_, index)| index);
            match index {
                Some(index) if allocation.progress == Progress::Ready => {
                    indexes.insert(allocation.owner.container.clone(), index);
                    known.push(index);
                    found.push((local_endpoint(&allocation, index), ifname));
                }
                _ => lost.push(allocation.owner.container),
            }
        }
        // Pairs of no endpoint: half-made ones, and those of a journal that was removed.
        for (name, index) in interfaces.iter().filter(|(_, index)| !known.contains(index)) {
            info!(interface = name, "removing what an earlier agent did not finish");
            network.netlink.delete_link(*index).await.map_err(PlumbingError::from)?;
        }
        if !lost.is_empty() {
            info!(sandboxes = lost.len(), "releasing addresses of sandboxes without an interface");
            journal
                .change(|ipam| {
                    for container in &lost {
                        ipam.release(container);
                    }
                    Ok(())
                })
                .await?;
        }
        Ok((found, Adopted { journal, network, indexes }))
    }

    /// Carries out a request. Never fails: what went wrong is in the answer.
    pub async fn handle(&self, request: Request) -> Response {
        let _turn = self.turn(&request.container).await;
        let started = std::time::Instant::now();
        let result = match request.command {
            Command::Add => self.add(&request).await.map(Response::Added),
            Command::Del => self.delete(&request.container).await.map(|()| Response::Done),
            Command::Check => self.check(&request.container).await.map(|()| Response::Done),
        };
        let Request { command, container, namespace, name, .. } = request;
        let took = started.elapsed();
        match result {
            Ok(response) => {
                info!(?command, container, pod = format!("{namespace}/{name}"), ?took, "CNI");
                response
            }
            Err(problem) => {
                error!(?command, container, pod = format!("{namespace}/{name}"), %problem, "CNI");
                Response::Failed(problem.failure())
            }
        }
    }

    async fn add(&self, request: &Request) -> Result<Added, CniError> {
        if self.journal.read(|ipam| ipam.get(&request.container).is_some()).await {
            // The runtime has given up on an earlier try.
            self.delete(&request.container).await?;
        }
        let owner = self.owner(request);
        let allocation = self.journal.change(|ipam| ipam.allocate(owner, Timestamp::now())).await?;
        let pair = match self.make(&allocation, &request.ifname).await {
            Ok(pair) => pair,
            Err(problem) => {
                if let Err(another) = self.delete(&request.container).await {
                    // What is left is in the journal, and the runtime sends a DEL for every ADD that failed.
                    error!(container = request.container, problem = %another, "not undone");
                }
                return Err(problem);
            }
        };
        self.journal
            .change(|ipam| {
                ipam.ready(&request.container);
                Ok(())
            })
            .await?;
        Ok(Added {
            host_ifname: pair.host,
            host_mac: pair.link.mac.to_string(),
            mac: pair.pod_mac.to_string(),
            addresses: allocation.addresses().collect(),
            mtu: self.network.mtu,
        })
    }

    async fn make(&self, allocation: &Allocation, ifname: &str) -> Result<Pair, CniError> {
        let pair = self.network.create(allocation, ifname).await?;
        let index = pair.link.index;
        self.indexes().insert(allocation.owner.container.clone(), index);
        // All before the node's side is up: no packet passes that policies do not judge.
        let (written, attached, furnished) = tokio::join!(
            self.dataplane.add_endpoint(local_endpoint(allocation, index)),
            self.attach(pair.host.clone(), index),
            self.network.furnish(&pair, allocation, ifname),
        );
        written?;
        attached?;
        furnished?;
        self.network.open(&pair, allocation).await?;
        Ok(pair)
    }

    /// On a thread that may wait: the kernel lets a packet's time pass before it returns.
    async fn attach(&self, ifname: String, index: u32) -> Result<(), CniError> {
        let programs = Arc::clone(&self.programs);
        let task = tokio::task::spawn_blocking(move || {
            programs.attach_pod(&ifname, index).map_err(|source| CniError::Attach { ifname, source: Box::new(source) })
        });
        task.await.unwrap_or_else(|problem| Err(CniError::Task(problem)))
    }

    /// Undoes whatever exists of a sandbox's network.
    pub(super) async fn delete(&self, container: &str) -> Result<(), CniError> {
        let Some(allocation) = self.journal.read(|ipam| ipam.get(container).cloned()).await else {
            return Ok(());
        };
        let ifname = host_ifname(allocation.endpoint);
        let link = self.network.netlink.link(&ifname).await.map_err(PlumbingError::from)?;
        let remembered = self.indexes().remove(container);
        // The interface first: it must never be there without its programs.
        if let Some(link) = link {
            self.network.netlink.delete_link(link.index).await.map_err(PlumbingError::from)?;
        }
        if let Some(index) = link.map(|link| link.index).or(remembered) {
            self.dataplane.remove_endpoint(index).await?;
        }
        self.journal
            .change(|ipam| {
                ipam.release(container);
                Ok(())
            })
            .await?;
        Ok(())
    }

    /// One sandbox's DEL, for those that find out by themselves that it is due.
    pub(super) async fn remove(&self, container: &str) {
        let _turn = self.turn(container).await;
        match self.delete(container).await {
            Ok(()) => info!(container, "network of a sandbox that is gone was removed"),
            Err(problem) => warn!(container, %problem, "network of a sandbox that is gone was not removed"),
        }
    }

    async fn check(&self, container: &str) -> Result<(), CniError> {
        let allocation = self.journal.read(|ipam| ipam.get(container).cloned()).await;
        let unknown = || CniError::Unknown(container.to_owned());
        let allocation = allocation.filter(|found| found.progress == Progress::Ready).ok_or_else(unknown)?;
        let ifname = host_ifname(allocation.endpoint);
        let link: Result<_, NetlinkError> = self.network.netlink.link(&ifname).await;
        match link.map_err(PlumbingError::from)? {
            Some(_) => Ok(()),
            None => Err(CniError::Gone(ifname)),
        }
    }

    fn owner(&self, request: &Request) -> Owner {
        let facts = (self.lookup)(&request.namespace, &request.name, &request.uid);
        if facts.is_none() {
            warn!(pod = format!("{}/{}", request.namespace, request.name), "a sandbox of a pod that is not known here");
        }
        let facts = facts.unwrap_or_default();
        Owner {
            container: request.container.clone(),
            netns: request.netns.clone(),
            namespace: request.namespace.clone(),
            name: request.name.clone(),
            uid: request.uid.clone(),
            labels: facts.labels,
            named_ports: facts.named_ports,
            host_ports: facts.host_ports,
        }
    }

    /// The addresses, for those that show or review them.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    fn indexes(&self) -> std::sync::MutexGuard<'_, HashMap<String, u32>> {
        self.indexes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn turn(&self, container: &str) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            // Locks that nobody holds or waits for are of no use any more.
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry(container.to_owned()).or_default())
        };
        lock.lock_owned().await
    }
}

/// What was found at start.
pub struct Adopted {
    journal: Journal,
    network: NodeNetwork,
    indexes: HashMap<String, u32>,
}

impl Adopted {
    /// Goes on from there.
    #[must_use]
    pub fn endpoints(
        self,
        dataplane: Dataplane,
        programs: Arc<skep_dataplane::Dataplane>,
        lookup: PodLookup,
    ) -> Endpoints {
        Endpoints {
            journal: self.journal,
            network: self.network,
            dataplane,
            programs,
            lookup,
            locks: Arc::default(),
            indexes: Arc::new(StdMutex::new(self.indexes)),
        }
    }
}

fn local_endpoint(allocation: &Allocation, ifindex: u32) -> LocalEndpoint {
    let Owner { namespace, name, uid, labels, named_ports, host_ports, .. } = allocation.owner.clone();
    let named_ports = named_ports.into_iter().filter_map(|port| {
        Some(EndpointPort { protocol: protocol(&port.protocol)?, name: port.name, port: port.port })
    });
    let host_ports = host_ports.into_iter().filter_map(|port| {
        Some(core::HostPort {
            host_ip: port.host_ip,
            host_port: port.host_port,
            container_port: port.container_port,
            protocol: protocol(&port.protocol)?,
        })
    });
    LocalEndpoint {
        id: allocation.endpoint,
        ifindex,
        namespace,
        name,
        uid,
        addr4: allocation.addr4,
        addr6: allocation.addr6,
        mac: macs(allocation.endpoint).1.0,
        labels,
        named_ports: named_ports.collect(),
        host_ports: host_ports.collect(),
    }
}

/// A protocol by the name that the Kubernetes API has for it.
fn protocol(name: &str) -> Option<Protocol> {
    [Protocol::Tcp, Protocol::Udp, Protocol::Sctp].into_iter().find(|protocol| protocol.name() == name)
}

/// Whether a path is there; for namespaces of sandboxes.
pub(super) fn exists(netns: &str) -> bool {
    Path::new(netns).exists()
}
