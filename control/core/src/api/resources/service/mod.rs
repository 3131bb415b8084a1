//! Services.

mod change;
mod validate;

use serde_json::{Value, json};

use crate::api::access::{child, existing, fill, is_empty, items, items_mut, remove, set, text};
use crate::api::meta;
use crate::api::resource::{NameRule, Resource, Strategy, Subresource, Verb};
use crate::api::table::{Column, age, labels, or_none};

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
        prepare_update: change::prepare_update,
        validate: validate::validate,
        validate_update: change::validate_update,
        validate_status: validate::validate_status,
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
    match text(&spec["sessionAffinity"]) {
        "None" => remove(spec, "sessionAffinityConfig"),
        "ClientIP" => fill(child(child(spec, "sessionAffinityConfig"), "clientIP"), "timeoutSeconds", 10_800),
        _ => {}
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
    if externally_accessible(spec) {
        fill(spec, "externalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        fill(spec, "allocateLoadBalancerNodePorts", true);
    }
    if kind != "ExternalName" {
        fill(spec, "internalTrafficPolicy", "Cluster");
    }
    if let Some(balancer) = existing(object, "status").and_then(|status| existing(status, "loadBalancer")) {
        for ingress in items_mut(balancer, "ingress").filter(|ingress| !is_empty(&ingress["ip"])) {
            fill(ingress, "ipMode", "VIP");
        }
    }
}

/// Whether it can be reached from outside of the cluster, so that it needs an `externalTrafficPolicy`.
fn externally_accessible(spec: &Value) -> bool {
    match text(&spec["type"]) {
        "NodePort" | "LoadBalancer" => true,
        "ClusterIP" => !items(&spec["externalIPs"]).is_empty(),
        _ => false,
    }
}

/// Whether nodes answer health checks of a load balancer for it.
pub(crate) fn needs_health_check(spec: &Value) -> bool {
    text(&spec["type"]) == "LoadBalancer" && text(&spec["externalTrafficPolicy"]) == "Local"
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
