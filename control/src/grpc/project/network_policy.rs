//! NetworkPolicies.

use k8s_openapi::api::networking::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector as ApiSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use skep_proto::dataplane::v1::label_selector_requirement::Operator;
use skep_proto::dataplane::v1::policy_peer::Peer;
use skep_proto::dataplane::v1::policy_port::Port;
use skep_proto::dataplane::v1::{
    IpBlock, LabelSelector, LabelSelectorRequirement, NetworkPolicy, PodPeer, PolicyPeer, PolicyPort, PolicyRule,
};

use super::{port, protocol};

pub(super) fn project(policy: &v1::NetworkPolicy) -> NetworkPolicy {
    let spec = policy.spec.clone().unwrap_or_default();
    let has = |direction: &str| spec.policy_types.iter().flatten().any(|kind| kind == direction);
    // Without types a policy isolates ingress, and egress if it has rules for it.
    let typed = spec.policy_types.as_ref().is_some_and(|types| !types.is_empty());
    let egress_rules = spec.egress.as_ref().is_some_and(|rules| !rules.is_empty());
    NetworkPolicy {
        namespace: policy.metadata.namespace.clone().unwrap_or_default(),
        name: policy.metadata.name.clone().unwrap_or_default(),
        pod_selector: Some(spec.pod_selector.as_ref().map(selector).unwrap_or_default()),
        ingress_isolated: if typed { has("Ingress") } else { true },
        egress_isolated: if typed { has("Egress") } else { egress_rules },
        ingress: spec.ingress.iter().flatten().map(|r| rule(r.from.as_deref(), r.ports.as_deref())).collect(),
        egress: spec.egress.iter().flatten().map(|r| rule(r.to.as_deref(), r.ports.as_deref())).collect(),
    }
}

fn rule(peers: Option<&[v1::NetworkPolicyPeer]>, ports: Option<&[v1::NetworkPolicyPort]>) -> PolicyRule {
    PolicyRule {
        peers: peers.into_iter().flatten().map(peer).collect(),
        ports: ports.into_iter().flatten().map(policy_port).collect(),
    }
}

fn peer(peer: &v1::NetworkPolicyPeer) -> PolicyPeer {
    let peer = match &peer.ip_block {
        Some(block) => {
            Peer::IpBlock(IpBlock { cidr: block.cidr.clone(), except: block.except.clone().unwrap_or_default() })
        }
        None => Peer::Pods(PodPeer {
            namespace_selector: peer.namespace_selector.as_ref().map(selector),
            pod_selector: peer.pod_selector.as_ref().map(selector),
        }),
    };
    PolicyPeer { peer: Some(peer) }
}

fn policy_port(given: &v1::NetworkPolicyPort) -> PolicyPort {
    PolicyPort {
        protocol: protocol(given.protocol.as_deref()).into(),
        port: given.port.as_ref().map(|number| match number {
            IntOrString::Int(number) => Port::Number(port(*number)),
            IntOrString::String(name) => Port::Name(name.clone()),
        }),
        end_port: given.end_port.map(port).unwrap_or_default(),
    }
}

fn selector(selector: &ApiSelector) -> LabelSelector {
    let requirements = selector.match_expressions.iter().flatten().map(|expression| LabelSelectorRequirement {
        key: expression.key.clone(),
        operator: match expression.operator.as_str() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            _ => Operator::Unspecified,
        }
        .into(),
        values: expression.values.clone().unwrap_or_default(),
    });
    let labels = selector.match_labels.iter().flatten().map(|(key, value)| (key.clone(), value.clone()));
    LabelSelector { match_labels: labels.collect(), match_expressions: requirements.collect() }
}
