//! What a pod has when its author did not say.

use serde_json::{Value, json};

use crate::api::access::{child, entries, existing, fill, is_empty, items, items_mut, set, text};

/// Seconds that a pod stays on a node that is not ready or not reachable.
const TOLERATION_SECONDS: i64 = 300;

/// Modes of projected files: 0644.
const FILE_MODE: i64 = 0o644;

/// Defaults of a Pod object.
pub(crate) fn default_pod(pod: &mut Value) {
    let spec = child(pod, "spec");
    fill(spec, "enableServiceLinks", true);
    default_spec(spec);
    // Limits without requests are requests as well; templates keep what was written.
    for field in ["containers", "initContainers"] {
        for container in items_mut(spec, field) {
            let limits: Vec<(String, Value)> =
                entries(&container["resources"]["limits"]).map(|(k, v)| (k.clone(), v.clone())).collect();
            for (name, limit) in limits {
                fill(child(child(container, "resources"), "requests"), &name, limit);
            }
        }
    }
}

/// Defaults of a pod template.
pub(crate) fn default_template(template: &mut Value) {
    default_spec(child(template, "spec"));
}

/// What admission gives every new pod: its account, priority and the grace that it has on a failing node.
pub(crate) fn admit(pod: &mut Value) {
    let spec = child(pod, "spec");
    let account = match text(&spec["serviceAccountName"]) {
        "" => text(&spec["serviceAccount"]),
        name => name,
    };
    let account = if account.is_empty() { "default" } else { account }.to_owned();
    set(spec, "serviceAccountName", account.clone());
    set(spec, "serviceAccount", account);
    fill(spec, "priority", 0);
    fill(spec, "preemptionPolicy", "PreemptLowerPriority");
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = items(&spec["tolerations"]).iter().any(|t| {
            matches!(text(&t["key"]), "" | "node.kubernetes.io/not-ready" | "node.kubernetes.io/unreachable")
                && (text(&t["key"]) == key || text(&t["key"]).is_empty())
                && matches!(text(&t["effect"]), "" | "NoExecute")
        });
        if !tolerated {
            let toleration = json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS,
            });
            let mut tolerations = items(&spec["tolerations"]).to_vec();
            tolerations.push(toleration);
            set(spec, "tolerations", tolerations);
        }
    }
}

fn default_spec(spec: &mut Value) {
    fill(spec, "dnsPolicy", "ClusterFirst");
    fill(spec, "restartPolicy", "Always");
    fill(spec, "schedulerName", "default-scheduler");
    fill(spec, "securityContext", json!({}));
    fill(spec, "terminationGracePeriodSeconds", 30);
    if is_empty(&spec["serviceAccountName"]) && !is_empty(&spec["serviceAccount"]) {
        let account = spec["serviceAccount"].clone();
        set(spec, "serviceAccountName", account);
    } else if !is_empty(&spec["serviceAccountName"]) {
        let account = spec["serviceAccountName"].clone();
        set(spec, "serviceAccount", account);
    }
    let host_network = spec["hostNetwork"] == true;
    for field in ["initContainers", "containers", "ephemeralContainers"] {
        for container in items_mut(spec, field) {
            default_container(container, host_network);
        }
    }
    for volume in items_mut(spec, "volumes") {
        default_volume(volume);
    }
}

fn default_container(container: &mut Value, host_network: bool) {
    let policy = if is_latest(text(&container["image"])) { "Always" } else { "IfNotPresent" };
    fill(container, "imagePullPolicy", policy);
    fill(container, "terminationMessagePath", "/dev/termination-log");
    fill(container, "terminationMessagePolicy", "File");
    fill(container, "resources", json!({}));
    for port in items_mut(container, "ports") {
        fill(port, "protocol", "TCP");
        if host_network {
            let number = port["containerPort"].clone();
            if port["hostPort"] == 0 || port["hostPort"].is_null() {
                set(port, "hostPort", number);
            }
        }
    }
    for variable in items_mut(container, "env") {
        if let Some(field) = existing(variable, "valueFrom").and_then(|from| existing(from, "fieldRef")) {
            fill(field, "apiVersion", "v1");
        }
    }
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = existing(container, field) {
            fill(probe, "timeoutSeconds", 1);
            fill(probe, "periodSeconds", 10);
            fill(probe, "successThreshold", 1);
            fill(probe, "failureThreshold", 3);
            default_handler(probe);
        }
    }
    if let Some(lifecycle) = existing(container, "lifecycle") {
        for field in ["postStart", "preStop"] {
            if let Some(handler) = existing(lifecycle, field) {
                default_handler(handler);
            }
        }
    }
}

fn default_handler(handler: &mut Value) {
    if let Some(get) = existing(handler, "httpGet") {
        fill(get, "path", "/");
        fill(get, "scheme", "HTTP");
    }
    if let Some(grpc) = existing(handler, "grpc") {
        fill(grpc, "service", "");
    }
}

/// Whether an image has the tag `latest`, said or not.
fn is_latest(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let last = image.rsplit('/').next().unwrap_or_default();
    matches!(last.split_once(':'), None | Some((_, "latest" | "")))
}

fn default_volume(volume: &mut Value) {
    if volume.as_object().is_some_and(|map| map.len() == 1 && map.contains_key("name")) {
        set(volume, "emptyDir", json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = existing(volume, source) {
            fill(source, "defaultMode", FILE_MODE);
            default_fields(source);
            for projection in items_mut(source, "sources") {
                if let Some(fields) = existing(projection, "downwardAPI") {
                    default_fields(fields);
                }
                if let Some(token) = existing(projection, "serviceAccountToken") {
                    fill(token, "expirationSeconds", 3600);
                }
            }
        }
    }
    if let Some(path) = existing(volume, "hostPath") {
        fill(path, "type", "");
    }
}

fn default_fields(source: &mut Value) {
    for item in items_mut(source, "items") {
        if let Some(field) = existing(item, "fieldRef") {
            fill(field, "apiVersion", "v1");
        }
    }
}
