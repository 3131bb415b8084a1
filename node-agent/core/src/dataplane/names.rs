use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::services;

/// What the numbers in the maps stand for: written to a file for people and tools, never read back by the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Names {
    /// By number of the endpoint set ([`Frontend::service`](skep_abi::Frontend::service)).
    pub services: BTreeMap<u32, ServiceName>,
    /// By backend id. A backend that is no pod is absent.
    pub backends: BTreeMap<u32, BackendName>,
    /// By identity.
    pub identities: BTreeMap<u64, IdentityName>,
    /// Local pods by endpoint id ([`Endpoint::id`](skep_abi::Endpoint::id)).
    pub endpoints: BTreeMap<u32, PodName>,
    /// Pods of all nodes by address.
    pub addresses: BTreeMap<IpAddr, PodName>,
    /// By rule list.
    pub rule_lists: BTreeMap<u32, RuleListName>,
}

/// What is needed to make [`Names`]: quick to take and on its own, so that another thread can do the rest.
#[derive(Debug, Default)]
pub struct NameSource {
    pub(crate) services: services::NameSource,
    /// All but those of Services and backends.
    pub(crate) others: Names,
}

impl NameSource {
    /// Looks everything up.
    #[must_use]
    pub fn names(self) -> Names {
        Names { services: self.services.services(), backends: self.services.backends(), ..self.others }
    }
}

/// A port of a Service, or a port of a pod that host ports lead to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceName {
    /// Namespace of the Service.
    pub namespace: String,
    /// Name of the Service.
    pub name: String,
    /// Name of the port, "" when it has none.
    pub port: String,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PodName {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
}

/// The pod behind a backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendName {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// The node that it runs on, "" when unknown.
    pub node: String,
}

/// What the pods of an identity have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityName {
    /// Namespace of the pods.
    pub namespace: String,
    /// Labels of the pods.
    pub labels: BTreeMap<String, String>,
}

/// Where a rule list comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleListName {
    /// `ingress` or `egress`.
    pub direction: String,
    /// Namespace of the policies.
    pub namespace: String,
    /// The policies that select the pods in this direction, in order.
    pub policies: Vec<String>,
    /// Element `i` is where rule `i` of the list comes from.
    pub rules: Vec<RuleName>,
}

/// One rule of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleName {
    /// Name of the policy.
    pub policy: String,
    /// Place in the policy's list of ingress or egress rules, from 0.
    pub rule: usize,
}
