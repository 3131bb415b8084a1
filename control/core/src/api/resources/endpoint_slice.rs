//! EndpointSlices.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::Value;

use crate::api::access::{fill, items, items_mut, text};
use crate::api::field::{Faults, FieldError, Path};
use crate::api::meta;
use crate::api::names::subdomain;
use crate::api::pod::check_port;
use crate::api::resource::{Resource, Strategy, Verb};
use crate::api::table::{Column, age, some_of};

const MAX_ENDPOINTS: usize = 1000;
const MAX_ADDRESSES: usize = 100;
const TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];

pub(super) static ENDPOINT_SLICE: Resource = Resource {
    group: "discovery.k8s.io",
    version: "v1",
    kind: "EndpointSlice",
    plural: "endpointslices",
    singular: "endpointslice",
    short_names: &[],
    categories: &[],
    namespaced: true,
    verbs: Verb::ALL,
    subresources: &[],
    storage: "endpointslices.discovery.k8s.io",
    strategy: Strategy {
        default: |object| {
            for port in items_mut(object, "ports") {
                fill(port, "name", "");
                fill(port, "protocol", "TCP");
            }
        },
        validate,
        validate_update: |new, old, faults| {
            if new["addressType"] != old["addressType"] {
                let value = new["addressType"].clone();
                faults.push(FieldError::invalid(Path::new("addressType"), value, "field is immutable"));
            }
        },
        generation: true,
        ..Strategy::PLAIN
    },
    columns: &[
        Column::NAME,
        Column::new("AddressType", "string"),
        Column::new("Ports", "string"),
        Column::new("Endpoints", "string"),
        Column::AGE,
    ],
    row: |object, now| {
        let ports: Vec<String> = items(&object["ports"])
            .iter()
            .map(|port| match port["port"].as_i64() {
                Some(number) => number.to_string(),
                None if !text(&port["name"]).is_empty() => text(&port["name"]).to_owned(),
                None => "*".into(),
            })
            .collect();
        let endpoints: Vec<String> = items(&object["endpoints"])
            .iter()
            .flat_map(|e| items(&e["addresses"]))
            .map(|a| text(a).to_owned())
            .collect();
        let shown = |all: &[String]| Value::from(if all.is_empty() { "<unset>".to_owned() } else { some_of(all, 3) });
        vec![
            meta::name(object).into(),
            text(&object["addressType"]).into(),
            shown(&ports),
            shown(&endpoints),
            age(object, now),
        ]
    },
    selectable: &[],
};

fn validate(object: &Value, faults: &mut Faults) {
    let kind = text(&object["addressType"]);
    if kind.is_empty() {
        faults.push(FieldError::required(Path::new("addressType"), ""));
    } else if !TYPES.contains(&kind) {
        faults.push(FieldError::not_supported(Path::new("addressType"), kind, &TYPES));
    }
    let endpoints = items(&object["endpoints"]);
    let path = Path::new("endpoints");
    if endpoints.len() > MAX_ENDPOINTS {
        faults.push(FieldError::too_many(path, endpoints.len(), MAX_ENDPOINTS));
        return;
    }
    for (index, endpoint) in endpoints.iter().enumerate() {
        let here = path.index(index).child("addresses");
        let addresses = items(&endpoint["addresses"]);
        if addresses.is_empty() {
            faults.push(FieldError::required(here, "must contain at least 1 address"));
            continue;
        }
        if addresses.len() > MAX_ADDRESSES {
            faults.push(FieldError::too_many(here, addresses.len(), MAX_ADDRESSES));
            continue;
        }
        for (index, address) in addresses.iter().enumerate() {
            let address = text(address);
            let wrong = match kind {
                "IPv4" if address.parse::<Ipv4Addr>().is_err() => Some("must be an IPv4 address".to_owned()),
                "IPv6" if address.parse::<Ipv6Addr>().is_err() => Some("must be an IPv6 address".to_owned()),
                "FQDN" => subdomain(address),
                _ => None,
            };
            if let Some(wrong) = wrong {
                faults.push(FieldError::invalid(here.index(index), address, &wrong));
            }
        }
    }
    let mut names = Vec::new();
    for (index, port) in items(&object["ports"]).iter().enumerate() {
        let here = Path::new("ports").index(index);
        let name = text(&port["name"]);
        if names.contains(&name) {
            faults.push(FieldError::duplicate(here.child("name"), name));
        }
        names.push(name);
        let protocol = text(&port["protocol"]);
        if !["SCTP", "TCP", "UDP"].contains(&protocol) {
            faults.push(FieldError::not_supported(here.child("protocol"), protocol, &["SCTP", "TCP", "UDP"]));
        }
        if !port["port"].is_null() {
            check_port(&port["port"], &here.child("port"), faults);
        }
    }
}
