use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::pods::node::NodeFacts;

fn planned(volume: Value) -> Result<VolumeSource, String> {
    let mut volume = volume;
    volume["name"] = json!("v");
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "labels": {"app": "web"}},
        "spec": {"containers": [], "volumes": [volume]},
    }))
    .unwrap();
    let node = NodeFacts::default();
    let mut objects = Objects::default();
    let map = json!({"metadata": {}, "data": {"a": "1"}, "binaryData": {"b": "Ag=="}});
    objects.config_maps.insert("settings".to_owned(), Arc::new(serde_json::from_value(map).unwrap()));
    let secret = json!({"metadata": {}, "data": {"password": "aHVudGVyMg=="}});
    objects.secrets.insert("login".to_owned(), Arc::new(serde_json::from_value(secret).unwrap()));
    let fields = Fields { pod: &pod, node: &node, pod_ips: &[] };
    let plan = plan(&fields, &objects).map_err(|error| error.to_string())?;
    Ok(plan.volumes["v"].clone())
}

fn files(memory: bool, files: &[(&str, &[u8], u32)]) -> Result<VolumeSource, String> {
    let file =
        |&(path, bytes, mode): &(&str, &[u8], u32)| (path.to_owned(), FileContent { bytes: bytes.to_vec(), mode });
    Ok(VolumeSource::Files { memory, files: files.iter().map(file).collect() })
}

fn failed(reason: &str) -> Result<VolumeSource, String> {
    Err(format!("MountVolume.SetUp failed for volume \"v\" : {reason}"))
}

#[test]
fn every_source() {
    let table = [
        (json!({"emptyDir": {}}), Ok(VolumeSource::Empty { memory: false, size_limit: None })),
        (
            json!({"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}),
            Ok(VolumeSource::Empty { memory: true, size_limit: Some(1 << 20) }),
        ),
        (
            json!({"hostPath": {"path": "/srv", "type": "Directory"}}),
            Ok(VolumeSource::Host { path: "/srv".to_owned(), kind: HostPathKind::Directory }),
        ),
        (json!({"configMap": {"name": "settings"}}), files(false, &[("a", b"1", 0o644), ("b", b"\x02", 0o644)])),
        (
            json!({"configMap": {"name": "settings", "defaultMode": 256, "items": [{"key": "a", "path": "d/x"}, {"key": "b", "path": "y", "mode": 420}]}}),
            files(false, &[("d/x", b"1", 0o400), ("y", b"\x02", 0o644)]),
        ),
        (json!({"configMap": {"name": "none"}}), failed("configmap \"none\" not found")),
        (json!({"configMap": {"name": "none", "optional": true}}), files(false, &[])),
        (
            json!({"configMap": {"name": "settings", "items": [{"key": "z", "path": "z"}]}}),
            failed("references non-existent config key: z"),
        ),
        (
            json!({"configMap": {"name": "settings", "items": [{"key": "a", "path": "../z"}]}}),
            failed("path \"../z\" must be relative and not contain '..'"),
        ),
        (json!({"secret": {"secretName": "login"}}), files(true, &[("password", b"hunter2", 0o644)])),
        (json!({"secret": {"secretName": "none"}}), failed("secret \"none\" not found")),
        (
            json!({"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}}),
            files(false, &[("labels", b"app=\"web\"", 0o644)]),
        ),
        (
            json!({"projected": {"defaultMode": 292, "sources": [
                {"configMap": {"name": "settings", "items": [{"key": "a", "path": "a"}]}},
                {"secret": {"name": "login", "items": [{"key": "password", "path": "p"}]}},
                {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            ]}}),
            files(true, &[("a", b"1", 0o444), ("p", b"hunter2", 0o444), ("name", b"web", 0o444)]),
        ),
        (
            json!({"persistentVolumeClaim": {"claimName": "x"}}),
            failed("volume source persistentVolumeClaim is not supported by this node"),
        ),
    ];
    for (volume, expected) in table {
        assert_eq!(planned(volume.clone()), expected, "{volume}");
    }
}
