//! What may change, and what a change brings with it.

use serde_json::{Value, json};

use super::{causes, create, deployment, pod, service, slice, update, with};
use crate::api::{Subresource, Update};

/// A stored object.
fn stored(plural: &str, object: Value) -> Value {
    with(&create(plural, object).unwrap(), "/metadata/resourceVersion", json!("5"))
}

fn changed(update: Update) -> Value {
    match update {
        Update::Changed(object) => object,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(plural: &str, old: &Value, cases: &[(&str, Value, &[&str])]) {
    for (pointer, value, expected) in cases {
        match update(plural, None, with(old, pointer, value.clone()), old) {
            Ok(_) => assert!(expected.is_empty(), "{pointer} = {value} passed"),
            Err(status) => assert_eq!(causes(&status), *expected, "{pointer} = {value}: {status}"),
        }
    }
}

#[test]
fn pods() {
    refused(
        "pods",
        &stored("pods", pod()),
        &[
            ("/spec/containers/0/image", json!("nginx:2"), &[]),
            ("/spec/containers/0/image", json!(""), &["spec.containers[0].image Required"]),
            ("/spec/containers/-", json!({"name": "b", "image": "y"}), &["spec.containers Forbidden"]),
            ("/spec/containers/0/command", json!(["x"]), &["spec Forbidden"]),
            ("/spec/nodeName", json!("n1"), &["spec Forbidden"]),
            ("/spec/activeDeadlineSeconds", json!(5), &[]),
            ("/spec/tolerations/-", json!({"key": "a", "operator": "Exists"}), &[]),
            ("/spec/tolerations", json!([]), &["spec.tolerations Forbidden"]),
            ("/spec/tolerations/0/tolerationSeconds", json!(5), &[]),
            ("/metadata/labels", json!({"a": "b"}), &[]),
        ],
    );
}

#[test]
fn selectors_and_addresses_stay() {
    refused(
        "deployments",
        &stored("deployments", deployment()),
        &[
            (
                "/spec/selector",
                json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
                &["spec.selector Invalid"],
            ),
            ("/spec/replicas", json!(3), &[]),
        ],
    );
    let service = with(&stored("services", service()), "/spec/clusterIP", json!("10.0.0.1"));
    let service = with(&service, "/spec/clusterIPs", json!(["10.0.0.1"]));
    refused(
        "services",
        &service,
        &[
            ("/spec/clusterIP", json!("10.0.0.2"), &["spec.clusterIPs[0] Invalid"]),
            ("/spec/clusterIP", json!(null), &[]),
            ("/spec/ports", json!([{"port": 81}]), &[]),
        ],
    );
    let bare = with(&with(&service, "/spec/clusterIP", json!(null)), "/spec/clusterIPs", json!(null));
    let kept = changed(update("services", None, with(&bare, "/spec/ports", json!([{"port": 8}])), &service).unwrap());
    assert_eq!(kept["spec"]["clusterIPs"], json!(["10.0.0.1"]));
    refused(
        "endpointslices",
        &stored("endpointslices", slice()),
        &[("/addressType", json!("FQDN"), &["addressType Invalid"])],
    );
}

#[test]
fn a_service_changes_its_type() {
    let ports = json!([{"port": 80, "targetPort": 80, "protocol": "TCP", "nodePort": 30_001}]);
    let spec = json!({"type": "NodePort", "ports": ports, "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"});
    let old = stored("services", json!({"metadata": {"name": "web"}, "spec": spec}));
    assert_eq!(old["spec"]["externalTrafficPolicy"], "Cluster");
    let plain = changed(update("services", None, with(&old, "/spec/type", json!("ClusterIP")), &old).unwrap());
    assert!(
        plain["spec"]["ports"][0].get("nodePort").is_none() && plain["spec"].get("externalTrafficPolicy").is_none()
    );
    assert_eq!(plain["spec"]["clusterIP"], "10.0.0.1");
    let external = with(&with(&old, "/spec/type", json!("ExternalName")), "/spec/externalName", json!("a.b"));
    let external = changed(update("services", None, external, &old).unwrap());
    assert!(external["spec"].get("clusterIP").is_none() && external["spec"].get("ipFamilies").is_none());
    // A port that is said again keeps its node port.
    let again = with(&old, "/spec/ports", json!([{"port": 80, "targetPort": 8080}]));
    assert_eq!(changed(update("services", None, again, &old).unwrap())["spec"]["ports"][0]["nodePort"], 30_001);
}

#[test]
fn a_load_balancer_keeps_its_health_check_and_gives_it_back() {
    let spec = json!({
        "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30_007, "clusterIP": "10.0.0.1",
        "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "loadBalancerClass": "a/b",
        "ports": [{"port": 80, "targetPort": 80, "protocol": "TCP", "nodePort": 30_001}],
    });
    let mut old = stored("services", json!({"metadata": {"name": "web"}, "spec": spec}));
    let balancer = json!({"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}]});
    old["status"]["loadBalancer"] = balancer.clone();
    refused(
        "services",
        &old,
        &[
            ("/spec/healthCheckNodePort", json!(30_008), &["spec.healthCheckNodePort Forbidden"]),
            ("/spec/healthCheckNodePort", json!(0), &[]),
            ("/spec/healthCheckNodePort", json!(null), &[]),
            ("/spec/loadBalancerClass", json!("a/c"), &["spec.loadBalancerClass Invalid"]),
            ("/spec/loadBalancerClass", json!(null), &["spec.loadBalancerClass Invalid"]),
        ],
    );
    let again = with(&with(&old, "/spec/healthCheckNodePort", json!(null)), "/metadata/labels", json!({"a": "b"}));
    let again = changed(update("services", None, again, &old).unwrap());
    assert_eq!(again["spec"]["healthCheckNodePort"], 30_007);
    let cluster =
        changed(update("services", None, with(&old, "/spec/externalTrafficPolicy", json!("Cluster")), &old).unwrap());
    assert!(cluster["spec"].get("healthCheckNodePort").is_none());
    assert_eq!(cluster["status"]["loadBalancer"], balancer);
    let plain = changed(update("services", None, with(&old, "/spec/type", json!("ClusterIP")), &old).unwrap());
    for field in ["healthCheckNodePort", "externalTrafficPolicy", "allocateLoadBalancerNodePorts", "loadBalancerClass"]
    {
        assert!(plain["spec"].get(field).is_none(), "{field}");
    }
    assert_eq!(plain["status"], json!({"loadBalancer": {}}));
    assert!(plain["spec"]["ports"][0].get("nodePort").is_none());
    let ports = json!([{"port": 80, "targetPort": 80, "protocol": "TCP"}]);
    let bare = update("services", None, with(&old, "/spec/ports", ports.clone()), &old).unwrap();
    assert_eq!(bare, Update::Unchanged, "the node port is kept");
    let without = with(&with(&old, "/spec/ports", ports), "/spec/allocateLoadBalancerNodePorts", json!(false));
    let without = changed(update("services", None, without, &old).unwrap());
    assert!(without["spec"]["ports"][0].get("nodePort").is_none());
    // What may only be with the type is not dropped when it is said anew.
    let wrong = with(&with(&old, "/spec/type", json!("ClusterIP")), "/spec/loadBalancerClass", json!("a/c"));
    assert_eq!(causes(&update("services", None, wrong, &old).unwrap_err()), ["spec.loadBalancerClass Forbidden"]);
}

#[test]
fn a_status_of_a_load_balancer_is_checked_and_completed() {
    let balancer = |kind: &str| {
        let spec = json!({"type": kind, "ports": [{"port": 80}]});
        stored("services", json!({"metadata": {"name": "web"}, "spec": spec}))
    };
    let old = balancer("LoadBalancer");
    let place = "status.loadBalancer.ingress";
    for (ingress, expected) in [
        (json!([{"ip": "192.0.2.1"}, {"hostname": "lb.example"}]), vec![]),
        (json!([{"ip": "192.0.2.1", "ipMode": "Proxy"}]), vec![]),
        (json!([{"ip": "x"}]), vec![format!("{place}[0].ip Invalid")]),
        (json!([{"ip": "192.0.2.1", "ipMode": "Odd"}]), vec![format!("{place}[0].ipMode NotSupported")]),
        (json!([{"hostname": "a", "ipMode": "VIP"}]), vec![format!("{place}[0].ipMode Forbidden")]),
        (json!([{"hostname": "192.0.2.1"}]), vec![format!("{place}[0].hostname Invalid")]),
    ] {
        let new = with(&old, "/status/loadBalancer", json!({"ingress": ingress}));
        match update("services", Some(Subresource::Status), new, &old) {
            Ok(_) => assert!(expected.is_empty(), "{ingress} passed"),
            Err(status) => assert_eq!(causes(&status), expected, "{ingress}"),
        }
    }
    let new = with(&old, "/status/loadBalancer", json!({"ingress": [{"ip": "192.0.2.1"}]}));
    let made = changed(update("services", Some(Subresource::Status), new.clone(), &old).unwrap());
    assert_eq!(made["status"]["loadBalancer"]["ingress"], json!([{"ip": "192.0.2.1", "ipMode": "VIP"}]));
    let plain = balancer("NodePort");
    let new = with(&plain, "/status", new["status"].clone());
    let refused = update("services", Some(Subresource::Status), new, &plain).unwrap_err();
    assert_eq!(causes(&refused), [format!("{place} Forbidden")]);
}

#[test]
fn data_that_was_declared_immutable() {
    let map = json!({"metadata": {"name": "a"}, "data": {"k": "v"}, "immutable": true});
    refused(
        "configmaps",
        &stored("configmaps", map),
        &[
            ("/data/k", json!("w"), &["data Forbidden"]),
            ("/immutable", json!(false), &["immutable Forbidden"]),
            ("/metadata/labels", json!({"a": "b"}), &[]),
        ],
    );
    let secret = json!({"metadata": {"name": "a"}, "type": "x/y"});
    refused("secrets", &stored("secrets", secret), &[("/type", json!("x/z"), &["type Invalid"])]);
}

#[test]
fn identity_and_versions() {
    let old = stored("deployments", deployment());
    let fault = |new: Value| update("deployments", None, new, &old).unwrap_err();
    assert!(fault(with(&old, "/metadata/resourceVersion", json!("4"))).is_conflict());
    assert!(fault(with(&old, "/metadata/uid", json!("u-2"))).is_conflict());
    assert_eq!(fault(with(&old, "/metadata/name", json!("other"))).code, 400);
    assert_eq!(fault(with(&old, "/metadata/namespace", json!("other"))).code, 400);
    let unconditional = with(&with(&old, "/metadata/resourceVersion", json!(null)), "/spec/replicas", json!(2));
    changed(update("deployments", None, unconditional, &old).unwrap());
    let lease = stored("leases", json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}));
    let blind = with(&lease, "/metadata/resourceVersion", json!(null));
    assert_eq!(causes(&update("leases", None, blind, &lease).unwrap_err()), ["metadata.resourceVersion Invalid"]);
}

#[test]
fn generation_counts_changes_of_the_spec() {
    let old = stored("deployments", deployment());
    let scaled = changed(update("deployments", None, with(&old, "/spec/replicas", json!(2)), &old).unwrap());
    assert_eq!(scaled["metadata"]["generation"], 2);
    assert!(scaled["metadata"].get("resourceVersion").is_none());
    let labelled =
        changed(update("deployments", None, with(&old, "/metadata/labels", json!({"a": "b"})), &old).unwrap());
    assert_eq!(labelled["metadata"]["generation"], 1);
    assert_eq!(update("deployments", None, old.clone(), &old).unwrap(), Update::Unchanged);
    // The wanted state said again, without what the server filled in, is no change.
    assert_eq!(update("deployments", None, deployment(), &old).unwrap(), Update::Unchanged);
}

#[test]
fn status_and_spec_have_their_own_doors() {
    let old = stored("deployments", deployment());
    let both = with(&with(&old, "/status", json!({"replicas": 4})), "/spec/replicas", json!(9));
    let main = changed(update("deployments", None, both.clone(), &old).unwrap());
    assert_eq!((&main["spec"]["replicas"], &main["status"]), (&json!(9), &json!({})));
    let status = changed(update("deployments", Some(Subresource::Status), both, &old).unwrap());
    assert_eq!((&status["spec"]["replicas"], &status["status"]), (&json!(1), &json!({"replicas": 4})));
    assert_eq!(status["metadata"]["generation"], 1);
}

#[test]
fn a_deleted_object_goes_with_its_last_finalizer_and_takes_no_new_one() {
    let mut old = stored("configmaps", json!({"metadata": {"name": "a", "finalizers": ["x/y"]}}));
    old["metadata"]["deletionTimestamp"] = json!("2026-12-01T11:00:00Z");
    old["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    let gone = update("configmaps", None, with(&old, "/metadata/finalizers", json!(null)), &old).unwrap();
    assert!(matches!(gone, Update::Remove(_)));
    let more = update("configmaps", None, with(&old, "/metadata/finalizers", json!(["x/y", "x/z"])), &old).unwrap_err();
    assert_eq!(causes(&more), ["metadata.finalizers Forbidden"]);
    // A client cannot take the deletion back.
    let kept = changed(
        update(
            "configmaps",
            None,
            with(&with(&old, "/metadata/deletionTimestamp", json!(null)), "/data", json!({"a": "b"})),
            &old,
        )
        .unwrap(),
    );
    assert_eq!(kept["metadata"]["deletionTimestamp"], "2026-12-01T11:00:00Z");
}

#[test]
fn a_namespace_stays_until_it_is_finalized() {
    let mut old = stored("namespaces", json!({"metadata": {"name": "a"}}));
    old["metadata"]["deletionTimestamp"] = json!("2026-12-01T11:00:00Z");
    let kept = update("namespaces", None, with(&old, "/spec/finalizers", json!([])), &old).unwrap();
    assert_eq!(kept, Update::Unchanged);
    let gone =
        update("namespaces", Some(Subresource::Finalize), with(&old, "/spec/finalizers", json!([])), &old).unwrap();
    assert!(matches!(gone, Update::Remove(_)));
}
