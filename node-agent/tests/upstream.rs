//! The agent's side of the wire against a control service that is really there: TLS, streams that break, answers that fail.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that cannot go on fails"
)]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1 as corev1;
use skep_agent::pods::{Desired, PodReport};
use skep_agent::tls::Pki;
use skep_agent::upstream::{
    DataplaneSink, PodSink, ReportSink, Session, StreamState, Upstream, renew_lease, report_events, report_pods,
    watch_dataplane, watch_pods,
};
use skep_proto::dataplane::v1 as dp;
use skep_proto::node::v1::node_event::Event as Wire;
use skep_proto::node::v1::pod_status_result::Outcome;
use skep_proto::node::v1::{NodeEvent, Object, ObjectRef, Progress, SnapshotBegin, Synced};
use support::eventually;
use support::peer::Peer;
use support::pki::Authority;
use tokio::sync::mpsc;
use tonic::Status;

struct World {
    peer: Peer,
    upstream: Upstream,
    authority: Authority,
    _pki: tempfile::TempDir,
}

async fn world(lease_seconds: u32) -> World {
    let authority = Authority::new();
    let peer = Peer::start(&authority, "127.0.0.1:0".parse().unwrap(), lease_seconds, &["10.244.1.0/24"]).await;
    let dir = tempfile::tempdir().unwrap();
    authority.write_node(dir.path(), "n1", &[]);
    let upstream = Upstream::new("n1", &peer.addr.to_string(), &Pki::read(dir.path()).unwrap()).unwrap();
    World { peer, upstream, authority, _pki: dir }
}

fn session(upstream: &Upstream) -> Session {
    Session::start(upstream.clone(), || async { b"{\"kind\":\"Node\"}".to_vec() })
}

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn push(&self, what: String) {
        self.0.lock().unwrap().push(what);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    async fn wait_for(&self, expected: &[&str]) {
        let mut seen = Vec::new();
        eventually(&format!("{expected:?}"), async || {
            seen.extend(self.take());
            (seen.len() >= expected.len()).then_some(())
        })
        .await;
        assert_eq!(seen, expected);
    }
}

impl PodSink for Seen {
    fn desired(&self, desired: Desired) {
        self.push(match desired {
            Desired::SnapshotBegin => "begin".to_owned(),
            Desired::Synced => "synced".to_owned(),
            Desired::Pod(pod) => format!("pod {}", pod.metadata.name.unwrap_or_default()),
            Desired::ConfigMap(map) => format!("configmap {}", map.metadata.name.unwrap_or_default()),
            Desired::Secret(secret) => format!("secret {}", secret.metadata.name.unwrap_or_default()),
            Desired::Deleted(object) => format!("deleted {} {}", object.kind, object.name),
        });
    }
}

impl ReportSink for Seen {
    fn gone(&self, uid: &str) {
        self.push(format!("gone {uid}"));
    }
}

fn event(revision: u64, event: Wire) -> NodeEvent {
    NodeEvent { revision, event: Some(event) }
}

fn object(kind: &str, name: &str, json: &str) -> Wire {
    let reference =
        ObjectRef { kind: kind.to_owned(), namespace: "default".to_owned(), name: name.to_owned(), uid: String::new() };
    Wire::Changed(Object { r#ref: Some(reference), json: json.as_bytes().to_vec().into() })
}

fn pod(name: &str) -> Wire {
    object(
        "Pod",
        name,
        &format!(r#"{{"metadata":{{"name":"{name}","namespace":"default"}},"spec":{{"containers":[]}}}}"#),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pod_stream_resumes_where_it_was_complete() {
    let mut world = world(40).await;
    let seen = Seen::default();
    let state = Arc::new(StreamState::default());
    tokio::spawn(watch_pods(world.upstream.clone(), session(&world.upstream), seen.clone(), Arc::clone(&state)));

    // A snapshot that is cut short must not be resumed from.
    let first = world.peer.next_pods().await;
    assert_eq!(first.resume_revision, 0);
    first.send(event(7, Wire::SnapshotBegin(SnapshotBegin {}))).await;
    first.send(event(7, pod("a"))).await;
    seen.wait_for(&["begin", "pod a"]).await;
    drop(first);

    let second = world.peer.next_pods().await;
    assert_eq!(second.resume_revision, 0, "nothing was complete yet");
    second.send(event(8, Wire::SnapshotBegin(SnapshotBegin {}))).await;
    second.send(event(8, pod("a"))).await;
    second.send(event(8, object("ConfigMap", "c", r#"{"metadata":{"name":"c"}}"#))).await;
    second.send(event(8, object("Secret", "s", r#"{"metadata":{"name":"s"}}"#))).await;
    second.send(event(8, Wire::Synced(Synced {}))).await;
    second.send(event(9, pod("b"))).await;
    second.send(event(12, Wire::Progress(Progress {}))).await;
    seen.wait_for(&["begin", "pod a", "configmap c", "secret s", "synced", "pod b"]).await;
    eventually("revision 12", async || (state.get().revision == 12).then_some(())).await;
    assert!(state.get().synced && state.get().connected);

    // The whole control service goes away and comes back.
    world.peer.stop();
    drop(second);
    eventually("disconnected", async || (!state.get().connected).then_some(())).await;
    world.peer.resume().await;
    let third = world.peer.next_pods().await;
    assert_eq!(third.resume_revision, 12);
    let reference = ObjectRef { kind: "Pod".to_owned(), name: "a".to_owned(), ..ObjectRef::default() };
    third.send(event(15, Wire::Deleted(reference))).await;
    seen.wait_for(&["deleted Pod a"]).await;
    assert_eq!(state.get().revision, 12, "before `synced` nothing is complete");
    third.send(event(16, Wire::Synced(Synced {}))).await;
    seen.wait_for(&["synced"]).await;
    eventually("revision 16", async || (state.get().revision == 16).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_object_stops_nothing() {
    let mut world = world(40).await;
    let seen = Seen::default();
    let state = Arc::new(StreamState::default());
    tokio::spawn(watch_pods(world.upstream.clone(), session(&world.upstream), seen.clone(), state));
    let stream = world.peer.next_pods().await;
    stream.send(event(1, object("Pod", "bad", r#"{"spec":{"containers":"#))).await;
    stream.send(event(1, object("Unicorn", "u", "{}"))).await;
    stream.send(NodeEvent { revision: 1, event: None }).await;
    stream.send(event(1, pod("good"))).await;
    seen.wait_for(&["pod good"]).await;
}

#[derive(Clone, Default)]
struct Dataplane {
    seen: Seen,
    revision: Arc<Mutex<u64>>,
}

impl DataplaneSink for Dataplane {
    async fn begin_stream(&self) -> u64 {
        *self.revision.lock().unwrap()
    }

    async fn event(&self, event: dp::WatchEvent) {
        *self.revision.lock().unwrap() = event.revision;
        self.seen.push(format!("{}", event.revision));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dataplane_stream_resumes_from_what_its_sink_has_handled() {
    let mut world = world(40).await;
    let sink = Dataplane::default();
    let state = Arc::new(StreamState::default());
    tokio::spawn(watch_dataplane(world.upstream.clone(), sink.clone(), Arc::clone(&state)));
    let first = world.peer.next_dataplane().await;
    assert_eq!(first.resume_revision, 0);
    let synced = dp::watch_event::Event::Synced(dp::Synced {});
    first.send(dp::WatchEvent { revision: 5, event: Some(synced), ..Default::default() }).await;
    sink.seen.wait_for(&["5"]).await;
    eventually("synced", async || state.get().synced.then_some(())).await;
    first.events.send(Err(Status::unavailable("restarting"))).await.unwrap();
    let second = world.peer.next_dataplane().await;
    assert_eq!(second.resume_revision, 5);
    eventually("opened again", async || (state.get().opened == 2).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn registers_again_when_the_node_is_unknown() {
    let world = world(1).await;
    let session = session(&world.upstream);
    let registration = session.registered().await;
    assert_eq!(registration.lease_duration, Duration::from_secs(1));
    assert_eq!(registration.pod_ranges, ["10.244.1.0/24".parse().unwrap()]);
    tokio::spawn(renew_lease(world.upstream.clone(), session.clone()));
    // At a quarter of a second: several within the patience of this test, and none in its first moment is lost.
    eventually("renewals", async || (world.peer.record(|record| record.renewals) >= 4).then_some(())).await;
    assert_eq!(world.peer.record(|record| record.registrations.len()), 1);
    world.peer.record(|record| record.lease_failures.push_back(Status::not_found("no such node")));
    eventually("second registration", async || {
        (world.peer.record(|record| record.registrations.len()) == 2).then_some(())
    })
    .await;
    assert_eq!(world.peer.record(|record| record.registrations[1].name.clone()), "n1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silence_of_the_lease_is_told_once_it_is_over() {
    let mut world = world(1).await;
    let session = session(&world.upstream);
    session.registered().await;
    tokio::spawn(renew_lease(world.upstream.clone(), session.clone()));
    eventually("renewal", async || (world.peer.record(|record| record.renewals) > 0).then_some(())).await;
    world.peer.stop();
    tokio::time::sleep(Duration::from_millis(800)).await;
    world.peer.resume().await;
    tokio::time::timeout(support::PATIENCE, session.reappeared()).await.expect("the node came back unnoticed");
}

fn report(uid: &str, phase: &str, terminated: bool) -> PodReport {
    PodReport {
        namespace: "default".to_owned(),
        name: format!("pod-{uid}"),
        uid: uid.to_owned(),
        status: corev1::PodStatus { phase: Some(phase.to_owned()), ..corev1::PodStatus::default() },
        terminated,
    }
}

fn phases(peer: &Peer) -> Vec<String> {
    let show = |status: &skep_proto::node::v1::PodStatus| {
        let json: serde_json::Value = serde_json::from_slice(&status.status).unwrap();
        let end = if status.terminated { " terminated" } else { "" };
        format!("{} {}{end}", status.uid, json["phase"].as_str().unwrap())
    };
    peer.record(|record| record.statuses.iter().map(show).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_status_of_each_pod_arrives_whatever_happens() {
    let mut world = world(40).await;
    let seen = Seen::default();
    let (sender, receiver) = mpsc::channel(16);
    world.peer.stop();
    for (uid, phase, terminated) in [
        ("1", "Pending", false),
        ("2", "Pending", false),
        ("1", "Running", false),
        ("3", "Failed", true),
        ("3", "Failed", false),
    ] {
        sender.send(report(uid, phase, terminated)).await.unwrap();
    }
    tokio::spawn(report_pods(world.upstream.clone(), receiver, seen.clone()));
    tokio::time::sleep(Duration::from_millis(300)).await;
    world.peer.record(|record| {
        record.outcomes.extend([
            Err(Status::unavailable("not yet")),
            Ok(Outcome::Ok),
            Ok(Outcome::Gone),
            Ok(Outcome::Invalid),
        ]);
    });
    world.peer.resume().await;
    seen.wait_for(&["gone 2"]).await;
    eventually("three statuses", async || (phases(&world.peer).len() >= 3).then_some(())).await;
    assert_eq!(phases(&world.peer), ["1 Running", "2 Pending", "3 Failed terminated"]);
    // What was settled, in whatever way, is not sent again; what is new is.
    sender.send(report("1", "Succeeded", false)).await.unwrap();
    eventually("a fourth", async || (phases(&world.peer).len() >= 4).then_some(())).await;
    assert_eq!(phases(&world.peer)[3..], ["1 Succeeded"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_arrive_after_a_failure() {
    let world = world(40).await;
    let (sender, receiver) = mpsc::channel(16);
    world.peer.record(|record| record.event_failures.push_back(Status::unavailable("busy")));
    tokio::spawn(report_events(world.upstream.clone(), receiver));
    let reason = |reason: &str| skep_proto::node::v1::Event { reason: reason.to_owned(), ..Default::default() };
    sender.send(reason("Pulled")).await.unwrap();
    sender.send(reason("Started")).await.unwrap();
    let arrived = eventually("events", async || {
        world.peer.record(|record| (record.events.len() == 2).then(|| record.events.clone()))
    })
    .await;
    assert_eq!(arrived.iter().map(|event| event.reason.as_str()).collect::<Vec<_>>(), ["Pulled", "Started"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neither_side_talks_to_a_stranger() {
    let world = world(40).await;
    // A node of another cluster.
    let stranger = Authority::new();
    let dir = tempfile::tempdir().unwrap();
    stranger.write_node(dir.path(), "n1", &[]);
    std::fs::write(dir.path().join("ca.crt"), &world.authority.certificate).unwrap();
    let upstream = Upstream::new("n1", &world.peer.addr.to_string(), &Pki::read(dir.path()).unwrap()).unwrap();
    let refused = tokio::time::timeout(Duration::from_secs(1), session(&upstream).registered()).await;
    assert!(refused.is_err(), "a stranger was registered");
    // A control service of another cluster.
    let dir = tempfile::tempdir().unwrap();
    world.authority.write_node(dir.path(), "n1", &[]);
    std::fs::write(dir.path().join("ca.crt"), &stranger.certificate).unwrap();
    let upstream = Upstream::new("n1", &world.peer.addr.to_string(), &Pki::read(dir.path()).unwrap()).unwrap();
    let refused = tokio::time::timeout(Duration::from_secs(1), session(&upstream).registered()).await;
    assert!(refused.is_err(), "the node trusted a stranger");
    assert!(world.peer.record(|record| record.registrations.is_empty()));
}
