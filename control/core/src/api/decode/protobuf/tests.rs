use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A message under construction.
#[derive(Clone, Default)]
struct Out(Vec<u8>);

impl Out {
    fn varint(mut self, mut value: u64) -> Self {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
        self
    }

    fn int(self, field: u64, value: i64) -> Self {
        self.varint(field << 3).varint(value.cast_unsigned())
    }

    fn bytes(self, field: u64, bytes: impl AsRef<[u8]>) -> Self {
        let mut out = self.varint(field << 3 | 2).varint(bytes.as_ref().len() as u64);
        out.0.extend_from_slice(bytes.as_ref());
        out
    }

    fn message(self, field: u64, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }
}

fn out() -> Out {
    Out::default()
}

fn enveloped(version: &str, kind: &str, object: &Out) -> Vec<u8> {
    let meta = out().bytes(1, version).bytes(2, kind);
    let unknown = out().message(1, &meta).message(2, object).bytes(3, "").bytes(4, "");
    [MAGIC, &unknown.0].concat()
}

#[test]
fn a_config_map_with_the_zeros_that_encoders_write() {
    let time = out();
    let meta = out()
        .bytes(1, "c")
        .bytes(2, "")
        .bytes(3, "x")
        .bytes(5, "")
        .int(7, 0)
        .message(8, &time)
        .message(11, &out().bytes(1, "app").bytes(2, "web"));
    let object = out()
        .message(1, &meta)
        .message(2, &out().bytes(1, "k").bytes(2, ""))
        .message(3, &out().bytes(1, "b").bytes(2, [0, 255]))
        .int(4, 0);
    let document = parse_protobuf(&enveloped("v1", "ConfigMap", &object)).unwrap();
    assert_eq!(
        document.value,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "x", "labels": {"app": "web"}},
            "data": {"k": ""}, "binaryData": {"b": "AP8="}, "immutable": false})
    );
}

#[test]
fn inline_messages_quantities_and_mixed_values() {
    let quantity = out().bytes(1, "500m");
    let limits = out().message(1, &out().bytes(1, "cpu").message(2, &quantity));
    let port = out().int(1, 0).int(2, 8080).bytes(3, "");
    let probe = out().message(1, &out().message(2, &out().bytes(1, "/").message(2, &port))).int(2, 0).int(4, 10);
    let container = out().bytes(1, "a").bytes(2, "nginx").message(8, &limits).message(10, &probe);
    let volume = out().bytes(1, "v").message(2, &out().message(2, &out().bytes(1, "")));
    let spec = out().message(1, &volume).message(2, &container).int(4, 0).int(11, 0);
    let pod =
        out().message(1, &out().bytes(1, "p").message(8, &out().int(1, 1_764_590_400).int(2, 0))).message(2, &spec);
    let document = parse_protobuf(&enveloped("v1", "Pod", &pod)).unwrap();
    assert_eq!(
        document.value["spec"],
        json!({"containers": [{"name": "a", "image": "nginx", "resources": {"limits": {"cpu": "500m"}},
                "livenessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 10}}],
            "volumes": [{"name": "v", "emptyDir": {}}], "terminationGracePeriodSeconds": 0})
    );
    assert_eq!(document.value["metadata"]["creationTimestamp"], "2025-12-01T12:00:00Z");
}

#[test]
fn options_of_a_delete() {
    let object = out().int(1, 0).message(2, &out().bytes(1, "u-1")).bytes(4, "Background");
    let document = parse_protobuf(&enveloped("v1", "DeleteOptions", &object)).unwrap();
    assert_eq!(
        document.value,
        json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "preconditions": {"uid": "u-1"}, "propagationPolicy": "Background"})
    );
}

#[test]
fn malformed_bodies() {
    for (body, text) in [
        (b"".to_vec(), "magic"),
        (b"{}".to_vec(), "magic"),
        (enveloped("v1", "Nothing", &out()), "no kind"),
        (enveloped("v1", "Pod", &out().bytes(1, [0x0a, 0x05, b'a'])), "unexpected end"),
        (enveloped("v1", "Pod", &out().message(1, &out().bytes(1, [0xff]))), "UTF-8"),
        (enveloped("v1", "Pod", &out().int(1, 1)), "another type"),
        (enveloped("v1", "Pod", &Out(vec![0x0f])), "wire type"),
    ] {
        let status = parse_protobuf(&body).unwrap_err();
        assert_eq!(status.code, 400);
        assert!(status.message.contains(text), "{}", status.message);
    }
    assert_eq!(parse_protobuf(&vec![0; MAX_BODY + 1]).unwrap_err().code, 413);
}

proptest! {
    #[test]
    fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse_protobuf(&enveloped("v1", "Pod", &Out(bytes)));
    }
}
