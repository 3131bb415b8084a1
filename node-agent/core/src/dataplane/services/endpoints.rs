use std::sync::Arc;

use super::backends::BackendKey;
use crate::dataplane::nodes::Nodes;
use crate::dataplane::{Endpoint, EndpointSlice, Family, ServicePort, abi_addr};

/// An endpoint of one port of a Service, as this node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) key: BackendKey,
    /// The node that it runs on.
    pub(super) node: Arc<str>,
    pub(super) state: Readiness,
    /// It runs on this node.
    pub(super) local: bool,
    /// Whether it is meant for this node; nothing when it does not say for whom.
    for_node: Option<bool>,
    /// The same of this node's zone.
    for_zone: Option<bool>,
}

/// Whether an endpoint takes connections; the better one is the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Readiness {
    /// None.
    Not,
    /// It is terminating and still answers.
    LastResort,
    /// It does.
    Ready,
}

impl Readiness {
    pub(super) fn of(endpoint: &Endpoint) -> Self {
        if endpoint.ready {
            Self::Ready
        } else if endpoint.terminating && endpoint.serving {
            Self::LastResort
        } else {
            Self::Not
        }
    }
}

impl Candidate {
    /// A pod of this node that is its own only endpoint.
    pub(super) fn host_port(key: BackendKey, nodes: &Nodes) -> Self {
        let node = nodes.own_name().into();
        Self { key, node, state: Readiness::Ready, local: true, for_node: None, for_zone: None }
    }

    fn new(endpoint: &Endpoint, key: BackendKey, nodes: &Nodes) -> Self {
        let names = |names: &[Box<str>], own: &str| {
            (!names.is_empty()).then(|| !own.is_empty() && names.iter().any(|name| **name == *own))
        };
        Self {
            key,
            node: Arc::clone(&endpoint.node),
            state: Readiness::of(endpoint),
            local: is_local(endpoint, nodes),
            for_node: names(&endpoint.for_nodes, nodes.own_name()),
            for_zone: names(&endpoint.for_zones, nodes.own_zone()),
        }
    }

    /// Two slices list it, as happens while an endpoint moves between them.
    fn merge(&mut self, other: &Self) {
        if other.state > self.state {
            *self = Self { local: self.local || other.local, ..other.clone() };
            return;
        }
        self.local |= other.local;
        if other.state == self.state {
            // Without a hint in one of them it is for everybody.
            let both = |a: Option<bool>, b: Option<bool>| a.zip(b).map(|(a, b)| a || b);
            self.for_node = both(self.for_node, other.for_node);
            self.for_zone = both(self.for_zone, other.for_zone);
        }
    }
}

/// Whether an endpoint runs on this node.
pub(super) fn is_local(endpoint: &Endpoint, nodes: &Nodes) -> bool {
    !endpoint.node.is_empty() && *endpoint.node == *nodes.own_name()
}

/// The endpoints of a port of a Service in one family: each once, in the order of their keys.
pub(super) fn candidates<'a>(
    slices: impl Iterator<Item = &'a EndpointSlice>,
    port: &ServicePort,
    family: Family,
    nodes: &Nodes,
) -> Vec<Candidate> {
    let mut found = Vec::new();
    for slice in slices {
        let matching = slice.ports.iter().find(|other| other.name == port.name && other.protocol == port.protocol);
        let Some(target) = matching else { continue };
        for endpoint in slice.endpoints.iter().filter(|endpoint| Family::of(endpoint.address) == family) {
            let key =
                BackendKey { addr: abi_addr(endpoint.address), port: target.port, proto: target.protocol.number() };
            found.push(Candidate::new(endpoint, key, nodes));
        }
    }
    // Stable: of equals, the one in the first slice comes first.
    found.sort_by_key(|candidate| candidate.key);
    found.dedup_by(|later, first| {
        let same = later.key == first.key;
        if same {
            first.merge(later);
        }
        same
    });
    found
}

/// Those that take connections: all that are ready, and when there is none, all that are terminating and still answer
/// (KEP-1669).
pub(super) fn all(candidates: &[Candidate]) -> Vec<usize> {
    best(candidates, |_| true)
}

/// The same of those on this node.
pub(super) fn local(candidates: &[Candidate]) -> Vec<usize> {
    best(candidates, |candidate| candidate.local)
}

/// Those that are meant for clients of this node; nothing when hints do not narrow the choice.
///
/// Hints for nodes go before hints for zones (KEP-3015), and either count only when every ready endpoint has them and
/// some are for us: otherwise all endpoints are for everybody (KEP-2433). Terminating endpoints are a last resort
/// whatever they hint at.
pub(super) fn hinted(candidates: &[Candidate]) -> Option<Vec<usize>> {
    for hint in [|candidate: &Candidate| candidate.for_node, |candidate: &Candidate| candidate.for_zone] {
        let mut narrows = false;
        let mut complete = true;
        let mut chosen = Vec::new();
        for (at, candidate) in candidates.iter().enumerate() {
            if candidate.state != Readiness::Ready {
                continue;
            }
            match hint(candidate) {
                Some(true) => chosen.push(at),
                Some(false) => narrows = true,
                None => {
                    complete = false;
                    break;
                }
            }
        }
        if complete && !chosen.is_empty() {
            return narrows.then_some(chosen);
        }
    }
    None
}

fn best(candidates: &[Candidate], among: impl Fn(&Candidate) -> bool) -> Vec<usize> {
    let in_state = |state| -> Vec<usize> {
        let fit = |(_, candidate): &(usize, &Candidate)| candidate.state == state && among(candidate);
        candidates.iter().enumerate().filter(fit).map(|(at, _)| at).collect()
    };
    let ready = in_state(Readiness::Ready);
    if ready.is_empty() { in_state(Readiness::LastResort) } else { ready }
}
