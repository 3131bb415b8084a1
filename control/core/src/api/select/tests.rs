use serde_json::json;

use super::*;
use crate::api::registry;

fn selects(selector: &str, labels: serde_json::Value) -> bool {
    LabelSelector::parse(selector).unwrap().matches(&json!({"metadata": {"labels": labels}}))
}

#[test]
fn every_label_operator() {
    let web = json!({"app": "web", "tier": "front", "n": "5"});
    for (selector, expected) in [
        ("", true),
        ("app=web", true),
        ("app==web", true),
        ("app = web", true),
        ("app=db", false),
        ("app!=db", true),
        ("app!=web", false),
        ("missing!=x", true),
        ("app", true),
        ("missing", false),
        ("!missing", true),
        ("!app", false),
        ("app in (web, db)", true),
        ("app in (db)", false),
        ("app notin (db)", true),
        ("app notin (web)", false),
        ("missing notin (a)", true),
        ("app=web,tier=front", true),
        ("app=web,tier=back", false),
        ("n>4", true),
        ("n<5", false),
        ("n > 4, app in (web),!x", true),
        ("app in (),tier", false),
        ("app=", false),
    ] {
        assert_eq!(selects(selector, web.clone()), expected, "{selector:?}");
    }
    assert!(selects("app notin (a)", json!(null)));
}

#[test]
fn malformed_label_selectors_are_bad_requests() {
    for selector in [
        "a,",
        ",a",
        "a in b",
        "a in (b",
        "a b",
        "=x",
        "a=b c",
        "-a",
        "a=-",
        "a>x",
        "a b (c)",
        "a in (b c)",
        "x/y/z=1",
        "!",
    ] {
        let status = LabelSelector::parse(selector).expect_err(selector);
        assert_eq!(status.code, 400, "{selector:?}");
        assert!(status.message.starts_with("unable to parse requirement"), "{}", status.message);
    }
}

#[test]
fn typed_selectors() {
    let selector = json!({"matchLabels": {"a": "1"}, "matchExpressions": [
        {"key": "b", "operator": "In", "values": ["x"]}, {"key": "c", "operator": "DoesNotExist"}]});
    assert!(matches_typed(&selector, &json!({"a": "1", "b": "x"})));
    assert!(!matches_typed(&selector, &json!({"a": "1", "b": "x", "c": ""})));
    assert!(!matches_typed(&selector, &json!({"a": "1"})));
    assert!(matches_typed(&json!({}), &json!({"a": "1"})));
}

#[test]
fn field_selectors_by_resource() {
    let pods = registry().find("", "v1", "pods").unwrap();
    let pod = json!({"metadata": {"name": "a", "namespace": "x"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}});
    for (selector, expected) in [
        ("", true),
        ("metadata.name=a", true),
        ("metadata.name==b", false),
        ("metadata.namespace!=x", false),
        ("spec.nodeName=n1", true),
        ("spec.nodeName=n1,status.phase!=Succeeded,status.phase!=Failed", true),
        ("status.phase=Failed", false),
        ("spec.nodeName!=", true),
    ] {
        assert_eq!(FieldSelector::parse(pods, selector).unwrap().matches(pods, &pod), expected, "{selector:?}");
    }
    assert_eq!(FieldSelector::parse(pods, "metadata.name=a").unwrap().name(), Some("a"));
    for selector in ["spec.foo=1", "metadata.name", "a=b=c", "metadata.name=a=b", "metadata.name=a\\"] {
        assert_eq!(FieldSelector::parse(pods, selector).expect_err(selector).code, 400);
    }
    let unknown = FieldSelector::parse(pods, "spec.foo=1").unwrap_err();
    assert_eq!(unknown.message, "field label not supported: spec.foo");
    let events = registry().find("", "v1", "events").unwrap();
    let event = json!({"involvedObject": {"name": "a,b", "kind": "Pod", "uid": "u"}, "type": "Warning"});
    let selector =
        FieldSelector::parse(events, "involvedObject.name=a\\,b,involvedObject.kind=Pod,type=Warning").unwrap();
    assert!(selector.matches(events, &event));
}
