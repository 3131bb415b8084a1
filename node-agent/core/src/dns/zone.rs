use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::change::{Change, Endpoint, Key, Kind, Service, ServiceKind, Slice};

/// Number of a [`Site`].
type SiteId = u32;

/// The fold of everything that names of the cluster stand for.
///
/// As the index of the dataplane does, it keeps what it knows while a snapshot comes in, and drops what the snapshot did
/// not have once it is complete.
#[derive(Debug, Default)]
pub struct Zone {
    /// Each with the round in which it was last seen.
    namespaces: HashMap<Key, u32>,
    /// Sites by Namespace and name of the Service.
    ids: HashMap<Key, SiteId>,
    sites: Vec<Site>,
    free: Vec<SiteId>,
    /// Which site holds an `EndpointSlice`.
    slices: HashMap<Key, SiteId>,
    cluster_ips: HashMap<IpAddr, SiteId>,
    /// Which sites have an endpoint of this address, each once for each time that it is there.
    endpoints: HashMap<IpAddr, Holders>,
    /// Counts snapshots.
    round: u32,
    in_snapshot: bool,
    synced: bool,
    revision: u64,
}

/// All that belongs to the name of one Service.
#[derive(Debug, Default)]
pub(super) struct Site {
    service: Option<Held<Service>>,
    slices: Vec<Held<Slice>>,
}

#[derive(Debug)]
struct Held<T> {
    object: T,
    seen: u32,
}

/// Nearly always one.
#[derive(Debug)]
enum Holders {
    One(SiteId),
    Many(Vec<SiteId>),
}

impl Holders {
    fn as_slice(&self) -> &[SiteId] {
        match self {
            Self::One(id) => std::slice::from_ref(id),
            Self::Many(ids) => ids,
        }
    }
}

impl Zone {
    /// The stream was opened (again): a snapshot that was cut short is forgotten.
    pub fn begin_stream(&mut self) {
        self.in_snapshot = false;
    }

    /// Takes what an event of this revision means.
    pub fn apply(&mut self, revision: u64, change: Change) {
        self.revision = self.revision.max(revision);
        match change {
            Change::SnapshotBegin => {
                self.round = self.round.wrapping_add(1);
                self.in_snapshot = true;
            }
            Change::Synced => self.finish_sync(),
            Change::Service(service) => self.put_service(service),
            Change::Slice(slice) => self.put_slice(slice),
            Change::Namespace(name) => {
                self.namespaces.insert(name, self.round);
            }
            Change::Deleted(Kind::Service, key) => self.delete_service(&key),
            Change::Deleted(Kind::Slice, key) => self.delete_slice(&key),
            Change::Deleted(Kind::Namespace, name) => {
                self.namespaces.remove(&name);
            }
            Change::Kept(kind, key) => self.keep(kind, &key),
        }
    }

    /// Whether the stream has been complete once.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.synced
    }

    /// The newest revision that was taken; serial number of the zone.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// How many Services have names.
    #[must_use]
    pub fn services(&self) -> usize {
        self.sites.iter().filter(|site| site.service.is_some()).count()
    }

    pub(super) fn has_namespace(&self, name: &str) -> bool {
        self.namespaces.contains_key(name)
    }

    /// The Service of this name, and what belongs to it.
    pub(super) fn site(&self, namespace: &str, service: &str) -> Option<(&Service, &Site)> {
        let mut key = String::with_capacity(namespace.len() + 1 + service.len());
        key.push_str(namespace);
        key.push('/');
        key.push_str(service);
        self.serving(*self.ids.get(key.as_str())?)
    }

    /// The Service that has this cluster IP.
    pub(super) fn by_cluster_ip(&self, addr: IpAddr) -> Option<&Service> {
        self.serving(*self.cluster_ips.get(&addr)?).map(|(service, _)| service)
    }

    /// The Services that have an endpoint of this address, each once.
    pub(super) fn by_endpoint(&self, addr: IpAddr) -> impl Iterator<Item = (&Service, &Site)> {
        let ids = self.endpoints.get(&addr).map_or(&[][..], Holders::as_slice);
        let first = ids.iter().enumerate().filter(|(at, id)| !ids[..*at].contains(id));
        first.filter_map(|(_, &id)| self.serving(id))
    }

    fn serving(&self, id: SiteId) -> Option<(&Service, &Site)> {
        let site = &self.sites[id as usize];
        Some((&site.service.as_ref()?.object, site))
    }

    fn put_service(&mut self, service: Service) {
        let id = self.site_id(&service.key);
        self.forget_cluster_ips(id);
        if let ServiceKind::ClusterIp(addresses) = &service.kind {
            self.cluster_ips.extend(addresses.iter().map(|&addr| (addr, id)));
        }
        self.sites[id as usize].service = Some(Held { object: service, seen: self.round });
    }

    fn delete_service(&mut self, key: &str) {
        let Some(&id) = self.ids.get(key) else { return };
        self.forget_cluster_ips(id);
        self.sites[id as usize].service = None;
        self.release(id, key);
    }

    fn put_slice(&mut self, slice: Slice) {
        self.delete_slice(&slice.key);
        let id = self.site_id(&slice.service);
        for endpoint in &slice.endpoints {
            self.endpoints
                .entry(endpoint.address)
                .and_modify(|holders| match holders {
                    Holders::One(one) => *holders = Holders::Many(vec![*one, id]),
                    Holders::Many(ids) => ids.push(id),
                })
                .or_insert(Holders::One(id));
        }
        self.slices.insert(Arc::clone(&slice.key), id);
        let slices = &mut self.sites[id as usize].slices;
        // In an order that does not depend on what came first.
        let at = slices.partition_point(|held| held.object.key < slice.key);
        slices.insert(at, Held { object: slice, seen: self.round });
    }

    fn delete_slice(&mut self, key: &str) {
        let Some(id) = self.slices.remove(key) else { return };
        let slices = &mut self.sites[id as usize].slices;
        let Some(at) = slices.iter().position(|held| &*held.object.key == key) else { return };
        let slice = slices.remove(at).object;
        for endpoint in &slice.endpoints {
            self.forget_endpoint(endpoint, id);
        }
        self.release(id, &slice.service);
    }

    fn forget_endpoint(&mut self, endpoint: &Endpoint, id: SiteId) {
        match self.endpoints.get_mut(&endpoint.address) {
            Some(Holders::One(_)) => {
                self.endpoints.remove(&endpoint.address);
            }
            Some(holders @ Holders::Many(_)) => {
                let mut ids = holders.as_slice().to_vec();
                if let Some(at) = ids.iter().position(|&other| other == id) {
                    ids.swap_remove(at);
                }
                *holders = if let [one] = ids[..] { Holders::One(one) } else { Holders::Many(ids) };
            }
            None => {}
        }
    }

    fn forget_cluster_ips(&mut self, id: SiteId) {
        let Some(held) = &self.sites[id as usize].service else { return };
        let ServiceKind::ClusterIp(addresses) = &held.object.kind else { return };
        for addr in addresses {
            // Another Service may have it by now.
            if self.cluster_ips.get(addr) == Some(&id) {
                self.cluster_ips.remove(addr);
            }
        }
    }

    fn site_id(&mut self, key: &Key) -> SiteId {
        if let Some(&id) = self.ids.get(key) {
            return id;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.sites.push(Site::default());
            // There is not memory for so many.
            SiteId::try_from(self.sites.len() - 1).unwrap_or(SiteId::MAX)
        });
        self.ids.insert(Arc::clone(key), id);
        id
    }

    /// A site that nothing belongs to any more is used for another name.
    fn release(&mut self, id: SiteId, key: &str) {
        let site = &mut self.sites[id as usize];
        if site.service.is_none() && site.slices.is_empty() {
            *site = Site::default();
            self.ids.remove(key);
            self.free.push(id);
        }
    }

    fn keep(&mut self, kind: Kind, key: &str) {
        let round = self.round;
        match kind {
            Kind::Service => {
                let site = self.ids.get(key).and_then(|&id| self.sites[id as usize].service.as_mut());
                site.into_iter().for_each(|held| held.seen = round);
            }
            Kind::Slice => {
                let Some(&id) = self.slices.get(key) else { return };
                let held = self.sites[id as usize].slices.iter_mut().filter(|held| &*held.object.key == key);
                held.for_each(|held| held.seen = round);
            }
            Kind::Namespace => {
                self.namespaces.get_mut(key).into_iter().for_each(|seen| *seen = round);
            }
        }
    }

    /// The state is complete: drops what a full snapshot did not have.
    fn finish_sync(&mut self) {
        self.synced = true;
        if !std::mem::take(&mut self.in_snapshot) {
            return;
        }
        let round = self.round;
        self.namespaces.retain(|_, seen| *seen == round);
        let services = self.sites.iter().filter_map(|site| site.service.as_ref());
        let gone: Vec<Key> =
            services.filter(|held| held.seen != round).map(|held| Arc::clone(&held.object.key)).collect();
        for key in gone {
            self.delete_service(&key);
        }
        let slices = self.sites.iter().flat_map(|site| &site.slices);
        let gone: Vec<Key> =
            slices.filter(|held| held.seen != round).map(|held| Arc::clone(&held.object.key)).collect();
        for key in gone {
            self.delete_slice(&key);
        }
    }
}

impl Site {
    /// The slices, in the order of their names.
    pub(super) fn slices(&self) -> impl Iterator<Item = &Slice> {
        self.slices.iter().map(|held| &held.object)
    }

    /// The slices with their endpoints that are published.
    pub(super) fn published<'a>(&'a self, service: &'a Service) -> impl Iterator<Item = (&'a Slice, &'a Endpoint)> {
        let published = |endpoint: &&Endpoint| endpoint.ready || service.publish_not_ready;
        self.slices().flat_map(move |slice| slice.endpoints.iter().filter(published).map(move |found| (slice, found)))
    }
}
