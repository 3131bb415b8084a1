//! Rules of a pod's spec.

use serde_json::Value;

use super::container::{Place, not_negative, one_of, require, validate_container};
use super::volume::validate_volumes;
use crate::api::access::{is_empty, items, text, texts};
use crate::api::field::{Faults, FieldError, Path};
use crate::api::names::{
    complain, label, label_value, qualified, subdomain, validate_annotations, validate_labels, validate_selector,
};
use crate::api::select::matches_typed;

/// Faults of a pod template.
pub(crate) fn validate_template(template: &Value, path: &Path, faults: &mut Faults) {
    let metadata = path.child("metadata");
    validate_labels(&template["metadata"]["labels"], &metadata.child("labels"), faults);
    validate_annotations(&template["metadata"]["annotations"], &metadata.child("annotations"), faults);
    validate_spec(&template["spec"], &path.child("spec"), faults);
}

/// Faults of a pod's spec.
pub(crate) fn validate_spec(spec: &Value, path: &Path, faults: &mut Faults) {
    validate_volumes(&spec["volumes"], &path.child("volumes"), faults);
    validate_containers(spec, path, faults);
    one_of(&spec["restartPolicy"], &["Always", "OnFailure", "Never"], &path.child("restartPolicy"), faults);
    let policies = ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"];
    one_of(&spec["dnsPolicy"], &policies, &path.child("dnsPolicy"), faults);
    if text(&spec["dnsPolicy"]) == "None" && items(&spec["dnsConfig"]["nameservers"]).is_empty() {
        let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        faults.push(FieldError::required(path.child("dnsConfig").child("nameservers"), detail));
    }
    not_negative(&spec["terminationGracePeriodSeconds"], &path.child("terminationGracePeriodSeconds"), faults);
    if let Some(deadline) = spec["activeDeadlineSeconds"].as_i64().filter(|d| *d < 1) {
        let detail = "must be between 1 and 2147483647, inclusive";
        faults.push(FieldError::invalid(path.child("activeDeadlineSeconds"), deadline, detail));
    }
    for (field, check) in [
        ("hostname", label as fn(&str) -> Option<String>),
        ("subdomain", label),
        ("nodeName", subdomain),
        ("serviceAccountName", subdomain),
    ] {
        let value = text(&spec[field]);
        if !value.is_empty() {
            complain(faults, path.child(field), value, check(value));
        }
    }
    validate_labels(&spec["nodeSelector"], &path.child("nodeSelector"), faults);
    for (index, secret) in items(&spec["imagePullSecrets"]).iter().enumerate() {
        require(secret, "name", &path.child("imagePullSecrets").index(index), faults);
    }
    validate_tolerations(&spec["tolerations"], &path.child("tolerations"), faults);
    validate_spread(&spec["topologySpreadConstraints"], &path.child("topologySpreadConstraints"), faults);
    validate_node_affinity(&spec["affinity"]["nodeAffinity"], &path.child("affinity").child("nodeAffinity"), faults);
    for (index, alias) in items(&spec["hostAliases"]).iter().enumerate() {
        let ip = text(&alias["ip"]);
        if ip.parse::<std::net::IpAddr>().is_err() {
            let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            faults.push(FieldError::invalid(path.child("hostAliases").index(index).child("ip"), ip, detail));
        }
    }
    let security = path.child("securityContext");
    for field in ["runAsUser", "runAsGroup", "fsGroup"] {
        not_negative(&spec["securityContext"][field], &security.child(field), faults);
    }
}

fn validate_containers(spec: &Value, path: &Path, faults: &mut Faults) {
    let volumes: Vec<&str> = items(&spec["volumes"]).iter().map(|v| text(&v["name"])).collect();
    if items(&spec["containers"]).is_empty() {
        faults.push(FieldError::required(path.child("containers"), ""));
    }
    let mut names: Vec<&str> = Vec::new();
    let mut host_ports: Vec<(i64, &str, &str)> = Vec::new();
    for (field, init) in [("containers", false), ("initContainers", true)] {
        for (index, container) in items(&spec[field]).iter().enumerate() {
            let here = path.child(field).index(index);
            let place = Place { volumes: &volumes, init };
            validate_container(container, &place, &here, faults);
            let name = text(&container["name"]);
            if !name.is_empty() && names.contains(&name) {
                faults.push(FieldError::duplicate(here.child("name"), name));
            }
            names.push(name);
            for (index, port) in items(&container["ports"]).iter().enumerate() {
                if spec["hostNetwork"] == true && port["hostPort"] != port["containerPort"] {
                    let here = here.child("ports").index(index).child("hostPort");
                    let detail = "must match `containerPort` when `hostNetwork` is true";
                    faults.push(FieldError::invalid(here, port["hostPort"].clone(), detail));
                }
                let Some(number) = port["hostPort"].as_i64().filter(|p| *p != 0 && !init) else { continue };
                let key = (number, text(&port["hostIP"]), text(&port["protocol"]));
                if host_ports.contains(&key) {
                    let text = format!("{}/{}/{}", key.2, key.1, key.0);
                    faults.push(FieldError::duplicate(here.child("ports").index(index).child("hostPort"), text));
                }
                host_ports.push(key);
            }
        }
    }
    if !is_empty(&spec["ephemeralContainers"]) {
        let detail = "ephemeral containers not allowed in create";
        faults.push(FieldError::forbidden(path.child("ephemeralContainers"), detail));
    }
}

fn validate_tolerations(tolerations: &Value, path: &Path, faults: &mut Faults) {
    for (index, toleration) in items(tolerations).iter().enumerate() {
        let here = path.index(index);
        let (key, operator) = (text(&toleration["key"]), text(&toleration["operator"]));
        let (value, effect) = (text(&toleration["value"]), text(&toleration["effect"]));
        if key.is_empty() {
            if operator != "Exists" {
                let detail =
                    "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
                faults.push(FieldError::invalid(here.child("operator"), operator, detail));
            }
        } else {
            complain(faults, here.child("key"), key, qualified(key));
        }
        match operator {
            "" | "Equal" => complain(faults, here.child("value"), value, label_value(value)),
            "Exists" if !value.is_empty() => {
                let detail = "value must be empty when `operator` is 'Exists'";
                faults.push(FieldError::invalid(here.child("operator"), value, detail));
            }
            "Exists" => {}
            other => faults.push(FieldError::not_supported(here.child("operator"), other, &["Equal", "Exists"])),
        }
        if !matches!(effect, "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            let supported = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
            faults.push(FieldError::not_supported(here.child("effect"), effect, &supported));
        }
        if !toleration["tolerationSeconds"].is_null() && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            faults.push(FieldError::invalid(here.child("effect"), effect, detail));
        }
    }
}

fn validate_spread(constraints: &Value, path: &Path, faults: &mut Faults) {
    let mut seen = Vec::new();
    for (index, constraint) in items(constraints).iter().enumerate() {
        let here = path.index(index);
        let skew = constraint["maxSkew"].as_i64().unwrap_or_default();
        if skew <= 0 {
            faults.push(FieldError::invalid(here.child("maxSkew"), skew, "must be greater than zero"));
        }
        let (key, action) = (text(&constraint["topologyKey"]), text(&constraint["whenUnsatisfiable"]));
        if key.is_empty() {
            faults.push(FieldError::required(here.child("topologyKey"), "can not be empty"));
        }
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        if !actions.contains(&action) {
            faults.push(FieldError::not_supported(here.child("whenUnsatisfiable"), action, &actions));
        }
        if seen.contains(&(key, action)) {
            let pair = format!("{{{key}, {action}}}");
            faults.push(FieldError::duplicate(here.child("{topologyKey, whenUnsatisfiable}"), pair));
        }
        seen.push((key, action));
        validate_selector(&constraint["labelSelector"], &here.child("labelSelector"), faults);
    }
}

fn validate_node_affinity(affinity: &Value, path: &Path, faults: &mut Faults) {
    let required = &affinity["requiredDuringSchedulingIgnoredDuringExecution"];
    let here = path.child("requiredDuringSchedulingIgnoredDuringExecution").child("nodeSelectorTerms");
    if !required.is_null() && items(&required["nodeSelectorTerms"]).is_empty() {
        faults.push(FieldError::required(here.clone(), "must have at least one node selector term"));
    }
    for (index, term) in items(&required["nodeSelectorTerms"]).iter().enumerate() {
        validate_term(term, &here.index(index), faults);
    }
    let here = path.child("preferredDuringSchedulingIgnoredDuringExecution");
    for (index, preferred) in items(&affinity["preferredDuringSchedulingIgnoredDuringExecution"]).iter().enumerate() {
        let weight = preferred["weight"].as_i64().unwrap_or_default();
        if !(1..=100).contains(&weight) {
            faults.push(FieldError::invalid(here.index(index).child("weight"), weight, "must be in the range 1-100"));
        }
        validate_term(&preferred["preference"], &here.index(index).child("preference"), faults);
    }
}

fn validate_term(term: &Value, path: &Path, faults: &mut Faults) {
    for (index, requirement) in items(&term["matchExpressions"]).iter().enumerate() {
        let here = path.child("matchExpressions").index(index);
        let (operator, count) = (text(&requirement["operator"]), items(&requirement["values"]).len());
        match (operator, count) {
            ("In" | "NotIn", 0) => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                faults.push(FieldError::required(here.child("values"), detail));
            }
            ("Exists" | "DoesNotExist", 1..) => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                faults.push(FieldError::forbidden(here.child("values"), detail));
            }
            ("Gt" | "Lt", 0 | 2..) => {
                let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                faults.push(FieldError::required(here.child("values"), detail));
            }
            ("In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt", _) => {}
            (other, _) => {
                faults.push(FieldError::invalid(here.child("operator"), other, "not a valid selector operator"));
            }
        }
        let key = text(&requirement["key"]);
        complain(faults, here.child("key"), key, qualified(key));
    }
}

/// Faults of `spec.selector` of a workload: present, well-formed, matching its own template.
pub(crate) fn validate_workload_selector(object: &Value, faults: &mut Faults) {
    let path = Path::new("spec").child("selector");
    let selector = &object["spec"]["selector"];
    if selector.is_null() {
        faults.push(FieldError::required(path, ""));
        return;
    }
    if is_empty(&selector["matchLabels"]) && is_empty(&selector["matchExpressions"]) {
        let detail = "empty selector is invalid for deployment";
        faults.push(FieldError::invalid(path, selector.clone(), detail));
        return;
    }
    let before = faults.len();
    validate_selector(selector, &path, faults);
    let labels = &object["spec"]["template"]["metadata"]["labels"];
    if faults.len() == before && !matches_typed(selector, labels) {
        let given: serde_json::Map<String, Value> =
            texts(labels).map(|(k, v)| (k.to_owned(), Value::from(v))).collect();
        let detail = "`selector` does not match template `labels`";
        let path = Path::new("spec").child("template").child("metadata").child("labels");
        faults.push(FieldError::invalid(path, Value::Object(given), detail));
    }
}
