//! Rules of one container.

use serde_json::Value;

use crate::api::access::{entries, is_empty, items, text};
use crate::api::field::{Faults, FieldError, Path};
use crate::api::names::{complain, env_name, label, port_name};
use crate::api::quantity;

/// Where the container stands, and what it may refer to.
pub(super) struct Place<'a> {
    /// Names of the pod's volumes.
    pub(super) volumes: &'a [&'a str],
    /// Runs before the others and then ends.
    pub(super) init: bool,
}

/// Faults of one container.
pub(super) fn validate_container(container: &Value, place: &Place<'_>, path: &Path, faults: &mut Faults) {
    let name = text(&container["name"]);
    if name.is_empty() {
        faults.push(FieldError::required(path.child("name"), ""));
    } else {
        complain(faults, path.child("name"), name, label(name));
    }
    let image = text(&container["image"]);
    if image.is_empty() {
        faults.push(FieldError::required(path.child("image"), ""));
    } else if image.trim() != image {
        let detail = "must not have leading or trailing whitespace";
        faults.push(FieldError::invalid(path.child("image"), image, detail));
    }
    one_of(&container["imagePullPolicy"], &["Always", "IfNotPresent", "Never"], &path.child("imagePullPolicy"), faults);
    let policies = ["FallbackToLogsOnError", "File"];
    one_of(&container["terminationMessagePolicy"], &policies, &path.child("terminationMessagePolicy"), faults);
    validate_ports(&container["ports"], &path.child("ports"), faults);
    validate_env(container, path, faults);
    validate_mounts(&container["volumeMounts"], place.volumes, &path.child("volumeMounts"), faults);
    validate_resources(&container["resources"], &path.child("resources"), faults);
    validate_probes(container, place.init, path, faults);
    validate_security(&container["securityContext"], &path.child("securityContext"), faults);
}

/// Notes a value that is set and none of the supported ones.
pub(super) fn one_of(value: &Value, supported: &[&str], path: &Path, faults: &mut Faults) {
    let given = text(value);
    if !value.is_null() && !supported.contains(&given) {
        faults.push(FieldError::not_supported(path.clone(), given, supported));
    }
}

/// Notes a number that is no port.
pub(crate) fn check_port(value: &Value, path: &Path, faults: &mut Faults) {
    let port = value.as_i64().unwrap_or_default();
    if !(1..=65535).contains(&port) {
        faults.push(FieldError::invalid(path.clone(), port, "must be between 1 and 65535, inclusive"));
    }
}

/// Notes a port that is neither a number in range nor a name.
pub(crate) fn check_port_or_name(value: &Value, path: &Path, faults: &mut Faults) {
    match value {
        Value::String(name) => complain(faults, path.clone(), name, port_name(name)),
        number => check_port(number, path, faults),
    }
}

/// Notes a negative number.
pub(super) fn not_negative(value: &Value, path: &Path, faults: &mut Faults) {
    if let Some(number) = value.as_i64().filter(|n| *n < 0) {
        faults.push(FieldError::invalid(path.clone(), number, "must be greater than or equal to 0"));
    }
}

fn validate_ports(ports: &Value, path: &Path, faults: &mut Faults) {
    let mut names: Vec<&str> = Vec::new();
    for (index, port) in items(ports).iter().enumerate() {
        let here = path.index(index);
        let name = text(&port["name"]);
        if !name.is_empty() {
            if let Some(complaint) = port_name(name) {
                faults.push(FieldError::invalid(here.child("name"), name, &complaint));
            } else if names.contains(&name) {
                faults.push(FieldError::duplicate(here.child("name"), name));
            } else {
                names.push(name);
            }
        }
        if port["containerPort"].as_i64().unwrap_or_default() == 0 {
            faults.push(FieldError::required(here.child("containerPort"), ""));
        } else {
            check_port(&port["containerPort"], &here.child("containerPort"), faults);
        }
        if port["hostPort"].as_i64().is_some_and(|p| p != 0) {
            check_port(&port["hostPort"], &here.child("hostPort"), faults);
        }
        one_of(&port["protocol"], &["SCTP", "TCP", "UDP"], &here.child("protocol"), faults);
    }
}

fn validate_env(container: &Value, path: &Path, faults: &mut Faults) {
    for (index, variable) in items(&container["env"]).iter().enumerate() {
        let here = path.child("env").index(index);
        let name = text(&variable["name"]);
        if name.is_empty() {
            faults.push(FieldError::required(here.child("name"), ""));
        } else {
            complain(faults, here.child("name"), name, env_name(name));
        }
        let from = &variable["valueFrom"];
        if from.is_null() {
            continue;
        }
        let here = here.child("valueFrom");
        let sources = entries(from).filter(|(_, v)| !v.is_null()).count();
        if !is_empty(&variable["value"]) {
            faults.push(FieldError::invalid(here, "", "may not be specified when `value` is not empty"));
        } else if sources == 0 {
            let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`";
            faults.push(FieldError::invalid(here, "", detail));
        } else if sources > 1 {
            faults.push(FieldError::invalid(here, "", "may not have more than one field specified at a time"));
        } else {
            for source in ["configMapKeyRef", "secretKeyRef"] {
                if !from[source].is_null() {
                    require(&from[source], "key", &here.child(source), faults);
                    require(&from[source], "name", &here.child(source), faults);
                }
            }
            if !from["fieldRef"].is_null() {
                require(&from["fieldRef"], "fieldPath", &here.child("fieldRef"), faults);
            }
            if !from["resourceFieldRef"].is_null() {
                require(&from["resourceFieldRef"], "resource", &here.child("resourceFieldRef"), faults);
            }
        }
    }
    for (index, source) in items(&container["envFrom"]).iter().enumerate() {
        let here = path.child("envFrom").index(index);
        let given: Vec<&str> = ["configMapRef", "secretRef"].into_iter().filter(|s| !source[*s].is_null()).collect();
        match given.as_slice() {
            [one] => require(&source[*one], "name", &here.child(one), faults),
            [] => {
                faults.push(FieldError::invalid(here, "", "must specify one of: `configMapRef` or `secretRef`"));
            }
            _ => {
                faults.push(FieldError::invalid(here, "", "may not have more than one field specified at a time"));
            }
        }
    }
}

/// Notes a field of text that is not given.
pub(super) fn require(value: &Value, field: &str, path: &Path, faults: &mut Faults) {
    if is_empty(&value[field]) {
        faults.push(FieldError::required(path.child(field), ""));
    }
}

fn validate_mounts(mounts: &Value, volumes: &[&str], path: &Path, faults: &mut Faults) {
    let mut seen: Vec<&str> = Vec::new();
    for (index, mount) in items(mounts).iter().enumerate() {
        let here = path.index(index);
        let (name, target) = (text(&mount["name"]), text(&mount["mountPath"]));
        if name.is_empty() {
            faults.push(FieldError::required(here.child("name"), ""));
        } else if !volumes.contains(&name) {
            faults.push(FieldError::not_found(here.child("name"), name));
        }
        if target.is_empty() {
            faults.push(FieldError::required(here.child("mountPath"), ""));
        } else if seen.contains(&target) {
            faults.push(FieldError::invalid(here.child("mountPath"), target, "must be unique"));
        }
        seen.push(target);
        let sub = text(&mount["subPath"]);
        if sub.starts_with('/') {
            faults.push(FieldError::invalid(here.child("subPath"), sub, "must be a relative path"));
        }
        if sub.split('/').any(|part| part == "..") {
            faults.push(FieldError::invalid(here.child("subPath"), sub, "must not contain '..'"));
        }
    }
}

fn validate_resources(resources: &Value, path: &Path, faults: &mut Faults) {
    for kind in ["limits", "requests"] {
        for (name, amount) in entries(&resources[kind]) {
            let here = path.child(kind).key(name);
            let Ok(parsed) = quantity::parse(text(amount)) else { continue };
            if parsed.is_negative() {
                faults.push(FieldError::invalid(here, amount.clone(), "must be greater than or equal to 0"));
                continue;
            }
            let native = !name.contains('/') || name.contains("kubernetes.io/");
            if native && !is_native(name) {
                let detail = "must be a standard resource for containers";
                faults.push(FieldError::invalid(path.child(kind), name.as_str(), detail));
            }
            if !matches!(name.as_str(), "cpu") && !parsed.is_integer() && !is_bytes(name) {
                faults.push(FieldError::invalid(here, amount.clone(), "must be an integer"));
            }
        }
    }
    for (name, request) in entries(&resources["requests"]) {
        let here = path.child("requests");
        let (Ok(request), Ok(limit)) =
            (quantity::parse(text(request)), quantity::parse(text(&resources["limits"][name])))
        else {
            continue;
        };
        if request > limit {
            let detail = format!("must be less than or equal to {name} limit of {limit}");
            faults.push(FieldError::invalid(here, request.to_string(), &detail));
        }
    }
}

fn is_native(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
}

fn is_bytes(name: &str) -> bool {
    matches!(name, "memory" | "ephemeral-storage")
}

fn validate_probes(container: &Value, init: bool, path: &Path, faults: &mut Faults) {
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let (probe, here) = (&container[field], path.child(field));
        if probe.is_null() {
            continue;
        }
        if init && text(&container["restartPolicy"]) != "Always" {
            faults.push(FieldError::forbidden(here, "may not be set for init containers without restartPolicy=Always"));
            continue;
        }
        validate_handler(probe, &["exec", "httpGet", "tcpSocket", "grpc"], &here, faults);
        for number in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            not_negative(&probe[number], &here.child(number), faults);
        }
        if field != "readinessProbe" && probe["successThreshold"].as_i64().is_some_and(|n| n != 1) {
            let value = probe["successThreshold"].clone();
            faults.push(FieldError::invalid(here.child("successThreshold"), value, "must be 1"));
        }
        if let Some(grace) = probe["terminationGracePeriodSeconds"].as_i64() {
            let here = here.child("terminationGracePeriodSeconds");
            if field == "readinessProbe" {
                faults.push(FieldError::invalid(here, grace, "must not be set for readinessProbes"));
            } else if grace <= 0 {
                faults.push(FieldError::invalid(here, grace, "must be greater than 0"));
            }
        }
    }
    let lifecycle = &container["lifecycle"];
    for field in ["postStart", "preStop"] {
        if !lifecycle[field].is_null() {
            let here = path.child("lifecycle").child(field);
            validate_handler(&lifecycle[field], &["exec", "httpGet", "tcpSocket", "sleep"], &here, faults);
        }
    }
}

fn validate_handler(handler: &Value, kinds: &[&str], path: &Path, faults: &mut Faults) {
    let mut given = kinds.iter().filter(|kind| !handler[**kind].is_null());
    let Some(kind) = given.next() else {
        faults.push(FieldError::required(path.clone(), "must specify a handler type"));
        return;
    };
    for extra in given {
        faults.push(FieldError::forbidden(path.child(extra), "may not specify more than 1 handler type"));
    }
    let (value, here) = (&handler[*kind], path.child(kind));
    match *kind {
        "exec" if items(&value["command"]).is_empty() => faults.push(FieldError::required(here.child("command"), "")),
        "httpGet" => {
            check_port_or_name(&value["port"], &here.child("port"), faults);
            one_of(&value["scheme"], &["HTTP", "HTTPS"], &here.child("scheme"), faults);
        }
        "tcpSocket" => check_port_or_name(&value["port"], &here.child("port"), faults),
        "grpc" => check_port(&value["port"], &here.child("port"), faults),
        _ => {}
    }
}

fn validate_security(security: &Value, path: &Path, faults: &mut Faults) {
    for field in ["runAsUser", "runAsGroup"] {
        not_negative(&security[field], &path.child(field), faults);
    }
    if security["privileged"] == true && security["allowPrivilegeEscalation"] == false {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        faults.push(FieldError::invalid(path.clone(), "", detail));
    }
}
