//! What a user finds in an object that was created with the least.

use serde_json::json;

use super::{create, deployment, pod, policy, service, slice, with};

#[test]
fn a_pod() {
    let made = create("pods", pod()).unwrap();
    assert_eq!(
        made["metadata"],
        json!({"name": "web", "namespace": "x", "uid": "u-1", "creationTimestamp": "2026-12-01T12:00:00Z"})
    );
    assert_eq!(made["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
    assert_eq!(
        made["spec"],
        json!({
            "containers": [{"name": "a", "image": "nginx:1", "imagePullPolicy": "IfNotPresent", "resources": {},
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}],
            "dnsPolicy": "ClusterFirst", "enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority", "priority": 0,
            "restartPolicy": "Always", "schedulerName": "default-scheduler", "securityContext": {},
            "serviceAccount": "default", "serviceAccountName": "default", "terminationGracePeriodSeconds": 30,
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
        })
    );
}

#[test]
fn parts_of_a_pod() {
    let container = json!({"name": "a", "image": "registry:5000/x", "ports": [{"containerPort": 80}],
        "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}},
        "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "livenessProbe": {"httpGet": {"port": 80}}});
    let mut object = with(&pod(), "/spec/containers/0", container);
    object = with(&object, "/spec/volumes", json!([{"name": "e"}, {"name": "c", "configMap": {"name": "c"}}]));
    let made = create("pods", with(&object, "/spec/tolerations", json!([{"operator": "Exists"}]))).unwrap();
    let container = &made["spec"]["containers"][0];
    assert_eq!(container["imagePullPolicy"], "Always");
    assert_eq!(container["ports"][0]["protocol"], "TCP");
    assert_eq!(
        container["resources"],
        json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}})
    );
    assert_eq!(container["env"][0]["valueFrom"]["fieldRef"]["apiVersion"], "v1");
    assert_eq!(
        container["livenessProbe"],
        json!({"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3})
    );
    assert_eq!(
        made["spec"]["volumes"],
        json!([{"name": "e", "emptyDir": {}}, {"name": "c", "configMap": {"name": "c", "defaultMode": 420}}])
    );
    assert_eq!(made["spec"]["tolerations"], json!([{"operator": "Exists"}]));
    assert_eq!(made["status"]["qosClass"], "Guaranteed");
}

#[test]
fn a_client_cannot_write_what_is_the_servers() {
    let mut object = pod();
    object["status"] = json!({"phase": "Running", "podIP": "1.2.3.4"});
    object["metadata"]["uid"] = json!("mine");
    object["metadata"]["generation"] = json!(7);
    object["metadata"]["creationTimestamp"] = json!("2020-01-01T00:00:00Z");
    object["metadata"]["managedFields"] = json!([{"manager": "me"}]);
    let made = create("pods", object).unwrap();
    assert_eq!(made["status"]["phase"], "Pending");
    assert!(made["status"].get("podIP").is_none());
    assert_eq!(made["metadata"]["uid"], "u-1");
    assert!(made["metadata"].get("generation").is_none() && made["metadata"].get("managedFields").is_none());
    assert_eq!(made["metadata"]["creationTimestamp"], "2026-12-01T12:00:00Z");
}

#[test]
fn a_deployment() {
    let made = create("deployments", deployment()).unwrap();
    let spec = &made["spec"];
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(made["status"], json!({}));
    assert_eq!(
        (&spec["replicas"], &spec["revisionHistoryLimit"], &spec["progressDeadlineSeconds"]),
        (&json!(1), &json!(10), &json!(600))
    );
    assert_eq!(
        spec["strategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}})
    );
    let pod = &spec["template"]["spec"];
    assert_eq!(pod["restartPolicy"], "Always");
    assert!(
        pod.get("enableServiceLinks").is_none()
            && pod.get("tolerations").is_none()
            && pod.get("serviceAccountName").is_none()
    );
    let recreate = create("deployments", with(&deployment(), "/spec/strategy", json!({"type": "Recreate"}))).unwrap();
    assert_eq!(recreate["spec"]["strategy"], json!({"type": "Recreate"}));
}

#[test]
fn a_service() {
    let made = create("services", service()).unwrap();
    assert_eq!(
        made["spec"],
        json!({"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 80, "protocol": "TCP"}], "sessionAffinity": "None",
            "type": "ClusterIP", "internalTrafficPolicy": "Cluster"})
    );
    assert_eq!(made["status"], json!({"loadBalancer": {}}));
}

#[test]
fn others() {
    let namespace = create("namespaces", json!({"metadata": {"generateName": "team-"}})).unwrap();
    assert_eq!(namespace["metadata"]["name"], "team-abcde");
    assert_eq!(namespace["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "team-abcde"}));
    assert_eq!(
        (&namespace["spec"], &namespace["status"]),
        (&json!({"finalizers": ["kubernetes"]}), &json!({"phase": "Active"}))
    );
    let secret =
        create("secrets", json!({"metadata": {"name": "s"}, "data": {"a": "YQ=="}, "stringData": {"b": "b"}})).unwrap();
    assert_eq!((&secret["type"], &secret["data"]), (&json!("Opaque"), &json!({"a": "YQ==", "b": "Yg=="})));
    assert!(secret.get("stringData").is_none());
    assert_eq!(create("networkpolicies", policy()).unwrap()["spec"]["policyTypes"], json!(["Ingress"]));
    let both = create("networkpolicies", with(&policy(), "/spec/egress", json!([{}]))).unwrap();
    assert_eq!(both["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(both["spec"]["ingress"][0]["ports"], json!([{"port": 80, "protocol": "TCP"}]));
    assert_eq!(
        create("endpointslices", slice()).unwrap()["ports"],
        json!([{"name": "", "port": 80, "protocol": "TCP"}])
    );
}

#[test]
fn defaults_are_given_once() {
    for (plural, object) in [
        ("pods", pod()),
        ("deployments", deployment()),
        ("services", service()),
        ("networkpolicies", policy()),
        ("endpointslices", slice()),
    ] {
        let made = create(plural, object).unwrap();
        let mut again = made.clone();
        (super::resource(plural).strategy.default)(&mut again);
        assert_eq!(again, made, "{plural}");
    }
}
