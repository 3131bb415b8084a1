//! Who gets which address.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::request::{self, Request};
use super::{Decision, addresses, is_ours};
use crate::address::Span;
use crate::controllers::address_pool::{AddressPool, AddressPoolCount, AddressPoolStatus};
use crate::controllers::selector::matches;

/// Why a Service does not get an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("{0:?} is not an IP address")]
    NoAddress(String),
    #[error("{0} is not of a family of the Service")]
    OtherFamily(IpAddr),
    #[error("{0} is the second address of its family that is asked for")]
    TwoOfOneFamily(IpAddr),
    #[error("there is no AddressPool {0:?}")]
    UnknownPool(String),
    #[error("AddressPool {0:?} is not for this Service: see its namespaces and serviceSelector")]
    NotForIt(String),
    #[error("{0} is in no AddressPool that the Service may use")]
    InNoPool(IpAddr),
    #[error("{0} is an address of the Service {1}")]
    InUse(IpAddr, String),
    #[error("no AddressPool has {0} addresses for it")]
    NoPool(&'static str),
    #[error("no {0} address is free in {1}")]
    Exhausted(&'static str, String),
}

impl Refusal {
    /// Reason of the condition.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::NoAddress(_) | Self::OtherFamily(_) | Self::TwoOfOneFamily(_) => "InvalidRequest",
            Self::UnknownPool(_) | Self::NotForIt(_) | Self::NoPool(_) => "NoAddressPool",
            Self::InNoPool(_) => "AddressNotInPool",
            Self::InUse(..) => "AddressInUse",
            Self::Exhausted(..) => "AddressPoolExhausted",
        }
    }
}

/// A pool as it is decided on.
#[derive(Debug)]
pub(super) struct Pool<'a> {
    name: &'a str,
    spans: Vec<Span>,
    auto_assign: bool,
    namespaces: &'a [String],
    selector: Option<&'a LabelSelector>,
}

impl<'a> Pool<'a> {
    pub(super) fn of(pool: &'a AddressPool) -> Self {
        Self {
            name: pool.metadata.name.as_deref().unwrap_or_default(),
            // Validation has seen every range that is stored.
            spans: pool.spec.addresses.iter().filter_map(|range| Span::parse(range).ok()).collect(),
            auto_assign: pool.spec.auto_assign != Some(false),
            namespaces: &pool.spec.namespaces,
            selector: pool.spec.service_selector.as_ref(),
        }
    }

    fn admits(&self, service: &Service) -> bool {
        let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
        let home = self.namespaces.is_empty() || self.namespaces.iter().any(|name| name == namespace);
        home && self.selector.is_none_or(|selector| matches(selector, service.metadata.labels.as_ref()))
    }

    fn contains(&self, address: IpAddr) -> bool {
        self.spans.iter().any(|span| span.contains(address))
    }
}

/// Pools and Services, and who has what.
///
/// An address counts as taken while any Service's status shows it, also when that Service is about to lose it: it can be
/// given anew once the status is seen without it. So no two Services have it at any time, whatever happens to a write.
#[derive(Debug)]
pub(super) struct Assignment<'a> {
    pools: Vec<Pool<'a>>,
    services: &'a [&'a Arc<Service>],
    /// Services by their number; addresses that are shown, and those that were decided.
    holders: HashMap<IpAddr, BTreeSet<usize>>,
    decisions: Vec<Option<Decision>>,
}

fn family(is_ipv4: bool) -> &'static str {
    if is_ipv4 { "IPv4" } else { "IPv6" }
}

impl<'a> Assignment<'a> {
    pub(super) fn new(pools: Vec<Pool<'a>>, services: &'a [&'a Arc<Service>]) -> Self {
        let mut holders: HashMap<IpAddr, BTreeSet<usize>> = HashMap::new();
        for (number, service) in services.iter().enumerate() {
            for address in addresses(service) {
                holders.entry(address).or_default().insert(number);
            }
        }
        let decisions = vec![None; services.len()];
        let mut this = Self { pools, services, holders, decisions };
        this.run();
        this
    }

    /// What each Service gets, in the order of the Services; `None` for those that are not decided on here.
    pub(super) fn decide(&self) -> impl Iterator<Item = Option<Decision>> {
        self.decisions.iter().cloned()
    }

    /// How much of each pool is used after the decisions.
    pub(super) fn counts(&self) -> Vec<AddressPoolStatus> {
        let amount = |count: u128| i64::try_from(count).unwrap_or(i64::MAX);
        let mut counts: Vec<AddressPoolStatus> = Vec::with_capacity(self.pools.len());
        for pool in &self.pools {
            let total = |v4: bool| {
                let spans = pool.spans.iter().filter(|span| span.is_ipv4() == v4);
                AddressPoolCount {
                    assigned: 0,
                    total: amount(spans.fold(0, |sum, span| span.count().saturating_add(sum))),
                }
            };
            counts.push(AddressPoolStatus { ipv4: total(true), ipv6: total(false) });
        }
        for address in self.decisions.iter().flatten().flat_map(|decision| &decision.addresses) {
            if let Some(number) = self.pools.iter().position(|pool| pool.contains(*address)) {
                let count = if address.is_ipv4() { &mut counts[number].ipv4 } else { &mut counts[number].ipv6 };
                count.assigned += 1;
            }
        }
        counts
    }

    fn run(&mut self) {
        let mut order: Vec<usize> = (0..self.services.len()).filter(|number| is_ours(self.services[*number])).collect();
        // The older first; the order of names decides among those of one second.
        let age = |number: &usize| self.services[*number].metadata.creation_timestamp.as_ref().map(|time| time.0);
        order.sort_by_key(age);
        let mut kept: HashMap<usize, Vec<IpAddr>> = HashMap::new();
        let mut keepers: HashMap<IpAddr, usize> = HashMap::new();
        for number in &order {
            let addresses = self.keep(*number, &keepers);
            keepers.extend(addresses.iter().map(|address| (*address, *number)));
            kept.insert(*number, addresses);
        }
        let mut cursors = HashMap::new();
        for number in order {
            let kept = kept.remove(&number).unwrap_or_default();
            let decision = self.fill(number, kept, &mut cursors);
            for address in &decision.addresses {
                self.holders.entry(*address).or_default().insert(number);
            }
            self.decisions[number] = Some(decision);
        }
    }

    /// Pools that a Service may have addresses of.
    fn allowed(&self, service: &Service) -> Result<Vec<usize>, Refusal> {
        let named = request::pool(service);
        if let Some(name) = named {
            let Some(pool) = self.pools.iter().find(|pool| pool.name == name) else {
                return Err(Refusal::UnknownPool(name.to_owned()));
            };
            if !pool.admits(service) {
                return Err(Refusal::NotForIt(name.to_owned()));
            }
        }
        let numbers = self.pools.iter().enumerate();
        let allowed = numbers.filter(|(_, pool)| named.is_none_or(|name| pool.name == name) && pool.admits(service));
        Ok(allowed.map(|(number, _)| number).collect())
    }

    /// What a Service has and may keep, at most one address a family.
    fn keep(&self, number: usize, keepers: &HashMap<IpAddr, usize>) -> Vec<IpAddr> {
        let service = self.services[number];
        let Ok(allowed) = self.allowed(service) else { return Vec::new() };
        let families = request::families(service);
        let asked = request::of(service).map(|request| request.addresses).unwrap_or_default();
        let mut kept: Vec<IpAddr> = Vec::new();
        for address in addresses(service) {
            let v4 = address.is_ipv4();
            let fits = families.contains(&v4)
                && kept.iter().all(|known| known.is_ipv4() != v4)
                && asked.iter().all(|asked| asked.is_ipv4() != v4 || *asked == address)
                && allowed.iter().any(|pool| self.pools[*pool].contains(address));
            // Of two that show it, somebody else's controller's wins, then the older.
            let others = self.holders.get(&address).into_iter().flatten();
            let foreign = others.into_iter().any(|other| !is_ours(self.services[*other]));
            if fits && !foreign && !keepers.contains_key(&address) {
                kept.push(address);
            }
        }
        kept
    }

    /// Adds to what a Service keeps what it lacks.
    fn fill(&self, number: usize, kept: Vec<IpAddr>, cursors: &mut HashMap<(usize, usize), u128>) -> Decision {
        let service = self.services[number];
        let (allowed, request) = match (self.allowed(service), request::of(service)) {
            (Ok(allowed), Ok(request)) => (allowed, request),
            (Err(refusal), _) | (_, Err(refusal)) => return Decision { addresses: kept, refusals: vec![refusal] },
        };
        let mut decision = Decision::default();
        for v4 in &request.families {
            let has = kept.iter().find(|address| address.is_ipv4() == *v4);
            let found = match has {
                Some(address) => Ok(*address),
                None => self.find(number, *v4, &request, &allowed, cursors),
            };
            match found {
                Ok(address) => decision.addresses.push(address),
                Err(refusal) => decision.refusals.push(refusal),
            }
        }
        // One address is enough for who only prefers two, unless it asked for a certain one.
        let asked = |refusal: &Refusal| matches!(refusal, Refusal::InUse(..) | Refusal::InNoPool(_));
        if request.lenient && !decision.addresses.is_empty() && !decision.refusals.iter().any(asked) {
            decision.refusals.clear();
        }
        decision
    }

    fn find(
        &self,
        number: usize,
        v4: bool,
        request: &Request,
        allowed: &[usize],
        cursors: &mut HashMap<(usize, usize), u128>,
    ) -> Result<IpAddr, Refusal> {
        let holder = |address: &IpAddr| self.holders.get(address)?.iter().find(|holder| **holder != number).copied();
        if let Some(asked) = request.addresses.iter().find(|asked| asked.is_ipv4() == v4) {
            if !allowed.iter().any(|pool| self.pools[*pool].contains(*asked)) {
                return Err(Refusal::InNoPool(*asked));
            }
            return match holder(asked) {
                None => Ok(*asked),
                Some(other) => {
                    let metadata = &self.services[other].metadata;
                    let name = |part: &Option<String>| part.clone().unwrap_or_default();
                    Err(Refusal::InUse(*asked, format!("{}/{}", name(&metadata.namespace), name(&metadata.name))))
                }
            };
        }
        // A pool that only gives to who asks is asked by its name.
        let named = request::pool(self.services[number]).is_some();
        let mut tried = Vec::new();
        for pool in allowed.iter().copied().filter(|pool| named || self.pools[*pool].auto_assign) {
            let spans = self.pools[pool].spans.iter().enumerate().filter(|(_, span)| span.is_ipv4() == v4);
            for (place, span) in spans {
                // What was found taken stays so until the decisions are made.
                let cursor = cursors.entry((pool, place)).or_default();
                while let Some(address) = span.nth(*cursor) {
                    *cursor += 1;
                    if !self.holders.contains_key(&address) {
                        return Ok(address);
                    }
                }
                tried.push(pool);
            }
        }
        tried.dedup();
        if tried.is_empty() {
            return Err(Refusal::NoPool(family(v4)));
        }
        let names: Vec<String> = tried.iter().map(|pool| format!("AddressPool {}", self.pools[*pool].name)).collect();
        Err(Refusal::Exhausted(family(v4), names.join(", ")))
    }
}
