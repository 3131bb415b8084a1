//! Faults of a Service, in the order and words of Kubernetes.

use serde_json::{Value, json};

use super::{externally_accessible, needs_health_check};
use crate::address::parse_cidr;
use crate::api::access::{is_empty, items, text};
use crate::api::field::{Faults, FieldError, Path};
use crate::api::names::{check_address, complain, label, qualified, subdomain, validate_labels};
use crate::api::pod::{check_port, check_port_or_name};

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const ONLY_LOAD_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";
/// The older way to say `loadBalancerSourceRanges`; its ranges are checked, and the field is what counts.
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
/// Where nodes' agents serve logs: not to be opened to the outside by a load balancer.
const AGENT_PORT: i64 = 10_250;

pub(super) fn validate(object: &Value, faults: &mut Faults) {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    let kind = text(&spec["type"]);
    if !TYPES.contains(&kind) {
        faults.push(FieldError::not_supported(path.child("type"), kind, &TYPES));
    }
    let headless = text(&spec["clusterIP"]) == "None";
    if items(&spec["ports"]).is_empty() && !headless && kind != "ExternalName" {
        faults.push(FieldError::required(path.child("ports"), ""));
    }
    if kind == "ExternalName" {
        validate_name(spec, &path, faults);
    }
    if headless && matches!(kind, "NodePort" | "LoadBalancer") {
        let detail = format!("may not be set to 'None' for {kind} services");
        faults.push(FieldError::invalid(path.child("clusterIPs").index(0), "None", &detail));
    }
    validate_ports(spec, &path.child("ports"), faults);
    validate_labels(&spec["selector"], &path.child("selector"), faults);
    validate_affinity(spec, &path, faults);
    for (index, ip) in items(&spec["externalIPs"]).iter().enumerate() {
        check_address(ip, &path.child("externalIPs").index(index), faults);
    }
    validate_source_ranges(object, faults);
    validate_balancer(spec, &path, faults);
    validate_policies(spec, &path, faults);
}

fn validate_name(spec: &Value, path: &Path, faults: &mut Faults) {
    for (field, named) in
        [("clusterIP", "clusterIPs"), ("ipFamilies", "ipFamilies"), ("ipFamilyPolicy", "ipFamilyPolicy")]
    {
        if !is_empty(&spec[field]) {
            faults.push(FieldError::forbidden(path.child(named), "may not be set when `type` is 'ExternalName'"));
        }
    }
    // A dot at the end says that the name is complete.
    let name = text(&spec["externalName"]);
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() {
        faults.push(FieldError::required(path.child("externalName"), ""));
    } else {
        complain(faults, path.child("externalName"), name, subdomain(name));
    }
}

fn validate_affinity(spec: &Value, path: &Path, faults: &mut Faults) {
    let value = text(&spec["sessionAffinity"]);
    if !["ClientIP", "None"].contains(&value) {
        faults.push(FieldError::not_supported(path.child("sessionAffinity"), value, &["ClientIP", "None"]));
    }
    let timeout = &spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"];
    if timeout.as_i64().is_some_and(|t| !(1..=86_400).contains(&t)) {
        let here = path.child("sessionAffinityConfig").child("clientIP").child("timeoutSeconds");
        faults.push(FieldError::invalid(here, timeout.clone(), "must be greater than 0 and less than 86400"));
    }
}

fn validate_source_ranges(object: &Value, faults: &mut Faults) {
    let ranges = items(&object["spec"]["loadBalancerSourceRanges"]);
    let balancer = text(&object["spec"]["type"]) == "LoadBalancer";
    let mut check = |path: Path, range: &str| {
        if parse_cidr(range.trim()).is_none() {
            let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            faults.push(FieldError::invalid(path, range, detail));
        }
    };
    // Kubernetes itself spells the field so in its answers.
    let path = Path::new("spec").child("LoadBalancerSourceRanges");
    for (index, range) in ranges.iter().enumerate() {
        check(path.index(index), text(range));
    }
    let annotation = &object["metadata"]["annotations"][SOURCE_RANGES];
    let path = if ranges.is_empty() && annotation.is_string() {
        let path = Path::new("metadata").child("annotations").key(SOURCE_RANGES);
        for range in text(annotation).split(',').filter(|_| !text(annotation).trim().is_empty()) {
            check(path.clone(), range);
        }
        path
    } else {
        path
    };
    if !balancer && (annotation.is_string() || !ranges.is_empty()) {
        faults.push(FieldError::forbidden(path, ONLY_LOAD_BALANCER));
    }
}

fn validate_balancer(spec: &Value, path: &Path, faults: &mut Faults) {
    let balancer = text(&spec["type"]) == "LoadBalancer";
    if !balancer && !spec["allocateLoadBalancerNodePorts"].is_null() {
        faults.push(FieldError::forbidden(path.child("allocateLoadBalancerNodePorts"), ONLY_LOAD_BALANCER));
    }
    let here = path.child("loadBalancerClass");
    match &spec["loadBalancerClass"] {
        Value::Null => {}
        class if balancer => complain(faults, here, text(class), qualified(text(class))),
        _ => faults.push(FieldError::forbidden(here, ONLY_LOAD_BALANCER)),
    }
}

fn validate_policies(spec: &Value, path: &Path, faults: &mut Faults) {
    let here = path.child("externalTrafficPolicy");
    let policy = text(&spec["externalTrafficPolicy"]);
    if !externally_accessible(spec) {
        if !policy.is_empty() {
            faults.push(FieldError::invalid(here, policy, "may only be set for externally-accessible services"));
        }
    } else if policy.is_empty() {
        faults.push(FieldError::required(here, ""));
    } else if !["Cluster", "Local"].contains(&policy) {
        faults.push(FieldError::not_supported(here, policy, &["Cluster", "Local"]));
    }
    let here = path.child("healthCheckNodePort");
    let check = spec["healthCheckNodePort"].as_i64().unwrap_or_default();
    if !needs_health_check(spec) && check != 0 {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        faults.push(FieldError::invalid(here, check, detail));
    } else if check != 0 {
        check_port(&spec["healthCheckNodePort"], &here, faults);
    }
    for (field, supported) in [
        ("internalTrafficPolicy", &["Cluster", "Local"][..]),
        ("trafficDistribution", &["PreferClose", "PreferSameNode", "PreferSameZone"]),
    ] {
        let value = text(&spec[field]);
        if !spec[field].is_null() && !supported.contains(&value) {
            faults.push(FieldError::not_supported(path.child(field), value, supported));
        }
    }
}

fn validate_ports(spec: &Value, path: &Path, faults: &mut Faults) {
    let ports = items(&spec["ports"]);
    let (mut names, mut numbers, mut node_ports) = (Vec::new(), Vec::new(), Vec::new());
    for (index, port) in ports.iter().enumerate() {
        let here = path.index(index);
        if text(&spec["type"]) == "LoadBalancer" && port["port"].as_i64() == Some(AGENT_PORT) {
            let detail = format!("may not expose port {AGENT_PORT} externally since it is used by kubelet");
            faults.push(FieldError::invalid(here.clone(), AGENT_PORT, &detail));
        }
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
        if !port["appProtocol"].is_null() {
            let value = text(&port["appProtocol"]);
            complain(faults, here.child("appProtocol"), value, qualified(value));
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

/// Faults of what a load balancer's controller writes.
pub(super) fn validate_status(new: &Value, _old: &Value, faults: &mut Faults) {
    let ingress = items(&new["status"]["loadBalancer"]["ingress"]);
    let path = Path::new("status").child("loadBalancer").child("ingress");
    if !ingress.is_empty() && text(&new["spec"]["type"]) != "LoadBalancer" {
        faults.push(FieldError::forbidden(path.clone(), "may only be used when `spec.type` is 'LoadBalancer'"));
    }
    for (index, ingress) in ingress.iter().enumerate() {
        let here = path.index(index);
        let (ip, mode, name) = (text(&ingress["ip"]), &ingress["ipMode"], text(&ingress["hostname"]));
        if !ip.is_empty() && ip.parse::<std::net::IpAddr>().is_err() {
            let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            faults.push(FieldError::invalid(here.child("ip"), ip, detail));
        }
        if !mode.is_null() && ip.is_empty() {
            faults.push(FieldError::forbidden(here.child("ipMode"), "may not be specified when `ip` is not set"));
        } else if !mode.is_null() && !["Proxy", "VIP"].contains(&text(mode)) {
            faults.push(FieldError::not_supported(here.child("ipMode"), mode.clone(), &["Proxy", "VIP"]));
        }
        if !name.is_empty() {
            complain(faults, here.child("hostname"), name, subdomain(name));
            if name.parse::<std::net::IpAddr>().is_ok() {
                let detail = "must be a DNS name, not an IP address";
                faults.push(FieldError::invalid(here.child("hostname"), name, detail));
            }
        }
    }
}
