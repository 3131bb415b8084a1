//! What an owner's objects ask for, before it meets what the maps hold.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use skep_abi::{Addr, FrontendKey, frontend_flags, scope};

use super::backends::BackendKey;
use super::endpoints::{self, Candidate};
use super::maglev;
use super::owner::{HostPorts, Owner, Port, SetKind, Wanted};
use crate::dataplane::nodes::Nodes;
use crate::dataplane::{Cidr, Family, Protocol, Service, ServicePort, abi_addr};

/// What an owner asks for.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) groups: Vec<PlannedGroup>,
    /// By key.
    pub(super) frontends: Vec<Wanted>,
    pub(super) affinity_timeout: u32,
}

/// Endpoints of one port in one family.
#[derive(Debug)]
pub(super) struct PlannedGroup {
    pub(super) port: Port,
    pub(super) family: Family,
    pub(super) candidates: Vec<Candidate>,
    pub(super) sets: Vec<PlannedSet>,
}

/// An endpoint set: places in [`PlannedGroup::candidates`].
#[derive(Debug)]
pub(super) struct PlannedSet {
    pub(super) kind: SetKind,
    pub(super) backends: Vec<usize>,
    /// A Maglev table, when the Service wants one.
    pub(super) table: Vec<usize>,
    pub(super) ranges: Vec<Cidr>,
}

/// Compiles an owner's objects.
pub(super) fn plan(owner: &Owner, nodes: &Nodes) -> Plan {
    if let Some(host_ports) = &owner.host_ports {
        return plan_host_ports(host_ports, nodes);
    }
    let Some(service) = owner.service.as_deref().filter(|_| !owner.is_served_by_agent()) else {
        return Plan::default();
    };
    let ranges = &service.load_balancer_source_ranges;
    let mut draft = Draft { source_ranges: ranges, maglev: service.maglev, ..Draft::default() };
    for port in &service.ports {
        for family in [Family::V4, Family::V6] {
            plan_port(&mut draft, owner, service, port, family, nodes);
        }
    }
    draft.finish(service.affinity_timeout_seconds)
}

/// The frontends of one port in one family, and the sets that they need.
fn plan_port(
    draft: &mut Draft<'_>,
    owner: &Owner,
    service: &Service,
    port: &ServicePort,
    family: Family,
    nodes: &Nodes,
) {
    let mut common = if service.affinity_timeout_seconds > 0 { frontend_flags::AFFINITY } else { 0 };
    if service.maglev {
        common |= frontend_flags::MAGLEV;
    }
    let mut frontends = Vec::new();
    let mut add = |addr: Addr, number: u16, scope: u8, kind: SetKind, flags: u32| {
        let key = FrontendKey { addr, port_be: number.to_be(), proto: port.protocol.number(), scope };
        frontends.push((key, kind, flags | common));
    };
    let of_family = |ips: &[IpAddr]| -> Vec<Addr> {
        ips.iter().filter(|&&ip| Family::of(ip) == family).map(|&ip| abi_addr(ip)).collect()
    };
    let cluster_ips = of_family(&service.cluster_ips);
    // A family that the Service has not: there never are endpoints.
    if cluster_ips.is_empty() {
        return;
    }
    let (kind, flags) =
        if service.internal_local { (SetKind::Local, frontend_flags::LOCAL) } else { (SetKind::Hinted, 0) };
    for addr in cluster_ips {
        add(addr, port.port, scope::INTERNAL, kind, flags);
    }
    let (kind, ranged, flags) = if service.external_local {
        (SetKind::Local, SetKind::RangedLocal, frontend_flags::LOCAL)
    } else {
        (SetKind::All, SetKind::RangedAll, 0)
    };
    let mut external = |addr: Addr, number: u16, kind: SetKind, flags: u32| {
        let flags = flags | frontend_flags::EXTERNAL_ADDR;
        add(addr, number, scope::EXTERNAL, kind, flags);
        // Clients in the cluster are short-circuited: every endpoint, whoever may come from outside.
        add(addr, number, scope::INTERNAL, SetKind::All, frontend_flags::EXTERNAL_ADDR);
    };
    for addr in of_family(&service.load_balancer_ips) {
        if service.load_balancer_source_ranges.is_empty() {
            external(addr, port.port, kind, flags);
        } else {
            external(addr, port.port, ranged, flags | frontend_flags::SOURCE_RANGES);
        }
    }
    for addr in of_family(&service.external_ips) {
        external(addr, port.port, kind, flags);
    }
    if let Some(node_port) = port.node_port {
        external(any(family), node_port, kind, flags);
    }
    let candidates = endpoints::candidates(owner.slices.iter().map(AsRef::as_ref), port, family, nodes);
    draft.add(Port::Named(port.name.as_str().into()), family, candidates, frontends);
}

fn any(family: Family) -> Addr {
    match family {
        Family::V4 => FrontendKey::ANY4,
        Family::V6 => FrontendKey::ANY6,
    }
}

/// Each host port at the addresses of this node, or at the one that the pod asks for.
///
/// A loopback address gets none: it is everybody's own, and so every pod's processes would find the host port there.
fn plan_host_ports(pod: &HostPorts, nodes: &Nodes) -> Plan {
    let mut draft = Draft::default();
    let mut by_port: BTreeMap<(u16, Protocol, IpAddr), Vec<(Addr, u16)>> = BTreeMap::new();
    for port in &pod.ports {
        for &addr in &pod.addresses {
            let family = Family::of(addr);
            let asked = port.host_ip.filter(|ip| !ip.is_unspecified());
            let at: Vec<IpAddr> = match asked {
                Some(ip) => vec![ip],
                None => nodes.own_addresses().to_vec(),
            };
            let at = at.into_iter().filter(|&ip| Family::of(ip) == family && !ip.is_loopback());
            let frontends = by_port.entry((port.container_port, port.protocol, addr)).or_default();
            frontends.extend(at.map(|ip| (abi_addr(ip), port.host_port)));
        }
    }
    let flags = frontend_flags::EXTERNAL_ADDR | frontend_flags::HOST_PORT;
    for ((port, protocol, addr), at) in by_port {
        let key = BackendKey { addr: abi_addr(addr), port, proto: protocol.number() };
        let frontend = |(addr, port): (Addr, u16), scope| {
            let key = FrontendKey { addr, port_be: port.to_be(), proto: protocol.number(), scope };
            (key, SetKind::All, flags)
        };
        let frontends = at.into_iter().flat_map(|at| [frontend(at, scope::EXTERNAL), frontend(at, scope::INTERNAL)]);
        let candidates = vec![Candidate::host_port(key, nodes)];
        draft.add(Port::OfPod(port, protocol), Family::of(addr), candidates, frontends);
    }
    draft.finish(0)
}

/// A plan that is being made.
#[derive(Default)]
struct Draft<'a> {
    source_ranges: &'a [Cidr],
    maglev: bool,
    groups: Vec<PlannedGroup>,
    frontends: Vec<Wanted>,
}

impl Draft<'_> {
    /// Adds a group with the sets that its frontends need.
    fn add(
        &mut self,
        port: Port,
        family: Family,
        candidates: Vec<Candidate>,
        frontends: impl IntoIterator<Item = (FrontendKey, SetKind, u32)>,
    ) {
        let mut sets: Vec<PlannedSet> = Vec::new();
        let hinted = endpoints::hinted(&candidates);
        for (key, kind, flags) in frontends {
            // Sets that would be the same are one.
            let kind = if kind == SetKind::Hinted && hinted.is_none() { SetKind::All } else { kind };
            self.frontends.push(Wanted { key, group: self.groups.len(), kind, flags });
            if sets.iter().any(|set| set.kind == kind) {
                continue;
            }
            let backends = match kind {
                SetKind::All | SetKind::RangedAll => endpoints::all(&candidates),
                SetKind::Hinted => hinted.clone().unwrap_or_default(),
                SetKind::Local | SetKind::RangedLocal => endpoints::local(&candidates),
            };
            let table = if self.maglev { table(&candidates, &backends) } else { Vec::new() };
            let ranges = if kind.is_ranged() { self.ranges(family) } else { Vec::new() };
            sets.push(PlannedSet { kind, backends, table, ranges });
        }
        self.groups.push(PlannedGroup { port, family, candidates, sets });
    }

    /// A family without ranges of its own lets nobody in: the list says who may.
    fn ranges(&self, family: Family) -> Vec<Cidr> {
        let mut ranges: Vec<Cidr> =
            self.source_ranges.iter().filter(|range| range.family() == family).copied().collect();
        ranges.sort_unstable();
        ranges.dedup();
        ranges
    }

    fn finish(mut self, affinity_timeout: u32) -> Plan {
        // Stable: of two frontends with one key the first stays. They are made in the order of what is narrower.
        self.frontends.sort_by_key(|wanted| wanted.key);
        let all = self.frontends.len();
        self.frontends.dedup_by_key(|wanted| wanted.key);
        if self.frontends.len() < all {
            // A set that lost its frontends that way is none.
            let used: BTreeSet<_> = self.frontends.iter().map(|wanted| (wanted.group, wanted.kind)).collect();
            for (at, group) in self.groups.iter_mut().enumerate() {
                group.sets.retain(|set| used.contains(&(at, set.kind)));
            }
        }
        Plan { groups: self.groups, frontends: self.frontends, affinity_timeout }
    }
}

fn table(candidates: &[Candidate], backends: &[usize]) -> Vec<usize> {
    let keys: Vec<BackendKey> = backends.iter().filter_map(|&at| Some(candidates.get(at)?.key)).collect();
    maglev::table(&keys).into_iter().filter_map(|at| backends.get(at).copied()).collect()
}
