use std::os::unix::fs::PermissionsExt;

use super::*;

fn names(extra: &str) -> Vec<String> {
    ["localhost", "10.96.0.1", "::1", extra].map(str::to_owned).to_vec()
}

fn load(dir: &Path, extra: &str) -> Pki {
    Pki::load_or_create(dir, &names(extra), "127.0.0.1:6443").unwrap()
}

#[test]
fn certificates_outlive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let first = load(dir.path(), "a");
    let second = load(dir.path(), "a");
    assert_eq!(first.ca, second.ca);
    assert_eq!(first.server.certificate, second.server.certificate);
    assert_eq!(first.kubelet_client.certificate, second.kubelet_client.certificate);
    for key in ["ca", "server", "admin", "kubelet-client"] {
        let meta = fs::metadata(dir.path().join(format!("pki/{key}.key"))).unwrap();
        assert_eq!(meta.permissions().mode() & 0o777, 0o600, "{key}");
    }
    let kubeconfig = fs::read_to_string(dir.path().join("admin.kubeconfig")).unwrap();
    assert!(kubeconfig.contains("server: https://127.0.0.1:6443\n"));
}

#[test]
fn a_new_name_makes_a_new_serving_certificate_only() {
    let dir = tempfile::tempdir().unwrap();
    let first = load(dir.path(), "a");
    let second = load(dir.path(), "b");
    assert_eq!(first.ca, second.ca);
    assert_ne!(first.server.certificate, second.server.certificate);
    assert_eq!(first.kubelet_client.certificate, second.kubelet_client.certificate);
}

#[test]
fn what_a_killed_process_left_is_completed() {
    let dir = tempfile::tempdir().unwrap();
    let first = load(dir.path(), "a");
    fs::remove_file(dir.path().join("pki/server.crt")).unwrap();
    fs::remove_file(dir.path().join("admin.kubeconfig")).unwrap();
    fs::write(dir.path().join("pki/kubelet-client.crt"), "torn").unwrap();
    let second = load(dir.path(), "a");
    assert_eq!(first.ca, second.ca);
    assert_eq!(first.server.key, second.server.key);
    assert!(second.kubelet_client.certificate.starts_with("-----BEGIN CERTIFICATE-----"));
    assert!(dir.path().join("admin.kubeconfig").exists());
}

#[test]
fn a_foreign_certificate_is_not_kept() {
    let dir = tempfile::tempdir().unwrap();
    load(dir.path(), "a");
    for file in ["ca.key", "ca.crt"] {
        fs::remove_file(dir.path().join("pki").join(file)).unwrap();
    }
    let old = fs::read_to_string(dir.path().join("pki/admin.crt")).unwrap();
    load(dir.path(), "a");
    assert_ne!(old, fs::read_to_string(dir.path().join("pki/admin.crt")).unwrap());
}

#[test]
fn nodes_get_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("node-1");
    issue_node(dir.path(), "node-1", &["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()], &out).unwrap();
    let ca = fs::read_to_string(out.join("ca.crt")).unwrap();
    assert_eq!(ca, load(dir.path(), "a").ca);
    assert!(out.join("node.crt").exists() && out.join("node.key").exists());
    for bad in ["", "Node", "a b", "-a", "a..b"] {
        assert!(matches!(issue_node(dir.path(), bad, &[], &out), Err(Error::NodeName(_))), "{bad:?}");
    }
}
