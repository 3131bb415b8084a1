//! Node ports, those of health checks included: one range, and each number of it is one Service's.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use super::{Others, spread};
use crate::api::access::{child, items, items_mut, set, text};
use crate::api::field::{Faults, FieldError, Path};
use crate::api::resources::needs_health_check;
use crate::api::status::Status;

/// Ports that nodes listen on for Services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePorts {
    first: u16,
    last: u16,
}

impl Default for NodePorts {
    fn default() -> Self {
        Self { first: 30_000, last: 32_767 }
    }
}

/// A text that is no range of ports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not of the form FIRST-LAST with ports from 1 to 65535")]
pub struct InvalidNodePorts(String);

impl FromStr for NodePorts {
    type Err = InvalidNodePorts;

    fn from_str(text: &str) -> Result<Self, InvalidNodePorts> {
        let ends = text.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
        match ends {
            Some((first, last)) if 0 < first && first <= last => Ok(Self { first, last }),
            _ => Err(InvalidNodePorts(text.to_owned())),
        }
    }
}

impl fmt::Display for NodePorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl NodePorts {
    fn check(self, port: u16, taken: &impl Fn(u16) -> bool) -> Result<(), String> {
        if !(self.first..=self.last).contains(&port) {
            Err(format!("provided port is not in the valid range. The range of valid ports is {self}"))
        } else if taken(port) {
            Err("provided port is already allocated".to_owned())
        } else {
            Ok(())
        }
    }

    /// A free port; where the search begins depends on `random`.
    fn pick(self, taken: &impl Fn(u16) -> bool, random: u64) -> Option<u16> {
        let size = u64::from(self.last - self.first) + 1;
        let start = random % size;
        let mut candidates =
            (0..size).filter_map(|step| u16::try_from(u64::from(self.first) + (start + step) % size).ok());
        candidates.find(|port| !taken(*port))
    }
}

fn number(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0)
}

/// Ports that a Service holds.
pub(super) fn held(service: &Value) -> impl Iterator<Item = u16> {
    let spec = &service["spec"];
    let ports = items(&spec["ports"]).iter().filter_map(|port| number(&port["nodePort"]));
    ports.chain(number(&spec["healthCheckNodePort"]))
}

/// Gives node ports to Services that have them. A port over several protocols has the same node port for all of them.
pub(super) fn allocate(
    service: &mut Value,
    range: NodePorts,
    others: &Others<'_, u16>,
    random: u64,
    faults: &mut Faults,
) -> Result<(), Status> {
    let spec = child(service, "spec");
    let wants = match text(&spec["type"]) {
        "NodePort" => true,
        "LoadBalancer" => spec["allocateLoadBalancerNodePorts"] != false,
        _ => return Ok(()),
    };
    let mut mine: HashSet<u16> = HashSet::new();
    // By the Service's own port: what it has, or what one of its protocols asks for.
    let mut asked: HashMap<i64, i64> = HashMap::new();
    for port in items(&spec["ports"]) {
        let (own, node) = (port["port"].as_i64().unwrap_or_default(), port["nodePort"].as_i64().unwrap_or_default());
        if node != 0 {
            asked.entry(own).or_insert(node);
        }
    }
    let mut given: HashMap<i64, i64> = HashMap::new();
    for (index, port) in items_mut(spec, "ports").enumerate() {
        let own = port["port"].as_i64().unwrap_or_default();
        let node = port["nodePort"].as_i64().unwrap_or_default();
        if node == 0 && !wants {
            continue;
        }
        let shared = given.get(&own).copied();
        let wanted = match (node, shared) {
            (0, Some(shared)) => {
                set(port, "nodePort", shared);
                continue;
            }
            (node, Some(shared)) if node == shared => continue,
            (0, None) => asked.get(&own).copied(),
            (node, _) => Some(node),
        };
        let taken = |port: u16| others.contains(&port) || mine.contains(&port);
        let chosen = match wanted {
            Some(wanted) => {
                let here = Path::new("spec").child("ports").index(index).child("nodePort");
                // A number that is no port is in no range.
                let number = u16::try_from(wanted).unwrap_or_default();
                // What it has it keeps, also when the range was another then.
                if !others.own.contains(&number)
                    && let Err(refused) = range.check(number, &taken)
                {
                    faults.push(FieldError::invalid(here, wanted, &refused));
                    continue;
                }
                number
            }
            None => range
                .pick(&taken, spread(random, index))
                .ok_or_else(|| Status::internal("failed to allocate a nodePort: range is full"))?,
        };
        mine.insert(chosen);
        given.entry(own).or_insert_with(|| chosen.into());
        set(port, "nodePort", chosen);
    }
    if faults.is_empty() && needs_health_check(spec) {
        let taken = |port: u16| others.contains(&port) || mine.contains(&port);
        health_check(spec, range, others.own, &taken, random)?;
    }
    Ok(())
}

fn health_check(
    spec: &mut Value,
    range: NodePorts,
    own: &HashSet<u16>,
    taken: &impl Fn(u16) -> bool,
    random: u64,
) -> Result<(), Status> {
    let asked = spec["healthCheckNodePort"].as_i64().unwrap_or_default();
    if asked != 0 {
        let number = u16::try_from(asked).unwrap_or_default();
        let refused = if own.contains(&number) { Ok(()) } else { range.check(number, taken) };
        return refused.map_err(|error| {
            Status::internal(format!("failed to allocate requested HealthCheck NodePort {asked}: {error}"))
        });
    }
    // Ports of a Service draw by their index, which is far from this one.
    let Some(port) = range.pick(taken, spread(random, usize::MAX)) else {
        return Err(Status::internal("failed to allocate a HealthCheck NodePort: range is full"));
    };
    set(spec, "healthCheckNodePort", port);
    Ok(())
}
