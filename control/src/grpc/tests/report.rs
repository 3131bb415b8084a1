//! What nodes report: pods, themselves, signs of life, events.

use serde_json::{Value, json};
use skep_proto::node::v1::pod_status_result::Outcome;
use skep_proto::node::v1::{
    Event, PodStatus, PodStatusResult, RenewLeaseRequest, ReportEventsRequest, ReportNodeStatusRequest,
    ReportPodStatusRequest,
};
use tonic::Code;

use super::{Control, plain};
use crate::api::{ListOptions, Subresource};

fn running() -> Value {
    json!({"phase": "Running", "podIP": "10.244.0.2", "podIPs": [{"ip": "10.244.0.2"}],
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]})
}

fn report(pod: &Value, status: &Value, terminated: bool) -> PodStatus {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap().to_owned();
    let status = if status.is_null() { Vec::new() } else { status.to_string().into_bytes() };
    PodStatus { namespace: text("namespace"), name: text("name"), uid: text("uid"), status, terminated }
}

async fn send(control: &Control, node: &str, statuses: Vec<PodStatus>) -> Vec<PodStatusResult> {
    let request = ReportPodStatusRequest { statuses };
    control.node(node).report_pod_status(request).await.unwrap().into_inner().results
}

async fn outcome(control: &Control, node: &str, status: PodStatus) -> Outcome {
    send(control, node, vec![status]).await[0].outcome()
}

#[tokio::test]
async fn a_status_is_merged_and_the_results_are_in_order() {
    let control = Control::start().await;
    let pod = control.pod("a", "n1", plain()).await;
    let scheduled = json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    control
        .modify("pods", Some(Subresource::Status), "default", "a", |pod| {
            pod["status"]["conditions"] = scheduled.clone();
        })
        .await;
    let mut gone = report(&pod, &running(), false);
    gone.name = "never".into();
    let mut another = report(&pod, &running(), false);
    another.uid = "00000000-0000-0000-0000-000000000000".into();
    let bad = report(&pod, &json!({"phase": 7}), false);
    let results = send(&control, "n1", vec![gone, report(&pod, &running(), false), another, bad]).await;
    let outcomes: Vec<_> = results.iter().map(PodStatusResult::outcome).collect();
    assert_eq!(outcomes, [Outcome::Gone, Outcome::Ok, Outcome::Gone, Outcome::Invalid], "{results:?}");
    assert!(results[3].message.contains("phase"), "{:?}", results[3]);

    let stored = control.get("pods", "default", "a").await.unwrap();
    assert_eq!(stored["status"]["phase"], "Running");
    assert_eq!(stored["status"]["qosClass"], "BestEffort");
    let types: Vec<_> = stored["status"]["conditions"].as_array().unwrap().iter().map(|c| &c["type"]).collect();
    assert_eq!(types, ["PodScheduled", "Ready"]);

    // The same again writes nothing.
    let revision = control.api.revision();
    assert_eq!(outcome(&control, "n1", report(&pod, &running(), false)).await, Outcome::Ok);
    assert_eq!(control.api.revision(), revision);
    // Another node's pod is not there for this one.
    assert_eq!(outcome(&control, "n2", report(&pod, &running(), false)).await, Outcome::Gone);
}

#[tokio::test]
async fn a_terminated_pod_goes_for_good_once_it_is_being_deleted() {
    let control = Control::start().await;
    let pod = control.pod("a", "n1", plain()).await;
    outcome(&control, "n1", report(&pod, &running(), false)).await;
    assert_eq!(outcome(&control, "n1", report(&pod, &Value::Null, true)).await, Outcome::Invalid);
    assert!(!control.delete("pods", "default", "a").await, "its node has to end it first");
    let ended = json!({"phase": "Failed"});
    let mut other = report(&pod, &ended, true);
    other.uid = "00000000-0000-0000-0000-000000000000".into();
    assert_eq!(outcome(&control, "n1", other).await, Outcome::Gone);
    assert!(control.get("pods", "default", "a").await.is_some());
    assert_eq!(outcome(&control, "n1", report(&pod, &ended, true)).await, Outcome::Ok);
    assert_eq!(control.get("pods", "default", "a").await, None);
    assert_eq!(outcome(&control, "n1", report(&pod, &ended, true)).await, Outcome::Gone);
}

#[tokio::test]
async fn a_node_status_is_merged() {
    let control = Control::start().await;
    control.register("n1").await;
    let status = json!({"conditions": [{"type": "Ready", "status": "False", "reason": "RuntimeDown"}]});
    let request = ReportNodeStatusRequest { name: "n1".into(), status: status.to_string().into_bytes() };
    control.node("n1").report_node_status(request.clone()).await.unwrap();
    let node = control.get("nodes", "", "n1").await.unwrap();
    assert_eq!(node["status"]["conditions"][0]["reason"], "RuntimeDown");
    assert_eq!(node["status"]["capacity"]["cpu"], "2");
    let revision = control.api.revision();
    control.node("n1").report_node_status(request).await.unwrap();
    assert_eq!(control.api.revision(), revision);

    let absent = ReportNodeStatusRequest { name: "n2".into(), status: b"{}".to_vec() };
    assert_eq!(control.node("n2").report_node_status(absent).await.unwrap_err().code(), Code::NotFound);
    let bad = ReportNodeStatusRequest { name: "n1".into(), status: br#"{"capacity":[]}"#.to_vec() };
    assert_eq!(control.node("n1").report_node_status(bad).await.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_lease_is_made_and_renewed() {
    let control = Control::start().await;
    let request = || RenewLeaseRequest { name: "n1".into() };
    assert_eq!(control.node("n1").renew_lease(request()).await.unwrap_err().code(), Code::NotFound);
    let registered = control.register("n1").await;
    control.node("n1").renew_lease(request()).await.unwrap();
    let lease = || async { control.get("leases.coordination.k8s.io", "kube-node-lease", "n1").await.unwrap() };
    let first = lease().await;
    assert_eq!(first["metadata"]["ownerReferences"][0]["uid"], registered.uid.as_str());
    assert_eq!(first["spec"]["holderIdentity"], "n1");
    assert_eq!(first["spec"]["leaseDurationSeconds"], 40);
    let renewed: jiff::Timestamp = first["spec"]["renewTime"].as_str().unwrap().parse().unwrap();
    assert!(renewed <= jiff::Timestamp::now());
    control.node("n1").renew_lease(request()).await.unwrap();
    assert!(lease().await["spec"]["renewTime"].as_str() > first["spec"]["renewTime"].as_str());
}

#[tokio::test]
async fn events_are_recorded_once_and_counted() {
    let control = Control::start().await;
    control.register("n1").await;
    let pod = control.pod("a", "n1", plain()).await;
    let back_off = Event {
        api_version: "v1".into(),
        kind: "Pod".into(),
        namespace: "default".into(),
        name: "a".into(),
        uid: pod["metadata"]["uid"].as_str().unwrap().into(),
        field_path: "spec.containers{c}".into(),
        r#type: "Warning".into(),
        reason: "BackOff".into(),
        message: "Back-off restarting failed container".into(),
        component: "skep-agent".into(),
    };
    let node = Event { kind: "Node".into(), namespace: String::new(), name: "n1".into(), ..back_off.clone() };
    let nowhere = Event { namespace: "nowhere".into(), ..back_off.clone() };
    let events = vec![back_off.clone(), nowhere, back_off.clone(), node, back_off.clone()];
    control.node("n1").report_events(ReportEventsRequest { events }).await.unwrap();
    let list = control.api.list("events", "default", &ListOptions::default()).await.unwrap();
    let objects: Vec<Value> = list.items.iter().map(|object| object.value().unwrap()).collect();
    let [of_pod, of_node] = &objects[..] else { panic!("{objects:?}") };
    assert!(of_pod["metadata"]["name"].as_str().unwrap().starts_with("a."));
    assert_eq!((&of_pod["count"], &of_node["count"]), (&json!(3), &json!(1)));
    assert_eq!(of_pod["involvedObject"]["fieldPath"], "spec.containers{c}");
    assert_eq!(of_pod["source"], json!({"component": "skep-agent", "host": "n1"}));
    assert_eq!(of_node["involvedObject"]["kind"], "Node");

    let foreign = Event { kind: "Node".into(), name: "n2".into(), ..back_off };
    let refused = control.node("n1").report_events(ReportEventsRequest { events: vec![foreign] }).await;
    assert_eq!(refused.unwrap_err().code(), Code::PermissionDenied);
}
