//! The stream of what a node must run.

use std::time::Duration;

use serde_json::{Value, json};
use skep_proto::node::v1::node_event::Event;
use skep_proto::node::v1::{NodeEvent, WatchNodeRequest};
use tonic::Streaming;

use super::{Control, message, plain};
use crate::api::Subresource;

async fn watch(control: &Control, node: &str, resume_revision: u64) -> Streaming<NodeEvent> {
    let request = WatchNodeRequest { name: node.to_owned(), resume_revision };
    control.node(node).watch_node(request).await.unwrap().into_inner()
}

fn brief(event: &NodeEvent) -> String {
    match event.event.as_ref().unwrap() {
        Event::SnapshotBegin(_) => "begin".into(),
        Event::Synced(_) => "synced".into(),
        Event::Progress(_) => "progress".into(),
        Event::Changed(object) => {
            let name = object.r#ref.clone().unwrap();
            let json: Value = serde_json::from_slice(&object.json).unwrap();
            assert_eq!(
                (json["kind"].as_str(), json["metadata"]["name"].as_str()),
                (Some(&*name.kind), Some(&*name.name))
            );
            assert_eq!(json["metadata"]["uid"].as_str(), Some(&*name.uid));
            assert!(json["metadata"]["resourceVersion"].is_string());
            format!("{} {}", name.kind, name.name)
        }
        Event::Deleted(name) => format!("-{} {}", name.kind, name.name),
    }
}

/// Reads up to and including the next mark, and gives its revision.
async fn until_mark(stream: &mut Streaming<NodeEvent>) -> (Vec<String>, u64) {
    let mut seen = Vec::new();
    loop {
        let event = message(stream).await;
        let text = brief(&event);
        if text == "progress" || text == "synced" {
            if text == "synced" || !seen.is_empty() {
                seen.push(text);
                return (seen, event.revision);
            }
        } else {
            seen.push(text);
        }
    }
}

fn with_objects(config_map: &str) -> Value {
    let mut spec = plain();
    spec["volumes"] = json!([{"name": "v", "configMap": {"name": config_map}}]);
    spec
}

#[tokio::test]
async fn a_node_is_sent_its_pods_and_what_they_refer_to() {
    let control = Control::start().await;
    control.config_map("cm", "1").await;
    control.config_map("unused", "1").await;
    control.pod("a", "n1", with_objects("cm")).await;
    control.pod("elsewhere", "n2", plain()).await;
    let mut stream = watch(&control, "n1", 0).await;
    assert_eq!(until_mark(&mut stream).await.0, ["begin", "ConfigMap cm", "Pod a", "synced"]);

    control.modify("configmaps", None, "default", "cm", |object| object["data"]["k"] = "2".into()).await;
    assert_eq!(until_mark(&mut stream).await.0, ["ConfigMap cm", "progress"]);

    // A pod's objects come before it, and go after it.
    control.pod("b", "n1", with_objects("unused")).await;
    assert_eq!(until_mark(&mut stream).await.0, ["ConfigMap unused", "Pod b", "progress"]);
    control.delete("pods", "default", "b").await;
    assert_eq!(until_mark(&mut stream).await.0, ["Pod b", "progress"], "with its deletionTimestamp");
    let options = crate::api::DeleteOptions { grace_period_seconds: Some(0), ..Default::default() };
    control.api.delete(&crate::api::Caller::system("test"), "pods", "default", "b", &options).await.unwrap();
    assert_eq!(until_mark(&mut stream).await.0, ["-Pod b", "-ConfigMap unused", "progress"]);
}

#[tokio::test]
async fn a_node_is_not_told_what_it_reported_itself() {
    let control = Control::start().await;
    control.pod("a", "n1", plain()).await;
    let mut stream = watch(&control, "n1", 0).await;
    until_mark(&mut stream).await;
    control
        .modify("pods", Some(Subresource::Status), "default", "a", |pod| pod["status"]["phase"] = "Running".into())
        .await;
    control.modify("pods", None, "default", "a", |pod| pod["metadata"]["labels"]["x"] = "y".into()).await;
    assert_eq!(until_mark(&mut stream).await.0, ["Pod a", "progress"]);
    // The whole state has the newest status all the same.
    control
        .modify("pods", Some(Subresource::Status), "default", "a", |pod| pod["status"]["reason"] = "Last".into())
        .await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut again = watch(&control, "n1", 0).await;
    message(&mut again).await;
    let Some(Event::Changed(object)) = message(&mut again).await.event else { panic!("no pod") };
    let pod: Value = serde_json::from_slice(&object.json).unwrap();
    assert_eq!((&pod["status"]["phase"], &pod["status"]["reason"]), (&json!("Running"), &json!("Last")));
}

#[tokio::test]
async fn a_stream_resumes_with_what_changed_meanwhile() {
    let control = Control::start().await;
    control.config_map("cm", "1").await;
    control.pod("a", "n1", with_objects("cm")).await;
    control.pod("b", "n1", plain()).await;
    let mut stream = watch(&control, "n1", 0).await;
    let (_, revision) = until_mark(&mut stream).await;
    drop(stream);
    let options = crate::api::DeleteOptions { grace_period_seconds: Some(0), ..Default::default() };
    control.api.delete(&crate::api::Caller::system("test"), "pods", "default", "b", &options).await.unwrap();
    control.modify("configmaps", None, "default", "cm", |object| object["data"]["k"] = "2".into()).await;
    let expected = ["ConfigMap cm", "-Pod b", "synced"];
    // The feed reads behind the write.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut stream = watch(&control, "n1", revision).await;
    let (seen, newest) = until_mark(&mut stream).await;
    assert_eq!(seen, expected);
    drop(stream);

    // Across a restart of the service, too.
    let control = control.restart().await;
    let mut stream = watch(&control, "n1", revision).await;
    assert_eq!(until_mark(&mut stream).await.0, expected);
    let mut stream = watch(&control, "n1", newest).await;
    assert_eq!(until_mark(&mut stream).await.0, ["synced"]);
    // A revision that has not been is one of another store.
    let mut stream = watch(&control, "n1", newest + 1000).await;
    assert_eq!(until_mark(&mut stream).await.0, ["begin", "ConfigMap cm", "Pod a", "synced"]);
}

#[tokio::test]
async fn a_quiet_stream_says_how_far_it_is() {
    let control = Control::start().await;
    let mut stream = watch(&control, "n1", 0).await;
    let (_, synced) = until_mark(&mut stream).await;
    control.config_map("cm", "1").await;
    let event = message(&mut stream).await;
    assert_eq!(brief(&event), "progress");
    assert!(event.revision > synced);
}
