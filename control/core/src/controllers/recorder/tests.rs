use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, ObjectReference};

use super::Recorder;
use crate::controllers::{Note, Object, Severity, Write, reference_to};

fn note(message: &str) -> Note {
    let regarding = ObjectReference {
        kind: Some("Pod".into()),
        namespace: Some("team".into()),
        name: Some("web".into()),
        ..ObjectReference::default()
    };
    Note { regarding, severity: Severity::Warning, reason: "Failed", message: message.into() }
}

#[test]
fn a_repeated_note_is_counted() {
    let mut recorder = Recorder::default();
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    let Write::Create(Object::Event(event)) = recorder.record("tester", &note("why"), now) else {
        panic!("a new Event")
    };
    assert_eq!(event.metadata.namespace.as_deref(), Some("team"));
    assert!(event.metadata.name.as_deref().is_some_and(|name| name.starts_with("web.")));
    assert_eq!((event.type_.as_deref(), event.count), (Some("Warning"), Some(1)));
    assert_eq!(event.source.as_ref().and_then(|source| source.component.as_deref()), Some("tester"));
    let later = now + SignedDuration::from_secs(5);
    let Write::Patch { target, patch, .. } = recorder.record("tester", &note("why"), later) else { panic!("a count") };
    assert_eq!(Some(target.name.as_str()), event.metadata.name.as_deref());
    assert_eq!(patch, serde_json::json!({"count": 2, "lastTimestamp": "2026-01-01T00:00:05Z"}));
    assert!(matches!(recorder.record("tester", &note("another"), later), Write::Create(_)));
    recorder.forget(&target);
    assert!(matches!(recorder.record("tester", &note("why"), later), Write::Create(_)));
}

#[test]
fn events_of_objects_without_a_namespace_are_in_default() {
    let node = Object::Node(Node::default().into());
    let note = Note { regarding: reference_to(&node), ..note("why") };
    let now = Timestamp::UNIX_EPOCH;
    let Write::Create(object) = Recorder::default().record("tester", &note, now) else { panic!("a new Event") };
    assert_eq!(object.metadata().namespace.as_deref(), Some("default"));
}
