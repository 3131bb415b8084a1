//! What the Kubernetes API says about each address, worked out in the plainest way: for each frontend from scratch.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use skep_abi::{Addr, FrontendKey, frontend_flags, scope};

use crate::dataplane::{
    Change, Cidr, Endpoint, EndpointSlice, LocalEndpoint, NodeRoute, Service, ServicePort, abi_addr,
};

/// The node whose maps are looked at.
pub(super) const OWN: &str = "n1";

/// An address, port and protocol behind frontends.
pub(super) type Row = (Addr, u16, u8);

/// What a frontend stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Meaning {
    pub(super) flags: u32,
    pub(super) affinity_timeout: u32,
    /// Backends that a client may be given; each of them, in the long run.
    pub(super) backends: BTreeSet<Row>,
    /// Clients that may use it, when not everybody may.
    pub(super) ranges: BTreeSet<(u32, Addr)>,
}

/// All that exists.
#[derive(Clone, Debug, Default)]
pub(super) struct World {
    pub(super) services: BTreeMap<String, Service>,
    pub(super) slices: BTreeMap<String, EndpointSlice>,
    pub(super) nodes: BTreeMap<String, NodeRoute>,
    pub(super) pods: BTreeMap<u32, LocalEndpoint>,
}

/// Which endpoints an address leads to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    ForThisNode,
    OnThisNode,
    All,
}

impl World {
    pub(super) fn changes(&self) -> Vec<Change> {
        let services = self.services.values().cloned().map(Change::Service);
        let slices = self.slices.values().cloned().map(Change::EndpointSlice);
        let nodes = self.nodes.values().cloned().map(Change::NodeRoute);
        nodes.chain(services).chain(slices).collect()
    }

    /// Whether two that are named differently want one frontend. The API does not allow it, and a stream may show it for
    /// a moment.
    pub(super) fn is_contested(&self) -> bool {
        let mut seen = BTreeSet::new();
        let services = self.services.values().map(|service| self.of_service(service));
        let pods = self.pods.values().map(|pod| self.of_host_ports(pod));
        services.chain(pods).flat_map(BTreeMap::into_keys).any(|key| !seen.insert(key))
    }

    /// Every frontend that there must be.
    pub(super) fn frontends(&self) -> BTreeMap<FrontendKey, Meaning> {
        let mut all = BTreeMap::new();
        // The first by name has an address, and host ports come after all Services.
        let pods: BTreeMap<_, _> = self.pods.values().map(|pod| ((&pod.name, pod.ifindex), pod)).collect();
        for (key, meaning) in self
            .services
            .values()
            .flat_map(|service| self.of_service(service))
            .chain(pods.values().flat_map(|pod| self.of_host_ports(pod)))
        {
            all.entry(key).or_insert(meaning);
        }
        all
    }

    fn of_service(&self, service: &Service) -> BTreeMap<FrontendKey, Meaning> {
        let mut all = BTreeMap::new();
        let ipv4 = |ip: &IpAddr| ip.is_ipv4();
        for port in &service.ports {
            let mut add = |ip: IpAddr, number: u16, scope: u8, which: Which, flags: u32, ranges: Option<&[Cidr]>| {
                if !service.cluster_ips.iter().any(|other| ipv4(other) == ipv4(&ip)) {
                    return;
                }
                let key =
                    FrontendKey { addr: abi_addr(ip), port_be: number.to_be(), proto: port.protocol.number(), scope };
                let meaning = self.meaning(service, port, ipv4(&ip), which, flags, ranges);
                all.entry(key).or_insert(meaning);
            };
            for &ip in &service.cluster_ips {
                if service.internal_local {
                    add(ip, port.port, scope::INTERNAL, Which::OnThisNode, frontend_flags::LOCAL, None);
                } else {
                    add(ip, port.port, scope::INTERNAL, Which::ForThisNode, 0, None);
                }
            }
            let mut external = |ip: IpAddr, number: u16, ranges: Option<&[Cidr]>| {
                let (which, local) =
                    if service.external_local { (Which::OnThisNode, frontend_flags::LOCAL) } else { (Which::All, 0) };
                let ranged = if ranges.is_some() { frontend_flags::SOURCE_RANGES } else { 0 };
                add(ip, number, scope::EXTERNAL, which, local | ranged | frontend_flags::EXTERNAL_ADDR, ranges);
                add(ip, number, scope::INTERNAL, Which::All, frontend_flags::EXTERNAL_ADDR, None);
            };
            let ranges = Some(service.load_balancer_source_ranges.as_slice()).filter(|ranges| !ranges.is_empty());
            service.load_balancer_ips.iter().for_each(|&ip| external(ip, port.port, ranges));
            service.external_ips.iter().for_each(|&ip| external(ip, port.port, None));
            if let Some(node_port) = port.node_port {
                external("0.0.0.0".parse().unwrap(), node_port, None);
                external("::".parse().unwrap(), node_port, None);
            }
        }
        all
    }

    fn of_host_ports(&self, pod: &LocalEndpoint) -> BTreeMap<FrontendKey, Meaning> {
        let mut all = BTreeMap::new();
        let own = self.nodes.get(OWN).map(|node| node.addresses.clone()).unwrap_or_default();
        let Some(addr4) = pod.addr4 else { return all };
        for port in &pod.host_ports {
            for ip in port.host_ip.map_or_else(|| own.clone(), |ip| vec![ip]) {
                if !ip.is_ipv4() || ip.is_loopback() {
                    continue;
                }
                for scope in [scope::INTERNAL, scope::EXTERNAL] {
                    let key = FrontendKey {
                        addr: abi_addr(ip),
                        port_be: port.host_port.to_be(),
                        proto: port.protocol.number(),
                        scope,
                    };
                    let backend = (abi_addr(addr4.into()), port.container_port, port.protocol.number());
                    let meaning = Meaning {
                        flags: frontend_flags::EXTERNAL_ADDR | frontend_flags::HOST_PORT,
                        affinity_timeout: 0,
                        backends: [backend].into(),
                        ranges: BTreeSet::new(),
                    };
                    all.insert(key, meaning);
                }
            }
        }
        all
    }

    fn meaning(
        &self,
        service: &Service,
        port: &ServicePort,
        ipv4: bool,
        which: Which,
        mut flags: u32,
        ranges: Option<&[Cidr]>,
    ) -> Meaning {
        if service.affinity_timeout_seconds > 0 {
            flags |= frontend_flags::AFFINITY;
        }
        if service.maglev {
            flags |= frontend_flags::MAGLEV;
        }
        let ranges = ranges.into_iter().flatten().filter(|range| range.addr().is_ipv4() == ipv4);
        Meaning {
            flags,
            affinity_timeout: service.affinity_timeout_seconds,
            backends: self.backends(service, port, ipv4, which),
            ranges: ranges.map(|range| (32 + range.mapped_len(), abi_addr(range.addr()))).collect(),
        }
    }

    fn backends(&self, service: &Service, port: &ServicePort, ipv4: bool, which: Which) -> BTreeSet<Row> {
        let rows = |endpoints: Vec<(Row, &Endpoint)>| endpoints.into_iter().map(|(row, _)| row).collect();
        let all = self.endpoints(service, port, ipv4);
        let among = |fits: &dyn Fn(&Endpoint) -> bool| -> Vec<(Row, &Endpoint)> {
            all.iter().copied().filter(|(_, endpoint)| fits(endpoint)).collect()
        };
        let last_resort = |endpoint: &Endpoint| !endpoint.ready && endpoint.serving && endpoint.terminating;
        if which == Which::OnThisNode {
            let ready = among(&|endpoint| endpoint.ready && *endpoint.node == *OWN);
            let last = among(&|endpoint| last_resort(endpoint) && *endpoint.node == *OWN);
            return rows(if ready.is_empty() { last } else { ready });
        }
        let ready = among(&|endpoint| endpoint.ready);
        if ready.is_empty() {
            return rows(among(&last_resort));
        }
        if which == Which::ForThisNode {
            let zone = self.nodes.get(OWN).map(|node| node.zone.clone()).unwrap_or_default();
            for (hints, own) in [
                ((|endpoint| &endpoint.for_nodes) as fn(&Endpoint) -> &[Box<str>], OWN),
                (|endpoint| &endpoint.for_zones, zone.as_str()),
            ] {
                let meant: Vec<_> =
                    ready.iter().copied().filter(|(_, e)| hints(e).iter().any(|name| **name == *own)).collect();
                if !meant.is_empty() && ready.iter().all(|(_, e)| !hints(e).is_empty()) {
                    return rows(meant);
                }
            }
        }
        rows(ready)
    }

    /// All endpoints that slices list.
    fn endpoints(&self, service: &Service, port: &ServicePort, ipv4: bool) -> Vec<(Row, &Endpoint)> {
        let mut found = Vec::new();
        for slice in self.slices.values().filter(|slice| slice.service == service.name.name) {
            for target in slice.ports.iter().filter(|other| other.name == port.name && other.protocol == port.protocol)
            {
                for endpoint in slice.endpoints.iter().filter(|endpoint| endpoint.address.is_ipv4() == ipv4) {
                    found.push(((abi_addr(endpoint.address), target.port, target.protocol.number()), endpoint));
                }
            }
        }
        found
    }

    /// Every backend that somebody lists.
    pub(super) fn listed(&self) -> BTreeSet<Row> {
        let mut listed = BTreeSet::new();
        for service in self.services.values() {
            for port in &service.ports {
                for family in service.cluster_ips.iter().map(IpAddr::is_ipv4).collect::<BTreeSet<_>>() {
                    listed.extend(self.endpoints(service, port, family).into_iter().map(|(row, _)| row));
                }
            }
        }
        for pod in self.pods.values() {
            let addr = pod.addr4.map(|addr| abi_addr(addr.into()));
            let port = |port: &crate::dataplane::HostPort| Some((addr?, port.container_port, port.protocol.number()));
            listed.extend(pod.host_ports.iter().filter_map(port));
        }
        listed
    }
}
