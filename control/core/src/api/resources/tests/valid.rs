//! For every rule: the change that breaks it, and the cause that tells.

use serde_json::{Value, json};

use super::{causes, create, deployment, pod, policy, slice, with};

#[track_caller]
pub(super) fn faults(plural: &str, good: &Value, cases: &[(&str, Value, &[&str])]) {
    create(plural, good.clone()).unwrap();
    for (pointer, value, expected) in cases {
        match create(plural, with(good, pointer, value.clone())) {
            Ok(_) => assert!(expected.is_empty(), "{pointer} = {value} passed"),
            Err(status) => {
                assert_eq!(status.code, 422, "{pointer} = {value}: {status}");
                assert_eq!(causes(&status), *expected, "{pointer} = {value}");
            }
        }
    }
}

#[test]
fn metadata() {
    let long = "a".repeat(254);
    faults(
        "pods",
        &pod(),
        &[
            ("/metadata/name", json!("Web"), &["metadata.name Invalid"]),
            ("/metadata/name", json!(long), &["metadata.name Invalid"]),
            ("/metadata/name", json!(""), &["metadata.name Required"]),
            ("/metadata/generateName", json!("web-"), &[]),
            ("/metadata/labels", json!({"a b": "c"}), &["metadata.labels Invalid"]),
            ("/metadata/labels", json!({"a": "-"}), &["metadata.labels Invalid"]),
            ("/metadata/annotations", json!({"a/b/c": ""}), &["metadata.annotations Invalid"]),
            ("/metadata/annotations", json!({"a": "x".repeat(256 * 1024)}), &["metadata.annotations TooLong"]),
            ("/metadata/finalizers", json!(["x"]), &[]),
            ("/metadata/finalizers", json!(["x y"]), &["metadata.finalizers[0] Invalid"]),
            ("/metadata/finalizers", json!(["orphan", "foregroundDeletion"]), &["metadata.finalizers Invalid"]),
            (
                "/metadata/ownerReferences",
                json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": ""}]),
                &["metadata.ownerReferences[0].uid Invalid"],
            ),
            (
                "/metadata/ownerReferences",
                json!([{"apiVersion": "v1", "kind": "A", "name": "p", "uid": "1", "controller": true}, {"apiVersion": "v1", "kind": "A", "name": "q", "uid": "2", "controller": true}]),
                &["metadata.ownerReferences Invalid"],
            ),
        ],
    );
}

#[test]
fn containers() {
    let at = "spec.containers[0]";
    let one = |field: &str, reason: &str| format!("{at}{field} {reason}");
    let expect = [
        (json!({"name": "a"}), one(".image", "Required")),
        (json!({"image": "x"}), one(".name", "Required")),
        (json!({"name": "A", "image": "x"}), one(".name", "Invalid")),
        (json!({"name": "a", "image": " x"}), one(".image", "Invalid")),
        (json!({"name": "a", "image": "x", "imagePullPolicy": "Sometimes"}), one(".imagePullPolicy", "NotSupported")),
        (
            json!({"name": "a", "image": "x", "ports": [{"containerPort": 0}]}),
            one(".ports[0].containerPort", "Required"),
        ),
        (
            json!({"name": "a", "image": "x", "ports": [{"containerPort": 70_000}]}),
            one(".ports[0].containerPort", "Invalid"),
        ),
        (
            json!({"name": "a", "image": "x", "ports": [{"containerPort": 80, "protocol": "HTTP"}]}),
            one(".ports[0].protocol", "NotSupported"),
        ),
        (
            json!({"name": "a", "image": "x", "ports": [{"name": "p", "containerPort": 80}, {"name": "p", "containerPort": 81}]}),
            one(".ports[1].name", "Duplicate"),
        ),
        (
            json!({"name": "a", "image": "x", "ports": [{"name": "UPPER", "containerPort": 80}]}),
            one(".ports[0].name", "Invalid"),
        ),
        (
            json!({"name": "a", "image": "x", "ports": [{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}]}),
            one(".ports[1].hostPort", "Duplicate"),
        ),
        (json!({"name": "a", "image": "x", "env": [{"name": "A=B"}]}), one(".env[0].name", "Invalid")),
        (json!({"name": "a", "image": "x", "env": [{"value": "1"}]}), one(".env[0].name", "Required")),
        (
            json!({"name": "a", "image": "x", "env": [{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}),
            one(".env[0].valueFrom", "Invalid"),
        ),
        (
            json!({"name": "a", "image": "x", "env": [{"name": "A", "valueFrom": {}}]}),
            one(".env[0].valueFrom", "Invalid"),
        ),
        (
            json!({"name": "a", "image": "x", "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}]}),
            one(".env[0].valueFrom.secretKeyRef.key", "Required"),
        ),
        (json!({"name": "a", "image": "x", "envFrom": [{}]}), one(".envFrom[0]", "Invalid")),
        (
            json!({"name": "a", "image": "x", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}),
            one(".volumeMounts[0].name", "NotFound"),
        ),
        (
            json!({"name": "a", "image": "x", "resources": {"requests": {"cpu": "-1"}}}),
            one(".resources.requests[cpu]", "Invalid"),
        ),
        (
            json!({"name": "a", "image": "x", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}}),
            one(".resources.requests", "Invalid"),
        ),
        (
            json!({"name": "a", "image": "x", "resources": {"requests": {"gpus": "1"}}}),
            one(".resources.requests", "Invalid"),
        ),
        (json!({"name": "a", "image": "x", "livenessProbe": {}}), one(".livenessProbe", "Required")),
        (
            json!({"name": "a", "image": "x", "livenessProbe": {"tcpSocket": {"port": 80}, "successThreshold": 2}}),
            one(".livenessProbe.successThreshold", "Invalid"),
        ),
        (
            json!({"name": "a", "image": "x", "readinessProbe": {"tcpSocket": {"port": 0}}}),
            one(".readinessProbe.tcpSocket.port", "Invalid"),
        ),
        (
            json!({"name": "a", "image": "x", "readinessProbe": {"tcpSocket": {"port": 80}, "periodSeconds": -1}}),
            one(".readinessProbe.periodSeconds", "Invalid"),
        ),
        (
            json!({"name": "a", "image": "x", "readinessProbe": {"exec": {"command": []}}}),
            one(".readinessProbe.exec.command", "Required"),
        ),
        (
            json!({"name": "a", "image": "x", "readinessProbe": {"httpGet": {"port": 80}, "tcpSocket": {"port": 80}}}),
            one(".readinessProbe.tcpSocket", "Forbidden"),
        ),
    ];
    for (container, expected) in expect {
        let status =
            create("pods", with(&pod(), "/spec/containers/0", container.clone())).expect_err(&container.to_string());
        assert_eq!(causes(&status), [expected], "{container}");
    }
}

#[test]
fn pods() {
    faults(
        "pods",
        &pod(),
        &[
            ("/spec/containers", json!([]), &["spec.containers Required"]),
            ("/spec/containers/-", json!({"name": "a", "image": "y"}), &["spec.containers[1].name Duplicate"]),
            ("/spec/initContainers", json!([{"name": "a", "image": "y"}]), &["spec.initContainers[0].name Duplicate"]),
            ("/spec/restartPolicy", json!("Maybe"), &["spec.restartPolicy NotSupported"]),
            ("/spec/dnsPolicy", json!("X"), &["spec.dnsPolicy NotSupported"]),
            ("/spec/dnsPolicy", json!("None"), &["spec.dnsConfig.nameservers Required"]),
            ("/spec/terminationGracePeriodSeconds", json!(-1), &["spec.terminationGracePeriodSeconds Invalid"]),
            ("/spec/activeDeadlineSeconds", json!(0), &["spec.activeDeadlineSeconds Invalid"]),
            ("/spec/hostname", json!("a.b"), &["spec.hostname Invalid"]),
            ("/spec/nodeSelector", json!({"a b": "c"}), &["spec.nodeSelector Invalid"]),
            ("/spec/volumes", json!([{"name": "v"}, {"name": "v"}]), &["spec.volumes[1].name Duplicate"]),
            (
                "/spec/volumes",
                json!([{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]),
                &["spec.volumes[0].hostPath Forbidden"],
            ),
            ("/spec/volumes", json!([{"name": "v", "configMap": {}}]), &["spec.volumes[0].configMap.name Required"]),
            (
                "/spec/volumes",
                json!([{"name": "v", "secret": {"secretName": "s", "items": [{"key": "k", "path": "../x"}]}}]),
                &["spec.volumes[0].secret.items[0].path Invalid"],
            ),
            ("/spec/tolerations", json!([{"operator": "Equal"}]), &["spec.tolerations[0].operator Invalid"]),
            (
                "/spec/tolerations",
                json!([{"key": "a", "operator": "Exists", "value": "x"}]),
                &["spec.tolerations[0].operator Invalid"],
            ),
            (
                "/spec/tolerations",
                json!([{"key": "a", "effect": "Never"}]),
                &["spec.tolerations[0].effect NotSupported"],
            ),
            (
                "/spec/tolerations",
                json!([{"key": "a", "operator": "Exists", "tolerationSeconds": 1}]),
                &["spec.tolerations[0].effect Invalid"],
            ),
            (
                "/spec/topologySpreadConstraints",
                json!([{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]),
                &["spec.topologySpreadConstraints[0].maxSkew Invalid"],
            ),
            (
                "/spec/affinity",
                json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}),
                &[
                    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms Required",
                ],
            ),
            ("/spec/hostAliases", json!([{"ip": "x"}]), &["spec.hostAliases[0].ip Invalid"]),
        ],
    );
}

#[test]
fn deployments() {
    faults(
        "deployments",
        &deployment(),
        &[
            ("/spec/replicas", json!(-1), &["spec.replicas Invalid"]),
            ("/spec/selector", json!(null), &["spec.selector Required"]),
            ("/spec/selector", json!({}), &["spec.selector Invalid"]),
            ("/spec/selector/matchLabels/app", json!("db"), &["spec.template.metadata.labels Invalid"]),
            (
                "/spec/selector/matchExpressions",
                json!([{"key": "app", "operator": "In"}]),
                &["spec.selector.matchExpressions[0].values Required"],
            ),
            (
                "/spec/selector/matchExpressions",
                json!([{"key": "app", "operator": "Like"}]),
                &["spec.selector.matchExpressions[0].operator Invalid"],
            ),
            ("/spec/template/spec/restartPolicy", json!("Never"), &["spec.template.spec.restartPolicy NotSupported"]),
            ("/spec/template/spec/containers", json!([]), &["spec.template.spec.containers Required"]),
            ("/spec/strategy", json!({"type": "Slow"}), &["spec.strategy.type NotSupported"]),
            (
                "/spec/strategy",
                json!({"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
                &["spec.strategy.rollingUpdate Forbidden"],
            ),
            ("/spec/strategy", json!({"type": "Recreate"}), &[]),
            (
                "/spec/strategy",
                json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
                &["spec.strategy.rollingUpdate.maxUnavailable Invalid"],
            ),
            (
                "/spec/strategy",
                json!({"rollingUpdate": {"maxSurge": "x%"}}),
                &["spec.strategy.rollingUpdate.maxSurge Invalid"],
            ),
            (
                "/spec/strategy",
                json!({"rollingUpdate": {"maxUnavailable": "101%"}}),
                &["spec.strategy.rollingUpdate.maxUnavailable Invalid"],
            ),
            ("/spec/minReadySeconds", json!(600), &["spec.progressDeadlineSeconds Invalid"]),
            ("/spec/revisionHistoryLimit", json!(-1), &["spec.revisionHistoryLimit Invalid"]),
        ],
    );
}

#[test]
fn network_policies() {
    let from = "/spec/ingress/0/from/0";
    faults(
        "networkpolicies",
        &policy(),
        &[
            (from, json!({}), &["spec.ingress[0].from[0] Required"]),
            (from, json!({"ipBlock": {"cidr": "10.0.0.0/33"}}), &["spec.ingress[0].from[0].ipBlock.cidr Invalid"]),
            (from, json!({"ipBlock": {"cidr": ""}}), &["spec.ingress[0].from[0].ipBlock.cidr Required"]),
            (
                from,
                json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}}),
                &["spec.ingress[0].from[0].ipBlock.except[0] Invalid"],
            ),
            (from, json!({"ipBlock": {"cidr": "fd00::/8", "except": ["fd01::/16"]}}), &[]),
            (from, json!({"ipBlock": {"cidr": "0.0.0.0/0", "except": ["11.0.0.0/16"]}}), &[]),
            (
                from,
                json!({"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}),
                &["spec.ingress[0].from[0] Forbidden"],
            ),
            (
                "/spec/ingress/0/ports/0",
                json!({"port": 80, "endPort": 79}),
                &["spec.ingress[0].ports[0].endPort Invalid"],
            ),
            ("/spec/ingress/0/ports/0", json!({"endPort": 79}), &["spec.ingress[0].ports[0].port Required"]),
            ("/spec/ingress/0/ports/0", json!({"port": "UPPER"}), &["spec.ingress[0].ports[0].port Invalid"]),
            ("/spec/policyTypes", json!(["Both"]), &["spec.policyTypes[0] NotSupported"]),
        ],
    );
}

#[test]
fn endpoint_slices() {
    faults(
        "endpointslices",
        &slice(),
        &[
            ("/addressType", json!(null), &["addressType Required"]),
            ("/addressType", json!("IPv5"), &["addressType NotSupported"]),
            ("/addressType", json!("IPv6"), &["endpoints[0].addresses[0] Invalid"]),
            ("/endpoints/0/addresses", json!([]), &["endpoints[0].addresses Required"]),
            ("/endpoints", json!(vec![json!({"addresses": ["10.0.0.1"]}); 1001]), &["endpoints TooMany"]),
            ("/ports", json!([{"port": 80}, {"port": 81}]), &["ports[1].name Duplicate"]),
            ("/ports", json!([{"port": 0}]), &["ports[0].port Invalid"]),
        ],
    );
}

#[test]
fn config_maps_and_secrets() {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    faults(
        "configmaps",
        &map,
        &[
            ("/data", json!({"a/b": ""}), &["data[a/b] Invalid"]),
            ("/binaryData", json!({"k": "YQ=="}), &["data[k] Invalid"]),
            ("/data", json!({"k": "x".repeat(1024 * 1024 + 1)}), &[" TooLong"]),
            ("/data", json!({"k": "x".repeat(1024 * 1024)}), &[]),
        ],
    );
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": {"k": "v"}});
    faults(
        "secrets",
        &secret,
        &[
            ("/stringData", json!({"a/b": ""}), &["data[a/b] Invalid"]),
            ("/type", json!("kubernetes.io/tls"), &["data[tls.crt] Required", "data[tls.key] Required"]),
        ],
    );
}

#[test]
fn the_rest() {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {}});
    faults(
        "nodes",
        &node,
        &[
            ("/spec/taints", json!([{"key": "a", "effect": "Run"}]), &["spec.taints[0].effect NotSupported"]),
            (
                "/spec/taints",
                json!([{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}]),
                &["spec.taints[1] Duplicate"],
            ),
        ],
    );
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    faults("namespaces", &namespace, &[("/metadata/name", json!("a.b"), &["metadata.name Invalid"])]);
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "n"}, "spec": {}});
    faults("leases", &lease, &[("/spec/leaseDurationSeconds", json!(0), &["spec.leaseDurationSeconds Invalid"])]);
    let event =
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": {"namespace": "x"}});
    faults("events", &event, &[("/involvedObject/namespace", json!("y"), &["involvedObject.namespace Invalid"])]);
    let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "e"}, "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]});
    faults(
        "endpoints",
        &endpoints,
        &[
            ("/subsets/0/addresses", json!([]), &["subsets[0] Required"]),
            ("/subsets/0/addresses", json!([{"ip": "127.0.0.1"}]), &["subsets[0].addresses[0].ip Invalid"]),
        ],
    );
}
