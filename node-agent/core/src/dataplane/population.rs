use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::identity::{Group, Identities};
use super::{EndpointPort, Labels, LocalEndpoint, Namespace, ObjectName, PodName, Protocol, Workload};

/// One life of a pod: its name may come back with another UID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PodKey {
    pub(crate) name: ObjectName,
    pub(crate) uid: String,
}

/// A pod, from the stream's Workload, the local interface, or both.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pod {
    pub(crate) identity: u64,
    pub(crate) addresses: BTreeSet<IpAddr>,
    pub(crate) labels: Labels,
    pub(crate) named_ports: Vec<EndpointPort>,
    /// Host-side interface, when the pod is on this node.
    pub(crate) ifindex: Option<u32>,
    /// Order of appearance.
    born: u64,
}

impl Pod {
    /// The port that the pod calls by this name.
    pub(crate) fn named_port(&self, name: &str, protocol: Protocol) -> Option<u16> {
        let mut ports = self.named_ports.iter();
        ports.find(|port| port.name == name && port.protocol == protocol).map(|port| port.port)
    }
}

/// All pods, their addresses and identities.
#[derive(Debug, Default)]
pub(crate) struct Population {
    namespaces: BTreeMap<String, Labels>,
    workloads: BTreeMap<ObjectName, Workload>,
    local: BTreeMap<u32, LocalEndpoint>,
    local_of: BTreeMap<PodKey, u32>,
    /// Addresses of the cluster's DNS when the agent itself answers there.
    dns: BTreeSet<IpAddr>,
    pods: BTreeMap<PodKey, Pod>,
    holders: BTreeMap<IpAddr, BTreeSet<PodKey>>,
    pub(crate) identities: Identities,
    births: u64,
    changed_pods: BTreeSet<PodKey>,
    changed_addresses: BTreeSet<IpAddr>,
}

impl Population {
    pub(crate) fn put_namespace(&mut self, namespace: Namespace) {
        let Namespace { name, labels } = namespace;
        if self.namespaces.get(&name) != Some(&labels) {
            self.namespaces.insert(name.clone(), labels);
            self.refresh_namespace(&name);
        }
    }

    pub(crate) fn delete_namespace(&mut self, name: &str) {
        if self.namespaces.remove(name).is_some() {
            self.refresh_namespace(name);
        }
    }

    pub(crate) fn put_workload(&mut self, workload: Workload) {
        let key = PodKey { name: workload.name.clone(), uid: workload.uid.clone() };
        let old = self.workloads.insert(workload.name.clone(), workload);
        if let Some(old) = old.filter(|old| old.uid != key.uid) {
            self.refresh(&PodKey { name: old.name, uid: old.uid });
        }
        self.refresh(&key);
    }

    pub(crate) fn delete_workload(&mut self, name: &ObjectName) {
        if let Some(old) = self.workloads.remove(name) {
            self.refresh(&PodKey { name: old.name, uid: old.uid });
        }
    }

    pub(crate) fn add_local(&mut self, endpoint: LocalEndpoint) {
        let ifindex = endpoint.ifindex;
        self.remove_local(ifindex);
        let key = PodKey { name: endpoint.pod(), uid: endpoint.uid.clone() };
        self.local_of.insert(key.clone(), ifindex);
        self.local.insert(ifindex, endpoint);
        self.refresh(&key);
    }

    pub(crate) fn remove_local(&mut self, ifindex: u32) {
        let Some(old) = self.local.remove(&ifindex) else { return };
        let key = PodKey { name: old.pod(), uid: old.uid };
        if self.local_of.get(&key) == Some(&ifindex) {
            self.local_of.remove(&key);
        }
        self.refresh(&key);
    }

    /// Gives addresses of the cluster's DNS, at which the agent itself answers, the identity of the pods that answer
    /// elsewhere: policies that let pods reach those let them reach the agent.
    pub(crate) fn set_cluster_dns(&mut self, addresses: &[IpAddr]) {
        let addresses: BTreeSet<IpAddr> = addresses.iter().copied().collect();
        if self.dns != addresses {
            self.dns = addresses;
            self.refresh(&dns_pod());
        }
    }

    pub(crate) fn namespace_names(&self) -> impl Iterator<Item = &String> {
        self.namespaces.keys()
    }

    pub(crate) fn workload_names(&self) -> impl Iterator<Item = &ObjectName> {
        self.workloads.keys()
    }

    pub(crate) fn local(&self) -> &BTreeMap<u32, LocalEndpoint> {
        &self.local
    }

    pub(crate) fn local_pod(&self, ifindex: u32) -> Option<(&LocalEndpoint, &Pod)> {
        let endpoint = self.local.get(&ifindex)?;
        let key = PodKey { name: endpoint.pod(), uid: endpoint.uid.clone() };
        Some((endpoint, self.pods.get(&key)?))
    }

    /// The host-side interface of a local pod.
    pub(crate) fn ifindex(&self, key: &PodKey) -> Option<u32> {
        self.local_of.get(key).copied()
    }

    pub(crate) fn pods(&self) -> impl Iterator<Item = (&PodKey, &Pod)> {
        self.pods.iter()
    }

    /// Who has an address: a local interface before what the stream says, then the youngest pod.
    pub(crate) fn holder(&self, addr: IpAddr) -> Option<(&PodKey, &Pod)> {
        let pods = self.holders.get(&addr)?.iter().filter_map(|key| Some((key, self.pods.get(key)?)));
        pods.max_by_key(|(_, pod)| (pod.ifindex.is_some(), pod.born))
    }

    /// Addresses that pods have.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.holders.keys().copied()
    }

    /// Pods that came, went or changed since the last call.
    pub(crate) fn take_changed_pods(&mut self) -> BTreeSet<PodKey> {
        std::mem::take(&mut self.changed_pods)
    }

    /// Addresses whose identity may have changed since the last call.
    pub(crate) fn take_changed_addresses(&mut self) -> BTreeSet<IpAddr> {
        std::mem::take(&mut self.changed_addresses)
    }

    /// Pods by address, for people.
    pub(crate) fn names(&self) -> BTreeMap<IpAddr, PodName> {
        let name = |addr| {
            let (key, _) = self.holder(addr)?;
            Some((addr, PodName { namespace: key.name.namespace.clone(), name: key.name.name.clone() }))
        };
        self.addresses().filter_map(name).collect()
    }

    fn refresh_namespace(&mut self, namespace: &str) {
        let first = PodKey { name: ObjectName::new(namespace, ""), uid: String::new() };
        let pods = self.pods.range(first..).map(|(key, _)| key);
        let pods: Vec<_> = pods.take_while(|key| key.name.namespace == namespace).cloned().collect();
        for key in pods {
            self.refresh(&key);
        }
    }

    /// Derives a pod anew from what is known of it.
    fn refresh(&mut self, key: &PodKey) {
        let workload = self.workloads.get(&key.name).filter(|workload| workload.uid == key.uid);
        let ifindex = self.local_of.get(key).copied();
        let local = ifindex.and_then(|ifindex| self.local.get(&ifindex));
        let old = self.pods.remove(key);
        let mut addresses = BTreeSet::new();
        if let Some(workload) = workload {
            addresses.extend(&workload.addresses);
        }
        if let Some(local) = local {
            addresses.extend(local.addr4.map(IpAddr::V4));
            addresses.extend(local.addr6.map(IpAddr::V6));
        }
        let facts = match (workload, local) {
            (Some(workload), _) => Some((workload.labels.clone(), workload.named_ports.clone())),
            (None, Some(local)) => Some((local.labels.clone(), local.named_ports.clone())),
            (None, None) if !self.dns.is_empty() && *key == dns_pod() => {
                addresses.extend(&self.dns);
                Some((Labels::from([("k8s-app".to_owned(), "kube-dns".to_owned())]), Vec::new()))
            }
            (None, None) => None,
        };
        let new = facts.map(|(labels, named_ports)| {
            let group = Group {
                namespace: key.name.namespace.clone(),
                namespace_labels: self.namespaces.get(&key.name.namespace).cloned().unwrap_or_default(),
                labels: labels.clone(),
            };
            let born = old.as_ref().map_or(self.births, |old| old.born);
            Pod { identity: self.identities.acquire(group), addresses, labels, named_ports, ifindex, born }
        });
        self.births += 1;
        if let Some(old) = &old {
            self.identities.release(old.identity);
        }
        if old == new {
            self.pods.extend(new.map(|new| (key.clone(), new)));
            return;
        }
        for pod in [&old, &new].into_iter().flatten() {
            self.changed_addresses.extend(&pod.addresses);
        }
        for addr in old.iter().flat_map(|old| &old.addresses) {
            if let Some(holders) = self.holders.get_mut(addr) {
                holders.remove(key);
                if holders.is_empty() {
                    self.holders.remove(addr);
                }
            }
        }
        if let Some(new) = new {
            for &addr in &new.addresses {
                self.holders.entry(addr).or_default().insert(key.clone());
            }
            self.pods.insert(key.clone(), new);
        }
        self.changed_pods.insert(key.clone());
    }
}

/// The agent as the pod of the cluster's DNS. No pod of the API's has an empty UID.
fn dns_pod() -> PodKey {
    PodKey { name: ObjectName::new("kube-system", "kube-dns"), uid: String::new() }
}
