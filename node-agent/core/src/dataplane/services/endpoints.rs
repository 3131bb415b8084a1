use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::backends::BackendKey;
use crate::dataplane::{BackendName, EndpointSlice, ServicePort, abi_addr};

/// Address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub(super) fn of(ip: IpAddr) -> Self {
        if ip.is_ipv4() { Self::V4 } else { Self::V6 }
    }
}

/// The endpoints of one port of a Service in one family.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Endpoints {
    /// Take new connections.
    pub(super) active: BTreeSet<BackendKey>,
    /// Terminating: keep the connections that they have.
    pub(super) draining: BTreeSet<BackendKey>,
}

impl Endpoints {
    /// Merges the slices of a Service. Ready endpoints take connections; when there is none, those that are terminating
    /// but still answer do (the order of kube-proxy's `ProxyTerminatingEndpoints`).
    pub(super) fn select<'a>(
        slices: impl Iterator<Item = &'a EndpointSlice>,
        port: &ServicePort,
        family: Family,
    ) -> Self {
        let mut ready = BTreeSet::new();
        let mut terminating = BTreeSet::new();
        for slice in slices {
            let matching = slice.ports.iter().find(|other| other.name == port.name && other.protocol == port.protocol);
            let Some(target) = matching else { continue };
            for endpoint in slice.endpoints.iter().filter(|endpoint| Family::of(endpoint.address) == family) {
                let key =
                    BackendKey { addr: abi_addr(endpoint.address), port: target.port, proto: target.protocol.number() };
                if endpoint.ready {
                    ready.insert(key);
                } else if endpoint.terminating && endpoint.serving {
                    terminating.insert(key);
                }
            }
        }
        // The same address in two slices while it moves between them.
        terminating.retain(|key| !ready.contains(key));
        if ready.is_empty() {
            Self { active: terminating, draining: BTreeSet::new() }
        } else {
            Self { active: ready, draining: terminating }
        }
    }
}

/// Pods by address, as slices name them.
pub(crate) fn backend_names<'a>(
    slices: impl Iterator<Item = &'a EndpointSlice>,
) -> BTreeMap<skep_abi::Addr, BackendName> {
    let mut names = BTreeMap::new();
    for slice in slices {
        for endpoint in slice.endpoints.iter().filter(|endpoint| !endpoint.pod.is_empty()) {
            let name = BackendName {
                namespace: slice.name.namespace.clone(),
                pod: endpoint.pod.clone(),
                node: endpoint.node.clone(),
            };
            names.insert(abi_addr(endpoint.address), name);
        }
    }
    names
}
