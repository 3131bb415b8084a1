use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::nodes::Nodes;
use super::policies::{Policies, write_unsynced};
use super::population::Population;
use super::services::Services;
use super::staged::Staged;
use super::{
    Change, Cidr, Event, GoneBackend, HealthCheck, IdentityName, Invalid, Kind, LocalEndpoint, MapContents, MapWrite,
    NameSource, Names, ObjectName, ObjectRef, PodName, abi_addr,
};

/// The fold of everything the dataplane obeys; see the module's picture.
///
/// ```text
///  unsynced ──Synced──► live ──begin_stream──► resuming ──Synced──► live
///     │ SnapshotBegin: notes what it sees; Synced drops the rest ▲
///     └──────────────────────────────────────────────────────────┘
/// ```
///
/// Until the first `Synced` only local endpoints are written: closed, unless the maps know them already.
#[derive(Debug, Default)]
pub struct Index {
    services: Services,
    policies: Policies,
    population: Population,
    nodes: Nodes,
    staged: Staged,
    /// Local interfaces that came or went since the last drain.
    interfaces: BTreeSet<u32>,
    /// Objects of the snapshot that is coming in, but Services and EndpointSlices, which are marked themselves.
    snapshot: Option<BTreeSet<ObjectRef>>,
    /// The stream has said `Synced`: later events bring the revision forward.
    live: bool,
    synced: bool,
    adopted: bool,
    revision: u64,
}

impl Index {
    /// An empty index of the node of this name.
    #[must_use]
    pub fn new(node: &str) -> Self {
        Self { nodes: Nodes::new(node), ..Self::default() }
    }

    /// Sets the ranges outside of the cluster that pods reach with their own address.
    pub fn set_no_masquerade(&mut self, ranges: Vec<Cidr>) {
        self.nodes.set_no_masquerade(ranges);
    }

    /// A stream was opened (again): forgets a snapshot that was cut short. Returns the revision to resume from; 0 asks
    /// for everything.
    pub fn begin_stream(&mut self) -> u64 {
        self.snapshot = None;
        self.live = false;
        self.revision
    }

    /// Takes an event of the stream.
    pub fn apply(&mut self, event: Event) {
        let seen = |kind, name: &ObjectName| Some(ObjectRef { kind: Some(kind), name: name.clone() });
        let seen = match &event.change {
            Change::SnapshotBegin | Change::Synced | Change::Progress | Change::Deleted(..) => None,
            Change::Service(_) | Change::EndpointSlice(_) => None,
            Change::NetworkPolicy(object) => seen(Kind::NetworkPolicy, &object.name),
            Change::Workload(object) => seen(Kind::Workload, &object.name),
            Change::Namespace(object) => seen(Kind::Namespace, &ObjectName::new("", &object.name)),
            Change::NodeRoute(object) => seen(Kind::NodeRoute, &ObjectName::new("", &object.name)),
        };
        if let (Some(snapshot), Some(seen)) = (&mut self.snapshot, seen) {
            snapshot.insert(seen);
        }
        match event.change {
            Change::SnapshotBegin => {
                self.snapshot = Some(BTreeSet::new());
                self.services.objects().begin_snapshot();
                self.live = false;
            }
            Change::Synced => self.finish_sync(),
            Change::Progress => {}
            Change::Deleted(kind, name) => {
                if let Some(snapshot) = &mut self.snapshot {
                    snapshot.remove(&ObjectRef { kind: Some(kind), name: name.clone() });
                }
                self.delete(kind, &name);
            }
            Change::Service(service) => self.services.objects().put_service(service),
            Change::EndpointSlice(slice) => self.services.objects().put_slice(slice),
            Change::NetworkPolicy(policy) => self.policies.put(policy),
            Change::Workload(workload) => self.population.put_workload(workload),
            Change::Namespace(namespace) => self.population.put_namespace(namespace),
            Change::NodeRoute(route) => {
                if let Some(change) = self.nodes.put(route) {
                    self.services.node_changed(&change, &self.nodes);
                }
            }
        }
        if self.live {
            self.revision = self.revision.max(event.revision);
        }
    }

    /// Notes an object that could not be read: its earlier version stays in force; pods of a NetworkPolicy that has none
    /// are closed.
    pub fn reject(&mut self, invalid: &Invalid) {
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.insert(invalid.object.clone());
        }
        match invalid.object.kind {
            Some(Kind::Service) => self.services.objects().keep_service(&invalid.object.name),
            Some(Kind::EndpointSlice) => self.services.objects().keep_slice(&invalid.object.name),
            _ => {}
        }
        if invalid.object.kind == Some(Kind::NetworkPolicy) {
            self.policies.reject(&invalid.object.name, invalid.selects.as_ref());
        }
    }

    /// Takes what the maps hold, at start or after writes failed. The next [`Index::drain`] after the stream has synced
    /// writes the difference, and removes what nothing asks for.
    pub fn adopt(&mut self, contents: MapContents) {
        self.services.adopt(&contents);
        self.policies.adopt(&contents);
        self.nodes.adopt();
        self.staged.adopt(contents);
        self.adopted = true;
    }

    /// A local pod's interface is there. Call it for the pods that are found at start too, before [`Index::drain`].
    pub fn endpoint_added(&mut self, endpoint: LocalEndpoint) {
        self.endpoint_removed(endpoint.ifindex);
        self.services.objects().put_host_ports(&endpoint);
        self.population.add_local(endpoint);
    }

    /// A local pod's interface is gone.
    pub fn endpoint_removed(&mut self, ifindex: u32) {
        self.interfaces.insert(ifindex);
        if let Some(old) = self.population.local().get(&ifindex) {
            self.services.objects().delete_host_ports(&old.pod(), ifindex);
        }
        self.population.remove_local(ifindex);
    }

    /// A write of the last batch failed (the map is full, say). Endpoints whose rules it belongs to are closed by the next
    /// [`Index::drain`], which is due at once, and stay so until their policies change; anything else is tried again with
    /// the next change of its object. [`Index::adopt`] tries everything again.
    pub fn write_failed(&mut self, write: &MapWrite) {
        self.services.write_failed(write);
        self.policies.write_failed(write);
        self.staged.forget(write);
    }

    /// Whether a write of the last batch must not be done, because one that it builds on has failed: packets would see a
    /// half-written set. It then counts as failed itself ([`Index::write_failed`]).
    #[must_use]
    pub fn is_void(&self, write: &MapWrite) -> bool {
        self.services.is_void(write) || self.policies.is_void(write)
    }

    /// The writes that bring the maps to what the objects ask for, to be applied in this order. Nothing that a packet
    /// may have read from the maps before is removed in the same batch: it follows with the next one, see
    /// [`Index::has_retired`].
    pub fn drain(&mut self) -> Vec<MapWrite> {
        let mut interfaces = std::mem::take(&mut self.interfaces);
        if !self.synced {
            write_unsynced(&self.population, &interfaces, &mut self.staged);
            // They are looked at again when their policies are known.
            self.interfaces = interfaces;
            return self.staged.drain();
        }
        self.population.set_cluster_dns(self.services.cluster_dns_addresses());
        let pods = self.population.take_changed_pods();
        for pod in &pods {
            interfaces.extend(self.population.ifindex(pod));
        }
        self.nodes.write(&mut self.staged);
        self.services.write(&self.nodes, &mut self.staged);
        self.policies.write(&mut self.population, &pods, interfaces, &mut self.staged);
        self.write_identities();
        self.staged.drain()
    }

    /// Whether the next [`Index::drain`] removes what the last one replaced. It should come soon, but not before packets
    /// that are under way have passed (a few milliseconds are plenty).
    #[must_use]
    pub fn has_retired(&self) -> bool {
        self.services.has_retired() || self.policies.has_retired()
    }

    /// Whether the stream has been complete once.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.synced
    }

    /// What the maps hold when every drained write was applied.
    #[must_use]
    pub fn contents(&self) -> &MapContents {
        self.staged.contents()
    }

    /// Next hop to each pod range of the other nodes. Complete when [`Index::is_synced`].
    #[must_use]
    pub fn routes(&self) -> &BTreeMap<Cidr, IpAddr> {
        self.nodes.next_hops()
    }

    /// Local pods that are closed because their policies could not be read or written.
    #[must_use]
    pub fn closed(&self) -> Vec<ObjectName> {
        self.policies.closed().filter_map(|ifindex| Some(self.population.local().get(&ifindex)?.pod())).collect()
    }

    /// How often two groups of pods had one hash; each has an identity of its own nevertheless.
    #[must_use]
    pub fn identity_collisions(&self) -> u64 {
        self.population.identities.collisions()
    }

    /// Load balancer addresses that this node answers ARP and neighbour solicitations for, as of the last drain.
    #[must_use]
    pub fn announced(&self) -> &BTreeSet<IpAddr> {
        self.services.announced()
    }

    /// What this node is to answer at health check ports, by port.
    #[must_use]
    pub fn health_checks(&self) -> Vec<HealthCheck> {
        self.services.health_checks(&self.nodes)
    }

    /// Cluster IPs of the Service kube-system/kube-dns, when no EndpointSlice says that somebody else answers there: the
    /// agent itself does. Complete when [`Index::is_synced`].
    #[must_use]
    pub fn cluster_dns_addresses(&self) -> &[IpAddr] {
        self.services.cluster_dns_addresses()
    }

    /// Backends that ceased to be listed by any EndpointSlice of a Service, as of the last drain and since the last call.
    /// To be asked for when the writes of the drain are done: nobody finds them any more then.
    pub fn take_gone_backends(&mut self) -> Vec<GoneBackend> {
        self.services.take_gone_backends()
    }

    /// Numbers of endpoint sets that no packet can come to any more, since the last call: what was counted under them may
    /// be forgotten.
    pub fn take_gone_sets(&mut self) -> Vec<u32> {
        self.services.take_gone_sets()
    }

    /// Whether there is an endpoint set of this number.
    #[must_use]
    pub fn has_set(&self, service: u32) -> bool {
        self.services.has_set(service)
    }

    /// What the numbers in the maps stand for.
    #[must_use]
    pub fn names(&self) -> Names {
        self.name_source().names()
    }

    /// What is needed to find that out elsewhere: with very many Services it takes its time.
    #[must_use]
    pub fn name_source(&self) -> NameSource {
        let endpoints = self.population.local().values();
        let identities = self.population.identities.iter();
        NameSource {
            services: self.services.name_source(self.contents()),
            others: Names {
                identities: identities
                    .map(|(identity, group)| {
                        let name = IdentityName { namespace: group.namespace.clone(), labels: group.labels.clone() };
                        (identity, name)
                    })
                    .collect(),
                endpoints: endpoints
                    .map(|pod| (pod.id, PodName { namespace: pod.namespace.clone(), name: pod.name.clone() }))
                    .collect(),
                addresses: self.population.names(),
                rule_lists: self.policies.names(),
                ..Names::default()
            },
        }
    }

    fn delete(&mut self, kind: Kind, name: &ObjectName) {
        match kind {
            Kind::Service => self.services.objects().delete_service(name),
            Kind::EndpointSlice => self.services.objects().delete_slice(name),
            Kind::NetworkPolicy => self.policies.delete(name),
            Kind::Workload => self.population.delete_workload(name),
            Kind::Namespace => self.population.delete_namespace(&name.name),
            Kind::NodeRoute => {
                if let Some(change) = self.nodes.delete(&name.name) {
                    self.services.node_changed(&change, &self.nodes);
                }
            }
        }
    }

    /// The state is complete: drops what a full snapshot did not have.
    fn finish_sync(&mut self) {
        self.live = true;
        self.synced = true;
        let Some(seen) = self.snapshot.take() else { return };
        let cluster = |kind, name: &String| (kind, ObjectName::new("", name));
        let namespaced = |kind, name: &ObjectName| (kind, name.clone());
        self.services.objects().end_snapshot();
        let policies = self.policies.policy_names().map(|name| namespaced(Kind::NetworkPolicy, name));
        let workloads = self.population.workload_names().map(|name| namespaced(Kind::Workload, name));
        let namespaces = self.population.namespace_names().map(|name| cluster(Kind::Namespace, name));
        let nodes = self.nodes.names().map(|name| cluster(Kind::NodeRoute, name));
        let known = policies.chain(workloads).chain(namespaces).chain(nodes);
        let gone: Vec<_> =
            known.filter(|(kind, name)| !seen.contains(&ObjectRef { kind: Some(*kind), name: name.clone() })).collect();
        for (kind, name) in gone {
            self.delete(kind, &name);
        }
    }

    fn write_identities(&mut self) {
        let mut addresses = self.population.take_changed_addresses();
        let mut numbers = self.population.identities.take_renamed();
        let adopted = std::mem::take(&mut self.adopted);
        if adopted {
            numbers.extend(self.population.identities.iter().map(|(number, _)| number));
            numbers.extend(self.staged.contents().identity_tails.keys());
            addresses.extend(self.population.addresses());
            let contents = self.staged.contents();
            let held: BTreeSet<_> = self.population.addresses().map(abi_addr).collect();
            let stale: Vec<_> = contents.identities.keys().filter(|addr| !held.contains(addr)).copied().collect();
            for addr in stale {
                self.staged.delete_identity(addr);
            }
        }
        for addr in addresses {
            match self.population.holder(addr) {
                Some((_, pod)) => self.staged.put_identity(abi_addr(addr), pod.identity),
                None => self.staged.delete_identity(abi_addr(addr)),
            }
        }
        for number in numbers {
            match self.population.identities.tail(number) {
                Some(tail) => self.staged.put_identity_tail(number, tail),
                None => self.staged.delete_identity_tail(number),
            }
        }
    }
}

#[cfg(test)]
mod tests;
