use std::net::IpAddr;
use std::sync::Arc;

use skep_abi::{FrontendKey, SlotKey};

use super::backends::Handle;
use crate::dataplane::{Cidr, EndpointSlice, Family, HostPort, ObjectName, Protocol, Service};

/// Who has frontends. The order says who gets one that several want: Services before host ports, then by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum OwnerName {
    Service(ObjectName),
    /// Host ports of a pod of this node, by its interface.
    HostPorts(ObjectName, u32),
}

/// A Service, or a pod with host ports, and what the maps hold of it.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) name: Arc<OwnerName>,
    pub(super) service: Option<Arc<Service>>,
    /// The snapshot that `service` was seen in last.
    pub(super) seen: u32,
    /// By name.
    pub(super) slices: Vec<Arc<EndpointSlice>>,
    pub(super) host_ports: Option<Box<HostPorts>>,
    /// By port and family.
    pub(super) groups: Vec<Group>,
    /// By key.
    pub(super) frontends: Vec<Wanted>,
    pub(super) affinity_timeout: u32,
}

/// Host ports of a pod of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostPorts {
    /// The pod's addresses.
    pub(super) addresses: Vec<IpAddr>,
    pub(super) ports: Vec<HostPort>,
}

/// The endpoints of one port in one family, and the sets that are made of them.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) port: Port,
    pub(super) family: Family,
    /// All that slices list.
    pub(super) listed: Vec<Handle>,
    /// Those that keep the connections that they have.
    pub(super) draining: Vec<Handle>,
    pub(super) sets: Vec<EndpointSet>,
}

/// A port of an [`Owner`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Port {
    /// By the name of the Service's port.
    Named(Arc<str>),
    /// A pod's port that host ports lead to.
    OfPod(u16, Protocol),
}

/// Which of a group's endpoints a set has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SetKind {
    /// All.
    All,
    /// Those that are meant for clients of this node. It is there only when they are not all.
    Hinted,
    /// Those on this node.
    Local,
    /// [`SetKind::All`] for clients in `loadBalancerSourceRanges`, which are kept by set.
    RangedAll,
    /// [`SetKind::Local`] for them.
    RangedLocal,
}

impl SetKind {
    pub(super) fn is_ranged(self) -> bool {
        matches!(self, Self::RangedAll | Self::RangedLocal)
    }
}

/// What the maps hold of an endpoint set.
#[derive(Debug)]
pub(super) struct EndpointSet {
    pub(super) kind: SetKind,
    pub(super) id: u32,
    pub(super) generation: u32,
    /// Each backend once.
    pub(super) backends: Vec<Handle>,
    /// Their slots when they are a Maglev table; else each has one.
    pub(super) table: Vec<Handle>,
    pub(super) ranges: Vec<Cidr>,
}

impl EndpointSet {
    pub(super) fn slots(&self) -> &[Handle] {
        if self.table.is_empty() { &self.backends } else { &self.table }
    }

    pub(super) fn slot_keys(&self) -> impl Iterator<Item = SlotKey> + use<> {
        let (service, generation) = (self.id, self.generation);
        (0..super::count(self.slots())).map(move |index| SlotKey { service, generation, index })
    }
}

/// A frontend that an owner wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) key: FrontendKey,
    /// Place in [`Owner::groups`].
    pub(super) group: usize,
    pub(super) kind: SetKind,
    /// Bits of `skep_abi::frontend_flags`.
    pub(super) flags: u32,
}

impl Owner {
    pub(super) fn new(name: Arc<OwnerName>) -> Self {
        Self {
            name,
            service: None,
            seen: 0,
            slices: Vec::new(),
            host_ports: None,
            groups: Vec::new(),
            frontends: Vec::new(),
            affinity_timeout: 0,
        }
    }

    /// Whether it is the cluster's DNS and the agent itself answers: it has no EndpointSlice, so that nobody else does.
    pub(super) fn is_served_by_agent(&self) -> bool {
        match &*self.name {
            OwnerName::Service(name) => super::is_cluster_dns(name) && self.slices.is_empty(),
            OwnerName::HostPorts(..) => false,
        }
    }

    /// Nothing is known of it any more, and nothing of it is in the maps.
    pub(super) fn is_empty(&self) -> bool {
        self.service.is_none() && self.slices.is_empty() && self.host_ports.is_none() && self.groups.is_empty()
    }

    pub(super) fn sets(&self) -> impl Iterator<Item = &EndpointSet> {
        self.groups.iter().flat_map(|group| &group.sets)
    }

    pub(super) fn wanted(&self, key: &FrontendKey) -> Option<&Wanted> {
        self.frontends.binary_search_by_key(key, |wanted| wanted.key).ok().and_then(|at| self.frontends.get(at))
    }

    /// The set behind a frontend.
    pub(super) fn set(&self, wanted: &Wanted) -> Option<&EndpointSet> {
        self.groups.get(wanted.group)?.sets.iter().find(|set| set.kind == wanted.kind)
    }
}
