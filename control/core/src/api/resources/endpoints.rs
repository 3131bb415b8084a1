//! Endpoints, the older form of EndpointSlices.

use serde_json::Value;

use crate::api::access::{fill, items, items_mut, text};
use crate::api::field::{Faults, FieldError, Path};
use crate::api::meta;
use crate::api::names::check_address;
use crate::api::pod::check_port;
use crate::api::resource::{Resource, Strategy, Verb};
use crate::api::table::{Column, age, or_none, some_of};

pub(super) static ENDPOINTS: Resource = Resource {
    group: "",
    version: "v1",
    kind: "Endpoints",
    plural: "endpoints",
    singular: "endpoints",
    short_names: &["ep"],
    categories: &[],
    namespaced: true,
    verbs: Verb::ALL,
    subresources: &[],
    storage: "endpoints",
    strategy: Strategy {
        default: |object| {
            for subset in items_mut(object, "subsets") {
                for port in items_mut(subset, "ports") {
                    fill(port, "protocol", "TCP");
                }
            }
        },
        validate,
        ..Strategy::PLAIN
    },
    columns: &[Column::NAME, Column::new("Endpoints", "string"), Column::AGE],
    row: |object, now| vec![meta::name(object).into(), list(object), age(object, now)],
    selectable: &[],
};

fn validate(object: &Value, faults: &mut Faults) {
    for (index, subset) in items(&object["subsets"]).iter().enumerate() {
        let path = Path::new("subsets").index(index);
        if items(&subset["addresses"]).is_empty() && items(&subset["notReadyAddresses"]).is_empty() {
            faults.push(FieldError::required(path.clone(), "must specify `addresses` or `notReadyAddresses`"));
        }
        for field in ["addresses", "notReadyAddresses"] {
            for (index, address) in items(&subset[field]).iter().enumerate() {
                let here = path.child(field).index(index).child("ip");
                check_address(&address["ip"], &here, faults);
            }
        }
        let ports = items(&subset["ports"]);
        for (index, port) in ports.iter().enumerate() {
            let here = path.child("ports").index(index);
            if ports.len() > 1 && text(&port["name"]).is_empty() {
                faults.push(FieldError::required(here.child("name"), ""));
            }
            check_port(&port["port"], &here.child("port"), faults);
        }
    }
}

fn list(endpoints: &Value) -> Value {
    let mut all = Vec::new();
    for subset in items(&endpoints["subsets"]) {
        let addresses = || items(&subset["addresses"]).iter().map(|address| text(&address["ip"]));
        if items(&subset["ports"]).is_empty() {
            all.extend(addresses().map(str::to_owned));
        }
        for port in items(&subset["ports"]) {
            let number = port["port"].as_i64().unwrap_or_default();
            all.extend(addresses().map(|ip| match ip.contains(':') {
                true => format!("[{ip}]:{number}"),
                false => format!("{ip}:{number}"),
            }));
        }
    }
    or_none(&some_of(&all, 3))
}
