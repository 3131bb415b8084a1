use serde_json::{Value, json};

use super::*;

fn pod(spec: Value) -> Pod {
    let mut spec = spec;
    if spec.get("containers").is_none() {
        spec["containers"] = json!([{"name": "app", "image": "i"}]);
    }
    serde_json::from_value(json!({
        "metadata": {"name": "web-1", "namespace": "shop", "uid": "u1", "labels": {"app": "web"}},
        "spec": spec,
    }))
    .unwrap()
}

fn node() -> NodeFacts {
    NodeFacts {
        cluster_dns: Some((vec!["10.96.0.10".to_owned()], "cluster.local".to_owned())),
        resolver: Dns { servers: vec!["192.0.2.53".to_owned()], searches: vec!["lan".to_owned()], options: vec![] },
        hosts: "127.0.0.1 localhost\n192.0.2.1 node".to_owned(),
        log_dir: "/var/log/pods".to_owned(),
        ..NodeFacts::default()
    }
}

#[test]
fn names_labels_and_log_directory() {
    let config = config(&pod(json!({})), &node(), 2);
    assert_eq!(config.attempt, 2);
    assert_eq!(config.hostname, "web-1");
    assert_eq!(config.log_directory, "/var/log/pods/shop_web-1_u1");
    let labels: Vec<(&str, &str)> = config.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(labels, [("app", "web"), (POD_NAME, "web-1"), (POD_NAMESPACE, "shop"), (POD_UID, "u1")]);
    assert!(!config.privileged);
    assert_eq!(config.namespaces, Namespaces::default());
}

#[test]
fn namespaces_of_the_node() {
    let config = config(&pod(json!({"hostNetwork": true, "hostPID": true, "hostIPC": true})), &node(), 0);
    assert_eq!(config.namespaces, Namespaces { host_network: true, pid: PidNamespace::Host, host_ipc: true });
    assert_eq!(config.hostname, "", "a host-network pod has the node's host name");
}

#[test]
fn privileged_when_any_container_is() {
    let spec = json!({"containers": [{"name": "a"}, {"name": "b", "securityContext": {"privileged": true}}]});
    assert!(config(&pod(spec), &node(), 0).privileged);
}

#[test]
fn dns_by_policy() {
    let cluster = (
        vec!["10.96.0.10"],
        vec!["shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "lan"],
        vec!["ndots:5"],
    );
    let host = (vec!["192.0.2.53"], vec!["lan"], vec![]);
    let table = [
        (json!({}), cluster.clone()),
        (json!({"dnsPolicy": "Default"}), host.clone()),
        (json!({"dnsPolicy": "ClusterFirst", "hostNetwork": true}), host),
        (json!({"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": true}), cluster),
        (json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.1.1.1"]}}), (vec!["1.1.1.1"], vec![], vec![])),
        (
            json!({"dnsConfig": {"searches": ["lan", "example.org"], "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}]}}),
            (
                vec!["10.96.0.10"],
                vec!["shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "lan", "example.org"],
                vec!["ndots:2", "edns0"],
            ),
        ),
    ];
    for (spec, (servers, searches, options)) in table {
        let found = dns("shop", pod(spec.clone()).spec.as_ref().unwrap(), &node());
        assert_eq!(
            (found.servers, found.searches, found.options),
            (to_strings(&servers), to_strings(&searches), to_strings(&options)),
            "{spec}"
        );
    }
}

fn to_strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|&text| text.to_owned()).collect()
}

#[test]
fn hosts_file() {
    let ips = ["10.244.0.5".to_owned(), "fd00::5".to_owned()];
    let text = hosts(&pod(json!({"hostAliases": [{"ip": "192.0.2.9", "hostnames": ["db", "cache"]}]})), &node(), &ips);
    assert!(text.ends_with("10.244.0.5\tweb-1\nfd00::5\tweb-1\n192.0.2.9\tdb\tcache\n"), "{text}");
    let text = hosts(&pod(json!({"subdomain": "nodes"})), &node(), &ips[..1]);
    assert!(text.ends_with("10.244.0.5\tweb-1.nodes.shop.svc.cluster.local\tweb-1\n"), "{text}");
    let text = hosts(
        &pod(json!({"hostNetwork": true, "hostAliases": [{"ip": "192.0.2.9", "hostnames": ["db"]}]})),
        &node(),
        &ips,
    );
    assert!(text.ends_with("192.0.2.1 node\n192.0.2.9\tdb\n"), "{text}");
}
