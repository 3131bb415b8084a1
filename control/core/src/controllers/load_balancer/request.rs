//! What a Service asks for.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;

use super::assignment::Refusal;

/// Annotation with the addresses that are wanted, one a family, separated by commas.
const ADDRESSES: &str = "service.skep.io/addresses";
/// Annotation with the name of the one pool that addresses may come from.
const POOL: &str = "service.skep.io/address-pool";

/// A Service's wishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Families to be served in the Service's order; true is IPv4.
    pub(super) families: Vec<bool>,
    /// Addresses that are asked for, at most one a family.
    pub(super) addresses: Vec<IpAddr>,
    /// Whether one family will do when the other cannot be had.
    pub(super) lenient: bool,
}

/// The one pool that the Service names.
pub(super) fn pool(service: &Service) -> Option<&str> {
    annotation(service, POOL)
}

fn annotation<'a>(service: &'a Service, name: &str) -> Option<&'a str> {
    let value = service.metadata.annotations.as_ref()?.get(name)?.trim();
    Some(value).filter(|value| !value.is_empty())
}

/// Families that the Service has; true is IPv4.
pub(super) fn families(service: &Service) -> Vec<bool> {
    let spec = service.spec.as_ref();
    let named = spec.and_then(|spec| spec.ip_families.as_ref()).into_iter().flatten();
    let mut families: Vec<bool> = named.map(|family| family == "IPv4").collect();
    if families.is_empty() {
        let address = spec.and_then(|spec| spec.cluster_ip.as_deref()).and_then(|ip| ip.parse::<IpAddr>().ok());
        families.push(address.is_none_or(|address| address.is_ipv4()));
    }
    families
}

/// The Service's wishes; or why they cannot be fulfilled, whatever pools there are.
pub(super) fn of(service: &Service) -> Result<Request, Refusal> {
    let spec = service.spec.as_ref();
    let families = families(service);
    let lenient = spec.and_then(|spec| spec.ip_family_policy.as_deref()) == Some("PreferDualStack");
    let field = spec.and_then(|spec| spec.load_balancer_ip.as_deref()).filter(|ip| !ip.is_empty());
    let texts = annotation(service, ADDRESSES).or(field).unwrap_or_default();
    let mut addresses: Vec<IpAddr> = Vec::new();
    for text in texts.split(',').map(str::trim).filter(|text| !text.is_empty()) {
        let address: IpAddr = text.parse().map_err(|_| Refusal::NoAddress(text.to_owned()))?;
        if !families.contains(&address.is_ipv4()) {
            return Err(Refusal::OtherFamily(address));
        }
        if addresses.iter().any(|known| known.is_ipv4() == address.is_ipv4()) {
            return Err(Refusal::TwoOfOneFamily(address));
        }
        addresses.push(address);
    }
    Ok(Request { families, addresses, lenient })
}
