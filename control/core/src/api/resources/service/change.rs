//! What a change of a Service keeps, drops and may not touch.

use serde_json::{Value, json};

use super::{externally_accessible, needs_health_check};
use crate::api::access::{carry, child, is_empty, items, items_mut, remove, set, text};
use crate::api::field::{Faults, FieldError, Path};

/// What the server gave stays when the client does not repeat it, and goes with the type that it was given for.
pub(super) fn prepare_update(new: &mut Value, old: &Value) {
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
    if !externally_accessible(spec) {
        drop_unchanged(spec, old, &["externalTrafficPolicy"]);
    }
    if after != "LoadBalancer" {
        drop_unchanged(spec, old, &["allocateLoadBalancerNodePorts", "loadBalancerClass"]);
    }
    if after == "ExternalName" {
        drop_unchanged(spec, old, &["internalTrafficPolicy"]);
    }
    let no_check = spec["healthCheckNodePort"].as_i64().unwrap_or_default() == 0;
    match (needs_health_check(spec), needs_health_check(&old["spec"])) {
        (true, true) if no_check => carry(spec, &old["spec"], "healthCheckNodePort"),
        (false, true) => drop_unchanged(spec, old, &["healthCheckNodePort"]),
        _ => {}
    }
    // Without allocation, a node port that is left out is given up.
    let allocates = after == "NodePort" || spec["allocateLoadBalancerNodePorts"] != false;
    for port in items_mut(spec, "ports") {
        let Some(same) = before_port(old, port) else { continue };
        if !has_node_ports(&after) {
            drop_same(port, same, "nodePort");
        } else if allocates && port["nodePort"].as_i64().unwrap_or_default() == 0 {
            carry(port, same, "nodePort");
        }
    }
    // The addresses are given back with the type that they were given for.
    if after != "LoadBalancer" && before == "LoadBalancer" {
        set(child(new, "status"), "loadBalancer", json!({}));
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

pub(super) fn validate_update(new: &Value, old: &Value, faults: &mut Faults) {
    let path = Path::new("spec");
    let kind = |object: &Value| text(&object["spec"]["type"]).to_owned();
    if kind(new) == "LoadBalancer"
        && kind(old) == "LoadBalancer"
        && new["spec"]["loadBalancerClass"] != old["spec"]["loadBalancerClass"]
    {
        let value = new["spec"]["loadBalancerClass"].clone();
        faults.push(FieldError::invalid(path.child("loadBalancerClass"), value, "may not change once set"));
    }
    if needs_health_check(&new["spec"])
        && needs_health_check(&old["spec"])
        && new["spec"]["healthCheckNodePort"] != old["spec"]["healthCheckNodePort"]
    {
        faults.push(FieldError::forbidden(path.child("healthCheckNodePort"), "field is immutable"));
    }
    if kind(new) == "ExternalName" || kind(old) == "ExternalName" || is_empty(&old["spec"]["clusterIP"]) {
        return;
    }
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
