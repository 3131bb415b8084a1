use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::endpoints::{Readiness, is_local};
use super::owner::{HostPorts, Owner, OwnerName};
use super::table::{Set, Table};
use crate::dataplane::nodes::Nodes;
use crate::dataplane::{EndpointSlice, HealthCheck, LocalEndpoint, ObjectName, Service};

/// What the stream and the local pods ask for, by owner.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    owners: Vec<Option<Owner>>,
    free: Vec<u32>,
    numbers: Table<Arc<OwnerName>, u32>,
    /// Owner of each slice, and the snapshot that it was seen in last.
    slices: Table<ObjectName, (u32, u32)>,
    dirty: BTreeSet<u32>,
    /// Number of the snapshot that is coming in, or came in last.
    snapshot: u32,
    /// Names that many endpoints have: kept once.
    shared: Set<Arc<str>>,
    /// Owners with a health check port, or that had one.
    checked: BTreeSet<u32>,
}

impl Objects {
    pub(crate) fn put_service(&mut self, service: Service) {
        let number = self.number(OwnerName::Service(service.name.clone()));
        let (snapshot, checked) = (self.snapshot, service.health_check_node_port.is_some());
        let Some(owner) = self.owner_mut(number) else { return };
        owner.seen = snapshot;
        if owner.service.as_deref() == Some(&service) {
            return;
        }
        owner.service = Some(Arc::new(service));
        self.dirty.insert(number);
        if checked {
            self.checked.insert(number);
        } else {
            self.checked.remove(&number);
        }
    }

    pub(crate) fn delete_service(&mut self, name: &ObjectName) {
        let Some(&number) = self.numbers.get(&OwnerName::Service(name.clone())) else { return };
        if self.owner_mut(number).and_then(|owner| owner.service.take()).is_some() {
            self.dirty.insert(number);
            self.checked.remove(&number);
        }
    }

    pub(crate) fn put_slice(&mut self, mut slice: EndpointSlice) {
        let number = self.number(OwnerName::Service(ObjectName::new(&slice.name.namespace, &slice.service)));
        let snapshot = self.snapshot;
        match self.slices.get_mut(&slice.name) {
            Some((owner, seen)) if *owner == number => *seen = snapshot,
            Some(_) => {
                self.delete_slice(&slice.name);
                self.slices.insert(slice.name.clone(), (number, snapshot));
            }
            None => {
                self.slices.insert(slice.name.clone(), (number, snapshot));
            }
        }
        for endpoint in &mut slice.endpoints {
            share(&mut self.shared, &mut endpoint.node);
            share(&mut self.shared, &mut endpoint.zone);
        }
        let Some(owner) = self.owner_mut(number) else { return };
        match owner.slices.binary_search_by(|other| other.name.name.cmp(&slice.name.name)) {
            Ok(at) => match owner.slices.get_mut(at) {
                Some(old) if **old != slice => *old = Arc::new(slice),
                _ => return,
            },
            Err(at) => owner.slices.insert(at, Arc::new(slice)),
        }
        self.dirty.insert(number);
    }

    pub(crate) fn delete_slice(&mut self, name: &ObjectName) {
        let Some((number, _)) = self.slices.remove(name) else { return };
        if let Some(owner) = self.owner_mut(number) {
            owner.slices.retain(|slice| slice.name.name != name.name);
        }
        self.dirty.insert(number);
    }

    /// Takes the host ports of a local pod, or takes note that it has none.
    pub(crate) fn put_host_ports(&mut self, endpoint: &LocalEndpoint) {
        if endpoint.host_ports.is_empty() {
            return;
        }
        let number = self.number(OwnerName::HostPorts(endpoint.pod(), endpoint.ifindex));
        let addresses = endpoint.addr4.map(IpAddr::V4).into_iter().chain(endpoint.addr6.map(IpAddr::V6)).collect();
        if let Some(owner) = self.owner_mut(number) {
            owner.host_ports = Some(Box::new(HostPorts { addresses, ports: endpoint.host_ports.clone() }));
        }
        self.dirty.insert(number);
    }

    pub(crate) fn delete_host_ports(&mut self, pod: &ObjectName, ifindex: u32) {
        let Some(&number) = self.numbers.get(&OwnerName::HostPorts(pod.clone(), ifindex)) else { return };
        if let Some(owner) = self.owner_mut(number) {
            owner.host_ports = None;
        }
        self.dirty.insert(number);
    }

    /// A full snapshot begins: what it does not have is dropped at its end.
    pub(crate) fn begin_snapshot(&mut self) {
        self.snapshot = self.snapshot.wrapping_add(1);
    }

    /// The snapshot has a Service of this name that could not be read.
    pub(crate) fn keep_service(&mut self, name: &ObjectName) {
        let snapshot = self.snapshot;
        if let Some(&number) = self.numbers.get(&OwnerName::Service(name.clone()))
            && let Some(owner) = self.owner_mut(number)
        {
            owner.seen = snapshot;
        }
    }

    /// The snapshot has an EndpointSlice of this name that could not be read.
    pub(crate) fn keep_slice(&mut self, name: &ObjectName) {
        let snapshot = self.snapshot;
        if let Some((_, seen)) = self.slices.get_mut(name) {
            *seen = snapshot;
        }
    }

    /// The snapshot is complete.
    pub(crate) fn end_snapshot(&mut self) {
        let snapshot = self.snapshot;
        let services = self.owners().filter(|owner| owner.seen != snapshot);
        let services: Vec<ObjectName> =
            services.filter_map(|owner| owner.service.as_ref().map(|service| service.name.clone())).collect();
        let slices = self.slices.iter().filter(|(_, (_, seen))| *seen != snapshot);
        let mut slices: Vec<ObjectName> = slices.map(|(name, _)| name.clone()).collect();
        slices.sort_unstable();
        services.iter().for_each(|name| self.delete_service(name));
        slices.iter().for_each(|name| self.delete_slice(name));
    }

    /// Has every owner compiled again.
    pub(super) fn touch_all(&mut self) {
        let numbers = self.owners.iter().enumerate().filter(|(_, owner)| owner.is_some());
        self.dirty.extend(numbers.filter_map(|(at, _)| u32::try_from(at).ok()));
        // Nodes come and go, and their names with them.
        self.shared.retain(|name| Arc::strong_count(name) > 1);
    }

    pub(super) fn touch_host_ports(&mut self) {
        let numbers = self.owners.iter().enumerate();
        let numbers = numbers.filter(|(_, owner)| owner.as_ref().is_some_and(|owner| owner.host_ports.is_some()));
        self.dirty.extend(numbers.filter_map(|(at, _)| u32::try_from(at).ok()));
    }

    pub(super) fn take_dirty(&mut self) -> BTreeSet<u32> {
        std::mem::take(&mut self.dirty)
    }

    pub(super) fn owner(&self, number: u32) -> Option<&Owner> {
        self.owners.get(number as usize)?.as_ref()
    }

    pub(super) fn owner_mut(&mut self, number: u32) -> Option<&mut Owner> {
        self.owners.get_mut(number as usize)?.as_mut()
    }

    pub(super) fn find(&self, name: &OwnerName) -> Option<&Owner> {
        self.owner(*self.numbers.get(name)?)
    }

    pub(super) fn owners(&self) -> impl Iterator<Item = &Owner> {
        self.owners.iter().flatten()
    }

    /// Forgets an owner of which nothing is left.
    pub(super) fn remove_empty(&mut self, number: u32) {
        let Some(place) = self.owners.get_mut(number as usize) else { return };
        if let Some(owner) = place.take_if(|owner| owner.is_empty()) {
            self.numbers.remove(&owner.name);
            self.free.push(number);
        }
    }

    fn number(&mut self, name: OwnerName) -> u32 {
        if let Some(&number) = self.numbers.get(&name) {
            return number;
        }
        let name = Arc::new(name);
        let owner = Some(Owner::new(Arc::clone(&name)));
        let number = self.free.pop().unwrap_or_else(|| super::count(&self.owners));
        match self.owners.get_mut(number as usize) {
            Some(place) => *place = owner,
            None => self.owners.push(owner),
        }
        self.numbers.insert(name, number);
        number
    }

    /// What to answer at which health check port, by port.
    pub(super) fn health_checks(&self, nodes: &Nodes) -> Vec<HealthCheck> {
        let owners = self.checked.iter().filter_map(|&number| self.owner(number));
        let mut checks: Vec<_> = owners.filter_map(|owner| health_check(owner, nodes)).collect();
        checks.sort_by_key(|check| check.port);
        checks
    }
}

fn health_check(owner: &Owner, nodes: &Nodes) -> Option<HealthCheck> {
    let service = owner.service.as_ref().filter(|service| service.external_local)?;
    let port = service.health_check_node_port?;
    let endpoints = owner.slices.iter().flat_map(|slice| &slice.endpoints);
    let ready = endpoints.filter(|endpoint| is_local(endpoint, nodes) && Readiness::of(endpoint) == Readiness::Ready);
    // A pod has an address of each family; what is no pod counts by address.
    let local: HashSet<(&str, Option<IpAddr>)> =
        ready.map(|endpoint| (&*endpoint.pod, endpoint.pod.is_empty().then_some(endpoint.address))).collect();
    let ObjectName { namespace, name } = service.name.clone();
    Some(HealthCheck { port, namespace, name, local_endpoints: local.len() })
}

fn share(shared: &mut Set<Arc<str>>, name: &mut Arc<str>) {
    match shared.get(name) {
        Some(known) => *name = Arc::clone(known),
        None => {
            shared.insert(Arc::clone(name));
        }
    }
}
