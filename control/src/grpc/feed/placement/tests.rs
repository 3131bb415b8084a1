//! Objects here are the revision at which they were written.

use serde_json::json;

use super::*;

type Nodes = Placement<u64>;

fn pod(node: &str, uid: &str, secrets: &[&str]) -> Pod {
    let volumes: Vec<_> = secrets.iter().map(|name| json!({"name": name, "secret": {"secretName": name}})).collect();
    let spec = json!({"nodeName": node, "containers": [], "volumes": volumes});
    serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": "p", "uid": uid}, "spec": spec})).unwrap()
}

fn secret(name: &str) -> ObjectName {
    ObjectName { kind: ObjectKind::Secret, namespace: "ns".into(), name: name.into() }
}

/// `kind name object`, or `-kind name` for a removal.
fn brief(nodes: &Nodes, node: &str, after: Option<u64>) -> Vec<String> {
    let brief = |(name, sent): &(ObjectName, Sent<u64>)| match sent.object {
        Some(object) => format!("{} {} {object}", name.kind.as_str(), name.name),
        None => format!("-{} {}", name.kind.as_str(), name.name),
    };
    nodes.changes(node, after).changes.iter().map(brief).collect()
}

fn put(nodes: &mut Nodes, revision: u64, name: &str, pod: &Pod) -> Vec<String> {
    nodes.set_pod(revision, &pod_name("ns", name), Some((pod, revision)), false).into_iter().collect()
}

#[test]
fn a_pod_comes_after_what_it_refers_to_and_goes_before_it() {
    let mut nodes = Nodes::new(1);
    assert!(nodes.set_object(2, secret("s"), Some(("us".into(), 2))).is_empty());
    assert_eq!(put(&mut nodes, 3, "a", &pod("n1", "ua", &["s"])), ["n1"]);
    assert_eq!(brief(&nodes, "n1", None), ["Secret s 2", "Pod a 3"]);
    assert_eq!(brief(&nodes, "n1", Some(2)), ["Secret s 2", "Pod a 3"], "the secret is news to this node");
    assert!(brief(&nodes, "n2", None).is_empty());

    assert_eq!(nodes.set_object(4, secret("s"), Some(("us".into(), 4))), ["n1"]);
    assert_eq!(brief(&nodes, "n1", Some(3)), ["Secret s 4"]);

    nodes.set_pod(5, &pod_name("ns", "a"), None, false);
    assert_eq!(brief(&nodes, "n1", Some(4)), ["-Pod a", "-Secret s"]);
    assert!(brief(&nodes, "n1", None).is_empty());
}

#[test]
fn an_object_stays_while_another_pod_of_the_node_needs_it() {
    let mut nodes = Nodes::new(1);
    nodes.set_object(2, secret("s"), Some(("us".into(), 2)));
    put(&mut nodes, 3, "a", &pod("n1", "ua", &["s"]));
    put(&mut nodes, 4, "b", &pod("n1", "ub", &["s"]));
    put(&mut nodes, 5, "c", &pod("n2", "uc", &["s"]));
    nodes.set_pod(6, &pod_name("ns", "a"), None, false);
    assert_eq!(brief(&nodes, "n1", Some(5)), ["-Pod a"]);
    nodes.set_pod(7, &pod_name("ns", "b"), None, false);
    assert_eq!(brief(&nodes, "n1", Some(6)), ["-Pod b", "-Secret s"]);
    assert_eq!(brief(&nodes, "n2", None), ["Secret s 2", "Pod c 5"]);
}

#[test]
fn an_object_that_is_made_later_is_sent_when_it_is_there() {
    let mut nodes = Nodes::new(1);
    put(&mut nodes, 2, "a", &pod("n1", "ua", &["s"]));
    assert_eq!(brief(&nodes, "n1", None), ["Pod a 2"]);
    assert_eq!(nodes.set_object(3, secret("s"), Some(("us".into(), 3))), ["n1"]);
    assert_eq!(brief(&nodes, "n1", Some(2)), ["Secret s 3"]);
    assert_eq!(nodes.set_object(4, secret("s"), None), ["n1"]);
    assert_eq!(brief(&nodes, "n1", Some(3)), ["-Secret s"]);
}

#[test]
fn a_pod_is_its_nodes_from_its_binding_on() {
    let mut nodes = Nodes::new(1);
    assert!(put(&mut nodes, 2, "a", &pod("", "ua", &[])).is_empty());
    assert_eq!(put(&mut nodes, 3, "a", &pod("n1", "ua", &[])), ["n1"]);
    // The same name, another pod, elsewhere.
    assert_eq!(put(&mut nodes, 4, "a", &pod("n2", "ub", &[])), ["n1", "n2"]);
    assert_eq!(brief(&nodes, "n1", Some(3)), ["-Pod a"]);
    assert_eq!(brief(&nodes, "n2", None), ["Pod a 4"]);
}

#[test]
fn quiet_changes_are_no_news_but_are_in_the_next_snapshot() {
    let mut nodes = Nodes::new(1);
    put(&mut nodes, 2, "a", &pod("n1", "ua", &[]));
    let touched = nodes.set_pod(3, &pod_name("ns", "a"), Some((&pod("n1", "ua", &[]), 3)), true);
    assert!(touched.is_empty());
    assert!(brief(&nodes, "n1", Some(2)).is_empty());
    assert_eq!(brief(&nodes, "n1", None), ["Pod a 3"]);
}

#[test]
fn old_removals_are_forgotten_and_raise_the_floor() {
    let mut nodes = Nodes::new(1);
    for n in 0..MAX_REMOVALS as u64 + 2 {
        let name = n.to_string();
        put(&mut nodes, 10 + 2 * n, &name, &pod("n1", "u", &[]));
        nodes.set_pod(11 + 2 * n, &pod_name("ns", &name), None, false);
    }
    let changes = nodes.changes("n1", Some(1));
    assert_eq!((changes.changes.len(), changes.floor), (MAX_REMOVALS, 13));
    assert_eq!(nodes.changes("n2", None).floor, 1);
}
