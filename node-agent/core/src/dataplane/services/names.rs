use std::collections::BTreeMap;
use std::sync::Arc;

use skep_abi::{Addr, Backend};

use super::owner::{Owner, OwnerName, Port};
use crate::dataplane::{BackendName, EndpointSlice, ServiceName, abi_addr};

/// What is needed to name endpoint sets and backends: quick to take, so that the naming can be done by another thread.
#[derive(Debug, Default)]
pub(crate) struct NameSource {
    sets: Vec<(u32, Arc<OwnerName>, Port)>,
    slices: Vec<Arc<EndpointSlice>>,
    backends: Vec<(u32, Addr)>,
}

impl NameSource {
    pub(super) fn new<'a>(owners: impl Iterator<Item = &'a Owner>, backends: &BTreeMap<u32, Backend>) -> Self {
        let mut source =
            Self { backends: backends.iter().map(|(&id, backend)| (id, backend.addr)).collect(), ..Self::default() };
        for owner in owners {
            for group in &owner.groups {
                source.sets.extend(group.sets.iter().map(|set| (set.id, Arc::clone(&owner.name), group.port.clone())));
            }
            source.slices.extend(owner.slices.iter().cloned());
        }
        source
    }

    /// Sets by number.
    pub(crate) fn services(&self) -> BTreeMap<u32, ServiceName> {
        self.sets.iter().map(|(id, owner, port)| (*id, set_name(owner, port))).collect()
    }

    /// Pods behind backends by the backend's number.
    pub(crate) fn backends(&self) -> BTreeMap<u32, BackendName> {
        let mut endpoints = BTreeMap::new();
        for slice in &self.slices {
            for endpoint in slice.endpoints.iter().filter(|endpoint| !endpoint.pod.is_empty()) {
                endpoints.insert(abi_addr(endpoint.address), (&slice.name.namespace, endpoint));
            }
        }
        let name = |&(id, addr): &(u32, Addr)| {
            let (namespace, endpoint) = endpoints.get(&addr)?;
            let (pod, node) = (endpoint.pod.to_string(), endpoint.node.to_string());
            Some((id, BackendName { namespace: (*namespace).clone(), pod, node }))
        };
        self.backends.iter().filter_map(name).collect()
    }
}

/// What a set stands for.
fn set_name(owner: &OwnerName, port: &Port) -> ServiceName {
    let (OwnerName::Service(name) | OwnerName::HostPorts(name, _)) = owner;
    let port = match port {
        Port::Named(name) => name.to_string(),
        Port::OfPod(port, protocol) => format!("{port}/{}", protocol.name()),
    };
    ServiceName { namespace: name.namespace.clone(), name: name.name.clone(), port }
}
