//! Addresses for Services of type LoadBalancer, out of address pools.
//!
//! ```text
//!   pools, Services --> Assignment: keep what is right, then fill what lacks --> status of Services, then of pools
//! ```
//!
//! What a Service has is in its status and nowhere else, so a restart forgets nothing. All Services are decided on together,
//! under one key: two at a time could be given the same address before either is seen to have it.

mod assignment;
mod request;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::action::{Action, Note, Outcome, Severity, Write};
use super::address_pool::AddressPool;
use super::engine::{Controller, Turn};
use super::index::{Index, Touched};
use super::kind::{Key, Kind};
use super::object::{Object, Typed};
use assignment::{Assignment, Pool};

/// `spec.loadBalancerClass` that asks for address pools by name; absence does as well.
const CLASS: &str = "skep.io/address-pool";
/// Type of the condition that says whether a Service has all addresses that it should.
const CONDITION: &str = "AddressesAssigned";
/// Reason of the condition when it is met, and of the Event.
const ASSIGNED: &str = "AddressesAssigned";
/// Reason of the Event when it is not met.
const NOT_ASSIGNED: &str = "AddressNotAssigned";

/// The load balancer controller.
#[derive(Debug)]
pub(super) struct LoadBalancers;

fn is_load_balancer(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("LoadBalancer")
}

/// Whether this controller gives the Service its addresses.
fn is_ours(service: &Service) -> bool {
    let class = service.spec.as_ref().and_then(|spec| spec.load_balancer_class.as_deref());
    is_load_balancer(service) && matches!(class, None | Some(CLASS)) && service.metadata.deletion_timestamp.is_none()
}

/// Whether a Service gets addresses, has some, or still says so.
pub(super) fn concerns(service: &Service) -> bool {
    is_load_balancer(service) || ingress(service).next().is_some() || condition(service).is_some()
}

fn ingress(service: &Service) -> impl Iterator<Item = &LoadBalancerIngress> {
    let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    status.into_iter().flat_map(|status| status.ingress.iter().flatten())
}

/// Addresses that the Service has.
fn addresses(service: &Service) -> impl Iterator<Item = IpAddr> {
    ingress(service).filter_map(|ingress| ingress.ip.as_deref()?.parse().ok())
}

fn condition(service: &Service) -> Option<&Condition> {
    let conditions = service.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().find(|condition| condition.type_ == CONDITION)
}

fn everything() -> Key {
    Key::cluster(Kind::AddressPool, "")
}

impl Controller for LoadBalancers {
    fn name(&self) -> &'static str {
        "load-balancer-controller"
    }

    fn affected(&self, touched: &Touched, _index: &Index) -> Vec<Key> {
        let concerned = match touched.key.kind {
            Kind::AddressPool => true,
            Kind::Service => touched.sides().filter_map(Service::of).any(|service| concerns(service)),
            _ => false,
        };
        if concerned { vec![everything()] } else { Vec::new() }
    }

    fn reconcile(&self, _key: &Key, index: &Index, turn: Turn) -> Outcome {
        let mut outcome = Outcome::idle();
        let pools: Vec<_> = index.all::<AddressPool>().collect();
        let services: Vec<_> = index.load_balancers().collect();
        let assignment = Assignment::new(pools.iter().map(|pool| Pool::of(pool)).collect(), &services);
        for (service, decision) in services.iter().zip(assignment.decide()) {
            let draft = match &decision {
                Some(decision) => assigned(service, decision, turn),
                None if is_load_balancer(service) => continue,
                None => cleared(service),
            };
            if draft != ***service {
                let note = decision.and_then(|decision| note(service, &draft, &decision));
                let write = Write::UpdateStatus(draft.into_object());
                outcome.act(Action { write, done: note, failed: None });
            }
        }
        for (pool, status) in pools.iter().zip(assignment.counts()) {
            if pool.status.as_ref() != Some(&status) {
                let draft = AddressPool { status: Some(status), ..pool.as_ref().clone() };
                outcome.act(Write::UpdateStatus(draft.into_object()));
            }
        }
        outcome
    }
}

/// What a Service gets, and why it does not get all that it should.
#[derive(Clone, Debug, Default, PartialEq)]
struct Decision {
    /// In the order of the Service's families.
    addresses: Vec<IpAddr>,
    refusals: Vec<assignment::Refusal>,
}

/// The Service as its status should be.
fn assigned(service: &Service, decision: &Decision, turn: Turn) -> Service {
    let mut draft = service.clone();
    let status = draft.status.get_or_insert_default();
    if !addresses(service).eq(decision.addresses.iter().copied()) {
        let ingress = decision.addresses.iter().map(|address| LoadBalancerIngress {
            ip: Some(address.to_string()),
            ip_mode: Some("VIP".to_owned()),
            ..LoadBalancerIngress::default()
        });
        status.load_balancer = Some(LoadBalancerStatus { ingress: Some(ingress.collect()) });
    }
    let refused: Vec<String> = decision.refusals.iter().map(ToString::to_string).collect();
    let (met, reason) = match decision.refusals.first() {
        None => ("True", ASSIGNED),
        Some(refusal) => ("False", refusal.reason()),
    };
    let message = if refused.is_empty() { "every family has its address".to_owned() } else { refused.join("; ") };
    let known = condition(service);
    if known.is_some_and(|known| known.status == met && known.reason == reason && known.message == message) {
        return draft;
    }
    let since = known.filter(|known| known.status == met).map(|known| known.last_transition_time.clone());
    let conditions = status.conditions.get_or_insert_default();
    conditions.retain(|condition| condition.type_ != CONDITION);
    conditions.push(Condition {
        type_: CONDITION.to_owned(),
        status: met.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: since.unwrap_or(Time(turn.now)),
        observed_generation: None,
    });
    draft
}

/// The Service without what it had as a load balancer.
fn cleared(service: &Service) -> Service {
    let mut draft = service.clone();
    if let Some(status) = &mut draft.status {
        status.load_balancer = Some(LoadBalancerStatus::default());
        if let Some(conditions) = &mut status.conditions {
            conditions.retain(|condition| condition.type_ != CONDITION);
        }
    }
    draft
}

/// The Event that tells of a change, when the change is one that users have to know.
fn note(before: &Service, after: &Service, decision: &Decision) -> Option<Note> {
    let object = Object::Service(std::sync::Arc::new(after.clone()));
    if !decision.refusals.is_empty() {
        let message = condition(after)?.message.clone();
        let known = condition(before).is_some_and(|known| known.message == message);
        return (!known).then(|| Note::about(&object, Severity::Warning, NOT_ASSIGNED, message));
    }
    let texts: Vec<String> = decision.addresses.iter().map(ToString::to_string).collect();
    Some(Note::about(&object, Severity::Normal, ASSIGNED, format!("Assigned {}", texts.join(", "))))
}
