//! Rows as users know them.

use serde_json::{Value, json};

use super::{now, resource};

#[track_caller]
fn row(plural: &str, object: Value, expected: Value) {
    let resource = resource(plural);
    let cells = (resource.row)(&object, now());
    assert_eq!(Value::from(cells.clone()), expected);
    assert_eq!(cells.len(), resource.columns.len());
}

fn meta(name: &str) -> Value {
    json!({"name": name, "namespace": "x", "creationTimestamp": "2026-12-01T11:57:30Z"})
}

#[test]
fn workloads() {
    let template =
        json!({"spec": {"containers": [{"name": "a", "image": "nginx:1"}, {"name": "b", "image": "redis"}]}});
    let spec = json!({"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    row(
        "deployments",
        json!({"metadata": meta("web"), "spec": spec, "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1}}),
        json!(["web", "2/3", "3", "1", "2m30s", "a,b", "nginx:1,redis", "app=web"]),
    );
    row(
        "deployments",
        json!({"metadata": meta("web"), "spec": spec}),
        json!(["web", "0/3", "0", "0", "2m30s", "a,b", "nginx:1,redis", "app=web"]),
    );
    row(
        "replicasets",
        json!({"metadata": meta("web-1"), "spec": spec, "status": {"replicas": 3, "readyReplicas": 2}}),
        json!(["web-1", 3, 3, 2, "2m30s", "a,b", "nginx:1,redis", "app=web"]),
    );
}

#[test]
fn services() {
    let spec = json!({"type": "ClusterIP", "clusterIP": "10.96.0.7", "ports": [{"port": 80, "protocol": "TCP"}, {"port": 53, "nodePort": 30053, "protocol": "UDP"}], "selector": {"app": "web"}});
    row(
        "services",
        json!({"metadata": meta("web"), "spec": spec}),
        json!(["web", "ClusterIP", "10.96.0.7", "<none>", "80/TCP,53:30053/UDP", "2m30s", "app=web"]),
    );
    row(
        "services",
        json!({"metadata": meta("lb"), "spec": {"type": "LoadBalancer", "clusterIP": "10.96.0.8"}}),
        json!(["lb", "LoadBalancer", "10.96.0.8", "<pending>", "<none>", "2m30s", "<none>"]),
    );
    row(
        "services",
        json!({"metadata": meta("ext"), "spec": {"type": "ExternalName", "externalName": "a.b"}}),
        json!(["ext", "ExternalName", "<none>", "a.b", "<none>", "2m30s", "<none>"]),
    );
}

#[test]
fn endpoints() {
    let addresses = |n: u8| (1..=n).map(|i| json!({"ip": format!("10.0.0.{i}")})).collect::<Vec<_>>();
    row(
        "endpoints",
        json!({"metadata": meta("web"), "subsets": [{"addresses": addresses(5), "ports": [{"port": 80}]}]}),
        json!(["web", "10.0.0.1:80,10.0.0.2:80,10.0.0.3:80 + 2 more...", "2m30s"]),
    );
    row("endpoints", json!({"metadata": meta("web")}), json!(["web", "<none>", "2m30s"]));
    row(
        "endpointslices",
        json!({"metadata": meta("web-1"), "addressType": "IPv4", "ports": [{"port": 80}, {"name": "x"}, {}], "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"]}]}),
        json!(["web-1", "IPv4", "80,x,*", "10.0.0.1,10.0.0.2", "2m30s"]),
    );
    row(
        "endpointslices",
        json!({"metadata": meta("web-1"), "addressType": "IPv4"}),
        json!(["web-1", "IPv4", "<unset>", "<unset>", "2m30s"]),
    );
}

#[test]
fn address_pools() {
    let pool = |status: Value| {
        json!({"metadata": {"name": "outside", "creationTimestamp": "2026-12-01T11:57:30Z"}, "status": status,
            "spec": {"addresses": ["192.0.2.0/28", "2001:db8::/120"], "autoAssign": false}})
    };
    row(
        "addresspools",
        pool(json!({"ipv4": {"assigned": 3, "total": 16}, "ipv6": {"assigned": 0, "total": 256}})),
        json!(["outside", "false", "3/16", "0/256", "2m30s", "192.0.2.0/28,2001:db8::/120"]),
    );
    row(
        "addresspools",
        pool(Value::Null),
        json!(["outside", "false", "<unknown>", "<unknown>", "2m30s", "192.0.2.0/28,2001:db8::/120"]),
    );
}

#[test]
fn nodes() {
    let node = json!({"metadata": {"name": "n1", "creationTimestamp": "2026-11-27T12:00:00Z", "labels": {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/edge": ""}},
        "spec": {"unschedulable": true},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "addresses": [{"type": "InternalIP", "address": "192.168.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1.33.0", "osImage": "Debian", "kernelVersion": "6.1", "containerRuntimeVersion": "containerd://1.6"}}});
    row(
        "nodes",
        node,
        json!([
            "n1",
            "Ready,SchedulingDisabled",
            "edge,worker",
            "4d",
            "v1.33.0",
            "192.168.0.1",
            "<none>",
            "Debian",
            "6.1",
            "containerd://1.6"
        ]),
    );
    row(
        "nodes",
        json!({"metadata": meta("n2"), "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}),
        json!(["n2", "NotReady", "<none>", "2m30s", "", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"]),
    );
}

#[test]
fn events() {
    let event = json!({"metadata": meta("web.1"), "type": "Warning", "reason": "BackOff", "message": "Back-off restarting\n", "count": 4,
        "involvedObject": {"kind": "Pod", "name": "web", "fieldPath": "spec.containers{a}"}, "source": {"component": "kubelet", "host": "n1"},
        "firstTimestamp": "2026-12-01T11:50:00Z", "lastTimestamp": "2026-12-01T11:59:50Z"});
    row(
        "events",
        event,
        json!([
            "10s",
            "Warning",
            "BackOff",
            "pod/web",
            "spec.containers{a}",
            "kubelet, n1",
            "Back-off restarting",
            "10m",
            "4",
            "web.1"
        ]),
    );
    let newer = json!({"metadata": meta("web.2"), "type": "Normal", "reason": "Scheduled", "eventTime": "2026-12-01T11:59:00.000000Z", "involvedObject": {"kind": "Node"}, "reportingComponent": "scheduler"});
    row("events", newer, json!(["60s", "Normal", "Scheduled", "node", "", "scheduler", "", "60s", "1", "web.2"]));
}

#[test]
fn the_rest() {
    row("namespaces", json!({"metadata": meta("x"), "status": {"phase": "Active"}}), json!(["x", "Active", "2m30s"]));
    row(
        "configmaps",
        json!({"metadata": meta("c"), "data": {"a": "", "b": ""}, "binaryData": {"c": ""}}),
        json!(["c", "3", "2m30s"]),
    );
    row(
        "secrets",
        json!({"metadata": meta("s"), "type": "Opaque", "data": {"a": ""}}),
        json!(["s", "Opaque", "1", "2m30s"]),
    );
    row("serviceaccounts", json!({"metadata": meta("d")}), json!(["d", "0", "2m30s"]));
    row("leases", json!({"metadata": meta("l"), "spec": {"holderIdentity": "n1"}}), json!(["l", "n1", "2m30s"]));
    row(
        "networkpolicies",
        json!({"metadata": meta("p"), "spec": {"podSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "c"]}]}}}),
        json!(["p", "a in (b,c)", "2m30s"]),
    );
    row(
        "networkpolicies",
        json!({"metadata": meta("p"), "spec": {"podSelector": {}}}),
        json!(["p", "<none>", "2m30s"]),
    );
}

#[test]
fn second_versions_are_the_same_event() {
    let events = crate::api::registry().find("events.k8s.io", "v1", "events").unwrap();
    let served = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "regarding": {"kind": "Pod"}, "note": "x", "reportingController": "c", "metadata": {"name": "e"}});
    let stored = (events.strategy.to_storage)(served.clone());
    assert_eq!(stored["involvedObject"]["kind"], "Pod");
    assert_eq!(
        (&stored["message"], &stored["reportingComponent"], &stored["apiVersion"]),
        (&json!("x"), &json!("c"), &json!("v1"))
    );
    assert_eq!((events.strategy.from_storage)(stored), served);
}
