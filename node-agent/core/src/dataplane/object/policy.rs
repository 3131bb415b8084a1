use std::net::IpAddr;

use skep_proto::dataplane::v1 as proto;

use super::{ObjectName, Protocol, port, required};
use crate::dataplane::invalid::{Fault, each};
use crate::dataplane::{Cidr, Problem, Selector};

/// A networking.k8s.io/v1 NetworkPolicy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkPolicy {
    /// Namespace and name.
    pub name: ObjectName,
    /// The pods of the Namespace that it is about.
    pub pod_selector: Selector,
    /// Rules for connections to the pods; `None` leaves them alone, no rule denies all.
    pub ingress: Option<Vec<PolicyRule>>,
    /// Rules for connections from the pods; `None` leaves them alone, no rule denies all.
    pub egress: Option<Vec<PolicyRule>>,
}

/// Allows connections between the pods and one of `peers` to one of `ports`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyRule {
    /// Empty: any peer.
    pub peers: Vec<PolicyPeer>,
    /// Empty: any port of any protocol.
    pub ports: Vec<PolicyPort>,
}

/// A peer of a [`PolicyRule`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyPeer {
    /// Addresses.
    IpBlock(IpBlock),
    /// Pods.
    Pods(PodPeer),
}

/// A prefix without some prefixes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpBlock {
    /// The prefix.
    pub cidr: Cidr,
    /// Parts of it that are left out.
    pub except: Vec<Cidr>,
}

/// Pods by their Namespace's labels and their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodPeer {
    /// `None`: the policy's own Namespace.
    pub namespace_selector: Option<Selector>,
    /// Pods in these Namespaces.
    pub pod_selector: Selector,
}

/// Ports of a [`PolicyRule`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyPort {
    /// Protocol.
    pub protocol: Protocol,
    /// Ports of it.
    pub ports: PolicyPorts,
}

/// Destination ports.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PolicyPorts {
    /// Every one.
    All,
    /// From the first to the last.
    Range(u16, u16),
    /// What the destination pod calls by this name.
    Named(String),
}

impl IpBlock {
    /// Whether the block holds `addr`.
    #[must_use]
    pub fn contains(&self, addr: IpAddr) -> bool {
        self.cidr.contains(addr) && !self.except.iter().any(|except| except.contains(addr))
    }
}

impl NetworkPolicy {
    /// Reads a policy. When only its rules are bad, the error comes with the pods it selects, which must be closed.
    pub(crate) fn from_wire(wire: proto::NetworkPolicy) -> Result<Self, (Fault, Option<Selector>)> {
        let alone = |fault| (fault, None);
        let name = ObjectName {
            namespace: required("namespace", wire.namespace).map_err(alone)?,
            name: required("name", wire.name).map_err(alone)?,
        };
        let pod_selector = Selector::from_wire(wire.pod_selector.unwrap_or_default())
            .map_err(|fault| alone(fault.within("pod_selector")))?;
        let rules = |field, isolated: bool, rules| {
            let rules =
                each(field, rules, PolicyRule::from_wire).map_err(|fault| (fault, Some(pod_selector.clone())))?;
            Ok(isolated.then_some(rules))
        };
        let ingress = rules("ingress", wire.ingress_isolated, wire.ingress)?;
        let egress = rules("egress", wire.egress_isolated, wire.egress)?;
        Ok(Self { name, pod_selector, ingress, egress })
    }
}

impl PolicyRule {
    fn from_wire(wire: proto::PolicyRule) -> Result<Self, Fault> {
        Ok(Self {
            peers: each("peers", wire.peers, PolicyPeer::from_wire)?,
            ports: each("ports", wire.ports, PolicyPort::from_wire)?,
        })
    }
}

impl PolicyPeer {
    fn from_wire(wire: proto::PolicyPeer) -> Result<Self, Fault> {
        match wire.peer {
            Some(proto::policy_peer::Peer::IpBlock(block)) => {
                IpBlock::from_wire(block).map(Self::IpBlock).map_err(|fault| fault.within("ip_block"))
            }
            Some(proto::policy_peer::Peer::Pods(pods)) => {
                PodPeer::from_wire(pods).map(Self::Pods).map_err(|fault| fault.within("pods"))
            }
            // An unknown kind of peer of a newer control service reads as none at all.
            None => Err(Fault::new("peer", Problem::Missing)),
        }
    }
}

impl IpBlock {
    fn from_wire(wire: proto::IpBlock) -> Result<Self, Fault> {
        let cidr: Cidr = wire.cidr.parse().map_err(|problem| Fault::new("cidr", problem))?;
        let except = each("except", wire.except, |text| {
            let except: Cidr = text.parse().map_err(|problem| Fault::new("", problem))?;
            if !cidr.covers(&except) {
                let problem = Problem::OutsideOf { inner: text, outer: cidr.to_string() };
                return Err(Fault::new("", problem));
            }
            Ok(except)
        })?;
        Ok(Self { cidr, except })
    }
}

impl PodPeer {
    fn from_wire(wire: proto::PodPeer) -> Result<Self, Fault> {
        let namespace_selector = wire
            .namespace_selector
            .map(Selector::from_wire)
            .transpose()
            .map_err(|fault| fault.within("namespace_selector"))?;
        let pod_selector =
            Selector::from_wire(wire.pod_selector.unwrap_or_default()).map_err(|fault| fault.within("pod_selector"))?;
        Ok(Self { namespace_selector, pod_selector })
    }
}

impl PolicyPort {
    fn from_wire(wire: proto::PolicyPort) -> Result<Self, Fault> {
        use proto::policy_port::Port;

        let protocol = Protocol::from_wire(wire.protocol)?;
        let ports = match (wire.port, wire.end_port) {
            (None, 0) => PolicyPorts::All,
            (Some(Port::Number(first)), 0) => {
                let first = port("number", first)?;
                PolicyPorts::Range(first, first)
            }
            (Some(Port::Number(first)), last) => {
                let first = port("number", first)?;
                let last = port("end_port", last)?;
                if last < first {
                    return Err(Fault::new("end_port", Problem::EndPort(wire.end_port)));
                }
                PolicyPorts::Range(first, last)
            }
            (Some(Port::Name(name)), 0) => PolicyPorts::Named(required("name", name)?),
            (None | Some(Port::Name(_)), last) => return Err(Fault::new("end_port", Problem::EndPort(last))),
        };
        Ok(Self { protocol, ports })
    }
}
