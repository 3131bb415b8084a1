//! Services.

use serde_json::{Value, json};

use crate::api::access::{carry, child, fill, is_empty, items, items_mut, remove, set, text};
use crate::api::field::{Faults, FieldError, Path};
use crate::api::meta;
use crate::api::names::{complain, label, subdomain, validate_labels};
use crate::api::pod::{check_port, check_port_or_name};
use crate::api::resource::{NameRule, Resource, Strategy, Subresource, Verb};
use crate::api::table::{Column, age, labels, or_none};

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

pub(super) static SERVICE: Resource = Resource {
    group: "",
    version: "v1",
    kind: "Service",
    plural: "services",
    singular: "service",
    short_names: &["svc"],
    categories: &["all"],
    namespaced: true,
    verbs: Verb::ALL,
    subresources: &[Subresource::Status],
    storage: "services",
    strategy: Strategy {
        default,
        prepare_create: |object| set(object, "status", json!({"loadBalancer": {}})),
        prepare_update,
        validate,
        validate_update,
        name: NameRule::Rfc1035Label,
        returns_deleted: true,
        ..Strategy::WITH_STATUS
    },
    columns: &[
        Column::NAME,
        Column::new("Type", "string"),
        Column::new("Cluster-IP", "string"),
        Column::new("External-IP", "string"),
        Column::new("Port(s)", "string"),
        Column::AGE,
        Column::wide("Selector", "string"),
    ],
    row: |object, now| {
        let spec = &object["spec"];
        vec![
            meta::name(object).into(),
            text(&spec["type"]).into(),
            or_none(text(&spec["clusterIP"])),
            external(object),
            ports(&spec["ports"]),
            age(object, now),
            labels(&spec["selector"]),
        ]
    },
    selectable: &[
        ("spec.clusterIP", |o| text(&o["spec"]["clusterIP"]).into()),
        ("spec.type", |o| text(&o["spec"]["type"]).into()),
    ],
};

fn default(object: &mut Value) {
    let spec = child(object, "spec");
    fill(spec, "sessionAffinity", "None");
    if spec["sessionAffinity"] == "ClientIP" {
        fill(child(child(spec, "sessionAffinityConfig"), "clientIP"), "timeoutSeconds", 10_800);
    }
    fill(spec, "type", "ClusterIP");
    for port in items_mut(spec, "ports") {
        fill(port, "protocol", "TCP");
        let number = port["port"].clone();
        if port["targetPort"] == 0 || is_empty(&port["targetPort"]) {
            set(port, "targetPort", number);
        }
    }
    let kind = text(&spec["type"]).to_owned();
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        fill(spec, "externalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        fill(spec, "allocateLoadBalancerNodePorts", true);
    }
    if kind != "ExternalName" {
        fill(spec, "internalTrafficPolicy", "Cluster");
    }
}

/// What the server gave stays when the client does not repeat it, and goes with the type that it was given for.
fn prepare_update(new: &mut Value, old: &Value) {
    carry(new, old, "status");
    let kind = |object: &Value| text(&object["spec"]["type"]).to_owned();
    let (after, before) = (kind(new), kind(old));
    let spec = child(new, "spec");
    let addresses = ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"];
    match (after.as_str(), before.as_str()) {
        ("ExternalName", "ExternalName") | (_, "ExternalName") => {}
        ("ExternalName", _) => drop_unchanged(spec, old, &addresses),
        _ => {
            for field in addresses {
                if is_empty(&spec[field]) && !is_empty(&old["spec"][field]) {
                    carry(spec, &old["spec"], field);
                }
            }
        }
    }
    let has_node_ports = |kind: &str| matches!(kind, "NodePort" | "LoadBalancer");
    if !has_node_ports(&after) {
        drop_unchanged(spec, old, &["externalTrafficPolicy"]);
    }
    if after != "LoadBalancer" {
        drop_unchanged(spec, old, &["allocateLoadBalancerNodePorts"]);
    }
    if after == "ExternalName" {
        drop_unchanged(spec, old, &["internalTrafficPolicy"]);
    }
    for port in items_mut(spec, "ports") {
        let Some(same) = before_port(old, port) else { continue };
        if !has_node_ports(&after) {
            drop_same(port, same, "nodePort");
        } else if port["nodePort"].as_i64().unwrap_or_default() == 0 {
            carry(port, same, "nodePort");
        }
    }
}

/// Removes fields of the spec that are as they were.
fn drop_unchanged(spec: &mut Value, old: &Value, fields: &[&str]) {
    for field in fields {
        drop_same(spec, &old["spec"], field);
    }
}

fn drop_same(value: &mut Value, old: &Value, field: &str) {
    if value[field] == old[field] {
        remove(value, field);
    }
}

fn before_port<'a>(old: &'a Value, port: &Value) -> Option<&'a Value> {
    items(&old["spec"]["ports"]).iter().find(|b| b["port"] == port["port"] && b["protocol"] == port["protocol"])
}

fn validate(object: &Value, faults: &mut Faults) {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    let kind = text(&spec["type"]);
    if !TYPES.contains(&kind) {
        faults.push(FieldError::not_supported(path.child("type"), kind, &TYPES));
    }
    let headless = text(&spec["clusterIP"]) == "None";
    if kind == "ExternalName" {
        let name = text(&spec["externalName"]);
        if name.is_empty() {
            faults.push(FieldError::required(path.child("externalName"), ""));
        } else {
            complain(faults, path.child("externalName"), name, subdomain(name.trim_end_matches('.')));
        }
        if !is_empty(&spec["clusterIP"]) {
            let detail = "may not be set when `type` is 'ExternalName'";
            faults.push(FieldError::forbidden(path.child("clusterIPs"), detail));
        }
    } else if items(&spec["ports"]).is_empty() && !headless {
        faults.push(FieldError::required(path.child("ports"), ""));
    }
    if headless && matches!(kind, "NodePort" | "LoadBalancer") {
        let detail = format!("may not be set to 'None' for {kind} services");
        faults.push(FieldError::invalid(path.child("clusterIPs").index(0), "None", &detail));
    }
    validate_ports(spec, &path.child("ports"), faults);
    validate_labels(&spec["selector"], &path.child("selector"), faults);
    for (field, supported) in [
        ("sessionAffinity", ["ClientIP", "None"]),
        ("internalTrafficPolicy", ["Cluster", "Local"]),
        ("externalTrafficPolicy", ["Cluster", "Local"]),
    ] {
        let value = text(&spec[field]);
        if !value.is_empty() && !supported.contains(&value) {
            faults.push(FieldError::not_supported(path.child(field), value, &supported));
        }
    }
    let timeout = &spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"];
    if timeout.as_i64().is_some_and(|t| !(1..=86_400).contains(&t)) {
        let here = path.child("sessionAffinityConfig").child("clientIP").child("timeoutSeconds");
        faults.push(FieldError::invalid(here, timeout.clone(), "must be greater than 0 and less than 86400"));
    }
    for (index, ip) in items(&spec["externalIPs"]).iter().enumerate() {
        if text(ip).parse::<std::net::IpAddr>().is_err() {
            let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            faults.push(FieldError::invalid(path.child("externalIPs").index(index), ip.clone(), detail));
        }
    }
}

fn validate_ports(spec: &Value, path: &Path, faults: &mut Faults) {
    let ports = items(&spec["ports"]);
    let (mut names, mut numbers, mut node_ports) = (Vec::new(), Vec::new(), Vec::new());
    for (index, port) in ports.iter().enumerate() {
        let here = path.index(index);
        let name = text(&port["name"]);
        if name.is_empty() {
            if ports.len() > 1 {
                faults.push(FieldError::required(here.child("name"), ""));
            }
        } else {
            complain(faults, here.child("name"), name, label(name));
            if names.contains(&name) {
                faults.push(FieldError::duplicate(here.child("name"), name));
            }
            names.push(name);
        }
        check_port(&port["port"], &here.child("port"), faults);
        check_port_or_name(&port["targetPort"], &here.child("targetPort"), faults);
        let protocol = text(&port["protocol"]);
        if !["SCTP", "TCP", "UDP"].contains(&protocol) {
            faults.push(FieldError::not_supported(here.child("protocol"), protocol, &["SCTP", "TCP", "UDP"]));
        }
        let key = (port["port"].as_i64(), protocol);
        if numbers.contains(&key) {
            faults.push(FieldError::duplicate(here.clone(), json!({"port": port["port"], "protocol": protocol})));
        }
        numbers.push(key);
        let node_port = port["nodePort"].as_i64().filter(|p| *p != 0);
        if let Some(node_port) = node_port {
            if !matches!(text(&spec["type"]), "NodePort" | "LoadBalancer") {
                let detail = format!("may not be used when `type` is '{}'", text(&spec["type"]));
                faults.push(FieldError::forbidden(here.child("nodePort"), &detail));
            } else if node_ports.contains(&(node_port, protocol)) {
                faults.push(FieldError::duplicate(here.child("nodePort"), node_port));
            }
            node_ports.push((node_port, protocol));
        }
    }
}

fn validate_update(new: &Value, old: &Value, faults: &mut Faults) {
    let external = |object: &Value| text(&object["spec"]["type"]) == "ExternalName";
    if external(new) || external(old) || is_empty(&old["spec"]["clusterIP"]) {
        return;
    }
    let path = Path::new("spec");
    if new["spec"]["clusterIP"] != old["spec"]["clusterIP"] {
        let value = new["spec"]["clusterIP"].clone();
        faults.push(FieldError::invalid(path.child("clusterIPs").index(0), json!([value]), "may not change once set"));
    } else if items(&new["spec"]["clusterIPs"]).first() != items(&old["spec"]["clusterIPs"]).first() {
        let value = new["spec"]["clusterIPs"].clone();
        faults.push(FieldError::invalid(path.child("clusterIPs").index(0), value, "may not change once set"));
    }
    let (after, before) = (items(&new["spec"]["ipFamilies"]).first(), items(&old["spec"]["ipFamilies"]).first());
    if before.is_some() && after != before {
        let value = new["spec"]["ipFamilies"].clone();
        faults.push(FieldError::invalid(path.child("ipFamilies").index(0), value, "may not change once set"));
    }
}

fn external(service: &Value) -> Value {
    let spec = &service["spec"];
    let mut all: Vec<&str> = Vec::new();
    match text(&spec["type"]) {
        "ExternalName" => return text(&spec["externalName"]).into(),
        "LoadBalancer" => {
            all.extend(items(&service["status"]["loadBalancer"]["ingress"]).iter().map(|ingress| {
                match text(&ingress["ip"]) {
                    "" => text(&ingress["hostname"]),
                    ip => ip,
                }
            }));
            all.extend(items(&spec["externalIPs"]).iter().map(text));
            if all.is_empty() {
                return "<pending>".into();
            }
        }
        _ => all.extend(items(&spec["externalIPs"]).iter().map(text)),
    }
    or_none(&all.join(","))
}

fn ports(ports: &Value) -> Value {
    let all: Vec<String> = items(ports)
        .iter()
        .map(|port| {
            let (number, protocol) = (port["port"].as_i64().unwrap_or_default(), text(&port["protocol"]));
            match port["nodePort"].as_i64().unwrap_or_default() {
                0 => format!("{number}/{protocol}"),
                node => format!("{number}:{node}/{protocol}"),
            }
        })
        .collect();
    or_none(&all.join(","))
}
