//! Service addresses and node ports: which to give, given what is taken.

mod ports;

use std::collections::HashSet;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};

pub use ports::{InvalidNodePorts, NodePorts};

use super::access::{child, is_empty, items, remove, set, text};
use super::field::{Faults, FieldError, Path};
use super::meta;
use super::status::Status;

/// Offset of cluster DNS's address in a range.
const DNS: u128 = 10;

/// The ranges that Service addresses come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceCidrs {
    /// Network and prefix length.
    pub v4: Option<(Ipv4Addr, u8)>,
    /// Network and prefix length.
    pub v6: Option<(Ipv6Addr, u8)>,
}

/// A Service range that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid service CIDR {0:?}: want one network of each address family at most, with at least 4 addresses")]
pub struct InvalidCidr(String);

impl ServiceCidrs {
    /// From `10.96.0.0/16,fd53::/112`, at most one of each family.
    pub fn parse(text: &str) -> Result<Self, InvalidCidr> {
        let invalid = || InvalidCidr(text.to_owned());
        let mut cidrs = Self { v4: None, v6: None };
        for part in text.split(',') {
            let (address, length) = part.trim().split_once('/').ok_or_else(invalid)?;
            let length: u8 = length.parse().map_err(|_| invalid())?;
            match address.parse().map_err(|_| invalid())? {
                IpAddr::V4(ip) if cidrs.v4.is_none() && length <= 30 => {
                    let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or_default();
                    cidrs.v4 = Some((Ipv4Addr::from(u32::from(ip) & mask), length));
                }
                IpAddr::V6(ip) if cidrs.v6.is_none() && length <= 126 => {
                    let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or_default();
                    cidrs.v6 = Some((Ipv6Addr::from(u128::from(ip) & mask), length));
                }
                _ => return Err(invalid()),
            }
        }
        Ok(cidrs)
    }

    /// First host address of the primary family: the address of the API server's own Service.
    pub fn first(&self) -> Option<IpAddr> {
        self.ranges().into_iter().next().map(|range| range.at(1))
    }

    fn ranges(&self) -> Vec<Range> {
        let v4 =
            self.v4.map(|(ip, length)| Range { base: u128::from(u32::from(ip)), host_bits: 32 - length, v4: true });
        let v6 = self.v6.map(|(ip, length)| Range { base: u128::from(ip), host_bits: 128 - length, v4: false });
        v4.into_iter().chain(v6).collect()
    }
}

#[derive(Clone, Copy)]
struct Range {
    base: u128,
    host_bits: u8,
    v4: bool,
}

impl Range {
    fn family(&self) -> &'static str {
        if self.v4 { "IPv4" } else { "IPv6" }
    }

    fn at(&self, offset: u128) -> IpAddr {
        let number = self.base + offset;
        match u32::try_from(number) {
            Ok(number) if self.v4 => Ipv4Addr::from(number).into(),
            _ => Ipv6Addr::from(number).into(),
        }
    }

    /// Offsets that can be given: not the network's own address, not the last one.
    fn last(&self) -> u128 {
        (1_u128 << self.host_bits.min(127)) - 2
    }

    fn contains(&self, ip: IpAddr) -> bool {
        let number = match ip {
            IpAddr::V4(ip) if self.v4 => u128::from(u32::from(ip)),
            IpAddr::V6(ip) if !self.v4 => u128::from(ip),
            _ => return false,
        };
        number.checked_sub(self.base).is_some_and(|offset| (1..=self.last()).contains(&offset))
    }

    /// A free address. The first one of the range (the API server's) and the tenth (cluster DNS's) are only given to who
    /// asks for them.
    fn pick(&self, taken: &Others<'_, IpAddr>, random: u64) -> Option<IpAddr> {
        let count = self.last() - 1;
        let start = u128::from(random) % count;
        let tries = count.min(taken.all.len() as u128 + 2);
        let mut candidates = (0..tries).map(|step| 2 + (start + step) % count).filter(|offset| *offset != DNS);
        candidates.find(|offset| !taken.contains(&self.at(*offset))).map(|offset| self.at(offset))
    }

    fn text(&self) -> String {
        let width = if self.v4 { 32 } else { 128 };
        format!("{}/{}", self.at(0), width - self.host_bits)
    }
}

/// What other Services hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Cluster addresses.
    pub addresses: HashSet<IpAddr>,
    /// Node ports and ports of health checks. A number is one Service's for every protocol.
    pub node_ports: HashSet<u16>,
}

impl Taken {
    /// Adds what a stored Service holds.
    pub fn add(&mut self, service: &Value) {
        self.addresses
            .extend(items(&service["spec"]["clusterIPs"]).iter().filter_map(|ip| text(ip).parse::<IpAddr>().ok()));
        self.addresses.extend(text(&service["spec"]["clusterIP"]).parse::<IpAddr>().ok());
        self.node_ports.extend(ports::held(service));
    }
}

/// What others hold: all that is held but one's own. Nothing is copied, since there can be very much of it.
struct Others<'a, T> {
    all: &'a HashSet<T>,
    own: &'a HashSet<T>,
}

impl<T: Eq + Hash> Others<'_, T> {
    fn contains(&self, one: &T) -> bool {
        self.all.contains(one) && !self.own.contains(one)
    }
}

/// What Services are given from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceRanges {
    /// Cluster addresses.
    pub cidrs: ServiceCidrs,
    /// Node ports.
    pub node_ports: NodePorts,
}

/// Fills in (or checks) addresses, families, node ports and the health check port of a Service that `prepare_create` or `prepare_update`
/// made ready. `old` is the stored one on an update; `taken` is what all others hold (holding `old`'s own as well does
/// no harm). `random` spreads the choice; equal inputs give equal answers.
///
/// Errors: 422 when an asked address or port is outside the ranges or taken, 500 when a range is exhausted.
pub fn allocate(
    service: &mut Value,
    old: Option<&Value>,
    ranges: &ServiceRanges,
    taken: &Taken,
    random: u64,
) -> Result<(), Status> {
    let mut own = Taken::default();
    if let Some(old) = old {
        own.add(old);
    }
    let mut faults = Faults::new();
    if text(&service["spec"]["type"]) == "ExternalName" {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            remove(child(service, "spec"), field);
        }
        return Ok(());
    }
    let families = families(service, old, &ranges.cidrs, &mut faults);
    if faults.is_empty() {
        let others = Others { all: &taken.addresses, own: &own.addresses };
        addresses(service, &families, &others, random, &mut faults)?;
    }
    let others = Others { all: &taken.node_ports, own: &own.node_ports };
    ports::allocate(service, ranges.node_ports, &others, random, &mut faults)?;
    if faults.is_empty() { Ok(()) } else { Err(Status::invalid("", "Service", meta::name(service), &faults)) }
}

/// Settles `ipFamilyPolicy` and `ipFamilies`.
fn families(service: &mut Value, old: Option<&Value>, cidrs: &ServiceCidrs, faults: &mut Faults) -> Vec<Range> {
    let path = Path::new("spec");
    let ranges = cidrs.ranges();
    let spec = child(service, "spec");
    let headless = text(&spec["clusterIP"]) == "None";
    let mut wanted: Vec<String> = items(&spec["ipFamilies"]).iter().map(|f| text(f).to_owned()).collect();
    let given = wanted.len();
    if wanted.is_empty() {
        let addresses =
            items(&spec["clusterIPs"]).iter().chain(Some(&spec["clusterIP"])).filter_map(|ip| text(ip).parse().ok());
        for address in addresses {
            let family = if matches!(address, IpAddr::V4(_)) { "IPv4" } else { "IPv6" };
            if !wanted.iter().any(|w| w == family) {
                wanted.push(family.to_owned());
            }
        }
    }
    if is_empty(&spec["ipFamilyPolicy"]) {
        let selectorless = headless && is_empty(&spec["selector"]) && given == 0 && ranges.len() == 2;
        let dual = wanted.len() > 1 || selectorless;
        set(spec, "ipFamilyPolicy", if dual { "RequireDualStack" } else { "SingleStack" });
    }
    let policy = text(&spec["ipFamilyPolicy"]).to_owned();
    let here = path.child("ipFamilyPolicy");
    match policy.as_str() {
        "SingleStack" if wanted.len() > 1 => {
            // An update to a single stack drops the second family that the server itself had given.
            let inherited = old.is_some_and(|old| {
                text(&old["spec"]["ipFamilyPolicy"]) != "SingleStack" && old["spec"]["ipFamilies"] == spec["ipFamilies"]
            });
            if inherited {
                wanted.truncate(1);
                let first: Vec<Value> = items(&spec["clusterIPs"]).iter().take(1).cloned().collect();
                set(spec, "clusterIPs", first);
            } else {
                let detail = "must be RequireDualStack or PreferDualStack when multiple ipFamilies are specified";
                faults.push(FieldError::invalid(here, policy.as_str(), detail));
            }
        }
        "RequireDualStack" if ranges.len() < 2 => {
            let detail = "this cluster is not configured for dual-stack services";
            faults.push(FieldError::invalid(here, policy.as_str(), detail));
        }
        "SingleStack" | "PreferDualStack" | "RequireDualStack" => {}
        other => {
            let supported = ["PreferDualStack", "RequireDualStack", "SingleStack"];
            faults.push(FieldError::not_supported(here, other, &supported));
        }
    }
    let mut chosen: Vec<Range> = Vec::new();
    for (index, family) in wanted.iter().enumerate() {
        let here = path.child("ipFamilies").index(index);
        if !matches!(family.as_str(), "IPv4" | "IPv6") {
            faults.push(FieldError::not_supported(here, family.as_str(), &["IPv4", "IPv6"]));
        } else if chosen.iter().any(|c| c.family() == family) {
            faults.push(FieldError::duplicate(here, family.as_str()));
        } else if let Some(range) = ranges.iter().find(|r| r.family() == family) {
            chosen.push(*range);
        } else {
            faults.push(FieldError::invalid(here, family.as_str(), "not configured on this cluster"));
        }
    }
    let count = if policy == "SingleStack" { 1 } else { ranges.len() };
    for range in &ranges {
        if chosen.len() < count && !chosen.iter().any(|c| c.v4 == range.v4) {
            chosen.push(*range);
        }
    }
    set(spec, "ipFamilies", chosen.iter().map(|r| Value::from(r.family())).collect::<Vec<_>>());
    chosen
}

/// Gives every family its address.
fn addresses(
    service: &mut Value,
    families: &[Range],
    taken: &Others<'_, IpAddr>,
    random: u64,
    faults: &mut Faults,
) -> Result<(), Status> {
    let path = Path::new("spec").child("clusterIPs");
    let spec = child(service, "spec");
    if text(&spec["clusterIP"]) == "None" {
        set(spec, "clusterIPs", json!(["None"]));
        return Ok(());
    }
    let mut asked: Vec<String> = items(&spec["clusterIPs"]).iter().map(|ip| text(ip).to_owned()).collect();
    if asked.is_empty() && !is_empty(&spec["clusterIP"]) {
        asked.push(text(&spec["clusterIP"]).to_owned());
    }
    if !is_empty(&spec["clusterIP"]) && asked.first().map(String::as_str) != spec["clusterIP"].as_str() {
        let detail = "first value must match `clusterIP`";
        faults.push(FieldError::invalid(path.clone(), spec["clusterIPs"].clone(), detail));
        return Ok(());
    }
    if asked.len() > families.len() {
        let detail = "may only hold up to as many values as ipFamilies";
        faults.push(FieldError::invalid(path, spec["clusterIPs"].clone(), detail));
        return Ok(());
    }
    let mut given: Vec<Value> = Vec::new();
    for (index, range) in families.iter().enumerate() {
        let asked = asked.get(index).filter(|a| !a.is_empty());
        let Some(asked) = asked else {
            let Some(ip) = range.pick(taken, spread(random, index)) else {
                return Err(Status::internal(format!(
                    "failed to allocate a serviceIP: range {} is full",
                    range.text()
                )));
            };
            given.push(ip.to_string().into());
            continue;
        };
        let refused = match asked.parse::<IpAddr>() {
            Err(_) => {
                Some((path.index(index), "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()))
            }
            // What it has it keeps, also when the range was another then.
            Ok(ip) if taken.own.contains(&ip) && ip.is_ipv4() == range.v4 => None,
            Ok(ip) if !range.contains(ip) => Some((
                path.clone(),
                format!(
                    "failed to allocate IP {asked}: the provided IP is not in the valid range. The range of valid IPs is {}",
                    range.text()
                ),
            )),
            Ok(ip) if taken.contains(&ip) => {
                Some((path.clone(), format!("failed to allocate IP {asked}: provided IP is already allocated")))
            }
            Ok(_) => None,
        };
        if let Some((path, detail)) = refused {
            faults.push(FieldError::invalid(path, json!([asked]), &detail));
        }
        given.push(asked.as_str().into());
    }
    if let Some(first) = given.first() {
        set(spec, "clusterIP", first.clone());
    }
    set(spec, "clusterIPs", given);
    Ok(())
}

/// Independent numbers from one (the finaliser of splitmix64).
fn spread(random: u64, index: usize) -> u64 {
    let mut z = random.wrapping_add((index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests;
