//! NetworkPolicies.

use std::net::IpAddr;

use serde_json::Value;

use crate::address::parse_cidr;
use crate::api::access::{child, fill, is_empty, items, items_mut, set, text};
use crate::api::field::{Faults, FieldError, Path};
use crate::api::meta;
use crate::api::names::validate_selector;
use crate::api::pod::check_port_or_name;
use crate::api::resource::{Resource, Strategy, Verb};
use crate::api::table::{Column, age, selector};

pub(super) static NETWORK_POLICY: Resource = Resource {
    group: "networking.k8s.io",
    version: "v1",
    kind: "NetworkPolicy",
    plural: "networkpolicies",
    singular: "networkpolicy",
    short_names: &["netpol"],
    categories: &[],
    namespaced: true,
    verbs: Verb::ALL,
    subresources: &[],
    storage: "networkpolicies.networking.k8s.io",
    strategy: Strategy { default, validate, generation: true, ..Strategy::PLAIN },
    columns: &[Column::NAME, Column::new("Pod-Selector", "string"), Column::AGE],
    row: |object, now| vec![meta::name(object).into(), selector(&object["spec"]["podSelector"]), age(object, now)],
    selectable: &[],
};

fn default(object: &mut Value) {
    let spec = child(object, "spec");
    child(spec, "podSelector");
    for direction in ["ingress", "egress"] {
        for rule in items_mut(spec, direction) {
            for port in items_mut(rule, "ports") {
                fill(port, "protocol", "TCP");
            }
        }
    }
    if is_empty(&spec["policyTypes"]) {
        let egress = !items(&spec["egress"]).is_empty();
        set(spec, "policyTypes", if egress { vec!["Ingress", "Egress"] } else { vec!["Ingress"] });
    }
}

fn validate(object: &Value, faults: &mut Faults) {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    validate_selector(&spec["podSelector"], &path.child("podSelector"), faults);
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in items(&spec[direction]).iter().enumerate() {
            let here = path.child(direction).index(index);
            for (index, port) in items(&rule["ports"]).iter().enumerate() {
                validate_port(port, &here.child("ports").index(index), faults);
            }
            for (index, peer) in items(&rule[peers]).iter().enumerate() {
                validate_peer(peer, &here.child(peers).index(index), faults);
            }
        }
    }
    let types = items(&spec["policyTypes"]);
    for (index, kind) in types.iter().enumerate() {
        if !matches!(text(kind), "Ingress" | "Egress") {
            let here = path.child("policyTypes").index(index);
            faults.push(FieldError::not_supported(here, kind.clone(), &["Egress", "Ingress"]));
        }
    }
    if types.len() > 2 {
        let detail = "may not specify more than two policyTypes";
        faults.push(FieldError::invalid(path.child("policyTypes"), spec["policyTypes"].clone(), detail));
    }
}

fn validate_port(port: &Value, path: &Path, faults: &mut Faults) {
    let protocol = text(&port["protocol"]);
    if !["SCTP", "TCP", "UDP"].contains(&protocol) {
        faults.push(FieldError::not_supported(path.child("protocol"), protocol, &["SCTP", "TCP", "UDP"]));
    }
    let number = &port["port"];
    if !number.is_null() {
        check_port_or_name(number, &path.child("port"), faults);
    }
    let Some(end) = port["endPort"].as_i64() else { return };
    let here = path.child("endPort");
    match number {
        Value::Null => faults.push(FieldError::required(path.child("port"), "must be specified when `endPort` is set")),
        Value::String(_) => {
            faults.push(FieldError::invalid(here, end, "may not be specified when `port` is non-numeric"));
        }
        first if end < first.as_i64().unwrap_or_default() => {
            faults.push(FieldError::invalid(here, end, "must be greater than or equal to `port`"));
        }
        _ if end > 65_535 => faults.push(FieldError::invalid(here, end, "must be between 1 and 65535, inclusive")),
        _ => {}
    }
}

fn validate_peer(peer: &Value, path: &Path, faults: &mut Faults) {
    let given = ["podSelector", "namespaceSelector", "ipBlock"].iter().filter(|f| !peer[**f].is_null()).count();
    if given == 0 {
        faults.push(FieldError::required(path.clone(), "must specify a peer"));
    }
    if !peer["ipBlock"].is_null() && given > 1 {
        faults.push(FieldError::forbidden(path.clone(), "may not specify both ipBlock and another peer"));
    }
    for field in ["podSelector", "namespaceSelector"] {
        validate_selector(&peer[field], &path.child(field), faults);
    }
    if !peer["ipBlock"].is_null() {
        validate_block(&peer["ipBlock"], &path.child("ipBlock"), faults);
    }
}

fn validate_block(block: &Value, path: &Path, faults: &mut Faults) {
    let cidr = text(&block["cidr"]);
    let here = path.child("cidr");
    if cidr.is_empty() {
        faults.push(FieldError::required(here, ""));
        return;
    }
    let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    let Some(outer) = parse_cidr(cidr) else {
        faults.push(FieldError::invalid(here, cidr, detail));
        return;
    };
    for (index, except) in items(&block["except"]).iter().enumerate() {
        let here = path.child("except").index(index);
        match parse_cidr(text(except)) {
            None => faults.push(FieldError::invalid(here, except.clone(), detail)),
            Some(inner) if !is_strict_subset(inner, outer) => {
                faults.push(FieldError::invalid(here, except.clone(), "must be a strict subset of `cidr`"));
            }
            Some(_) => {}
        }
    }
}

fn is_strict_subset(inner: (IpAddr, u8), outer: (IpAddr, u8)) -> bool {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(a) => u128::from(u32::from(a)) << 96,
        IpAddr::V6(a) => u128::from(a),
    };
    let network = |address: IpAddr| bits(address).checked_shr(128 - u32::from(outer.1)).unwrap_or_default();
    inner.0.is_ipv4() == outer.0.is_ipv4() && inner.1 > outer.1 && network(inner.0) == network(outer.0)
}
