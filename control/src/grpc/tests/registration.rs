//! Who may act for a node, and what registering does.

use serde_json::json;
use skep_proto::node::v1::{
    RegisterRequest, RenewLeaseRequest, ReportNodeStatusRequest, ReportPodStatusRequest, WatchNodeRequest,
};
use tonic::Code;

use super::{Control, node_object};
use crate::api::Subresource;

#[tokio::test]
async fn only_the_node_itself_may_act_for_it() {
    let control = Control::start().await;
    control.register("n1").await;
    let request = || RenewLeaseRequest { name: "n1".into() };
    assert_eq!(control.nobody().renew_lease(request()).await.unwrap_err().code(), Code::Unauthenticated);
    for (user, group) in [
        ("system:node:n2", "system:nodes"),
        ("system:node:n1", "system:masters"),
        ("kubernetes-admin", "system:masters"),
        ("system:node:", "system:nodes"),
    ] {
        let mut client = control.somebody(user, group);
        assert_eq!(client.renew_lease(request()).await.unwrap_err().code(), Code::PermissionDenied, "{user} {group}");
    }
    let mut other = control.node("n2");
    let name = || "n1".to_owned();
    let register = other.register(RegisterRequest { name: name(), node: b"{}".to_vec() }).await;
    assert_eq!(register.unwrap_err().code(), Code::PermissionDenied);
    let watch = other.watch_node(WatchNodeRequest { name: name(), resume_revision: 0 }).await;
    assert_eq!(watch.unwrap_err().code(), Code::PermissionDenied);
    let status = other.report_node_status(ReportNodeStatusRequest { name: name(), status: b"{}".to_vec() }).await;
    assert_eq!(status.unwrap_err().code(), Code::PermissionDenied);
    let request = skep_proto::dataplane::v1::WatchRequest { node: name(), resume_revision: 0 };
    assert_eq!(control.dataplane("n2").watch(request).await.unwrap_err().code(), Code::PermissionDenied);
    let pods = control.nobody().report_pod_status(ReportPodStatusRequest { statuses: vec![] }).await;
    assert_eq!(pods.unwrap_err().code(), Code::Unauthenticated);
    assert!(control.node("n1").renew_lease(RenewLeaseRequest { name: name() }).await.is_ok());
}

#[tokio::test]
async fn registering_makes_the_node_and_is_idempotent() {
    let control = Control::start().await;
    let first = control.register("n1").await;
    assert_eq!(first.pod_cidrs, ["10.244.0.0/24", "fd53:6b65:7070::/64"]);
    assert_eq!(first.service_cidrs, ["10.96.0.0/16", "fd53:6b65:7073::/112"]);
    assert_eq!(first.cluster_dns, ["10.96.0.10", "fd53:6b65:7073::a"]);
    assert_eq!(first.cluster_domain, "cluster.local");
    assert_eq!(first.lease_duration_seconds, 40);
    let node = control.get("nodes", "", "n1").await.unwrap();
    assert_eq!(node["metadata"]["uid"], first.uid.as_str());
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/os"], "linux");
    assert_eq!(node["spec"], json!({"podCIDR": "10.244.0.0/24", "podCIDRs": first.pod_cidrs}), "only ranges are set");
    assert_eq!(node["status"]["capacity"]["pods"], "110");

    // An operator's label and another part's condition are kept; what the agent says is brought up to date.
    control.modify("nodes", None, "", "n1", |node| node["metadata"]["labels"]["disk"] = "ssd".into()).await;
    let pressure = json!({"type": "NetworkUnavailable", "status": "False"});
    let condition = |node: &mut serde_json::Value| {
        let conditions = node["status"]["conditions"].as_array_mut().unwrap();
        conditions.push(pressure.clone());
        conditions[0]["status"] = "Unknown".into();
    };
    control.modify("nodes", Some(Subresource::Status), "", "n1", condition).await;
    let second = control.register("n1").await;
    assert_eq!(second, first);
    let node = control.get("nodes", "", "n1").await.unwrap();
    assert_eq!(node["metadata"]["labels"]["disk"], "ssd");
    let mut conditions: Vec<_> = node["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c["type"].as_str().unwrap().to_owned(), c["status"].as_str().unwrap().to_owned()))
        .collect();
    conditions.sort();
    assert_eq!(conditions, [("NetworkUnavailable".into(), "False".into()), ("Ready".into(), "True".into())]);
}

#[tokio::test]
async fn nodes_get_ranges_of_their_own_and_keep_them() {
    let control = Control::start().await;
    let names: Vec<String> = (0..8).map(|n| format!("n{n}")).collect();
    let registered = futures_util::future::join_all(names.iter().map(|name| control.register(name))).await;
    let mut ranges: Vec<_> = registered.iter().map(|response| response.pod_cidrs[0].clone()).collect();
    ranges.sort();
    assert_eq!(ranges, (0..8).map(|n| format!("10.244.{n}.0/24")).collect::<Vec<_>>());
    // A node whose object was deleted gets its own ranges back.
    control.delete("nodes", "", "n3").await;
    assert_eq!(control.register("n3").await.pod_cidrs, registered[3].pod_cidrs);
    let control = control.restart().await;
    assert_eq!(control.register("n5").await, registered[5]);
}

#[tokio::test]
async fn a_bad_node_is_refused_by_what_is_wrong_with_it() {
    let control = Control::start().await;
    let deep = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
    let other = node_object("other").to_string();
    let wrong = json!({"metadata": {"labels": 7}}).to_string();
    for (node, word) in [("{", "json"), ("[]", "object"), (&other, "other"), (&wrong, "labels"), (&deep, "")] {
        let request = RegisterRequest { name: "n1".into(), node: node.as_bytes().to_vec() };
        let error = control.node("n1").register(request).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error:?}");
        assert!(error.message().contains(word), "{word:?} in {error:?}");
    }
    assert_eq!(control.get("nodes", "", "n1").await, None);
}
