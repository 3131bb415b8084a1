//! Secrets.

use serde_json::Value;

use super::config_map::{validate_data, validate_frozen};
use crate::api::access::{child, entries, fill, remove, set, text};
use crate::api::base64;
use crate::api::field::{FieldError, Path};
use crate::api::meta;
use crate::api::resource::{Resource, Strategy, Verb};
use crate::api::table::{Column, age};

/// Types and the keys without which they say nothing.
const REQUIRED_KEYS: [(&str, &[&str]); 4] = [
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
];

pub(super) static SECRET: Resource = Resource {
    group: "",
    version: "v1",
    kind: "Secret",
    plural: "secrets",
    singular: "secret",
    short_names: &[],
    categories: &[],
    namespaced: true,
    verbs: Verb::ALL,
    subresources: &[],
    storage: "secrets",
    strategy: Strategy {
        default: |object| {
            fill(object, "type", "Opaque");
            write_through(object);
        },
        validate: |object, faults| {
            validate_data(object, &["data"], faults);
            let kind = text(&object["type"]);
            for (_, keys) in REQUIRED_KEYS.iter().filter(|(name, _)| *name == kind) {
                for key in *keys {
                    if object["data"].get(key).is_none() {
                        faults.push(FieldError::required(Path::new("data").key(key), ""));
                    }
                }
            }
        },
        validate_update: |new, old, faults| {
            if new["type"] != old["type"] {
                faults.push(FieldError::invalid(Path::new("type"), new["type"].clone(), "field is immutable"));
            }
            validate_frozen(new, old, &["data"], faults);
        },
        ..Strategy::PLAIN
    },
    columns: &[Column::NAME, Column::new("Type", "string"), Column::new("Data", "string"), Column::AGE],
    row: |object, now| {
        vec![
            meta::name(object).into(),
            text(&object["type"]).into(),
            entries(&object["data"]).count().to_string().into(),
            age(object, now),
        ]
    },
    selectable: &[("type", |o| text(&o["type"]).into())],
};

/// `stringData` is only written: its values become base64 in `data`.
fn write_through(object: &mut Value) {
    let plain: Vec<(String, String)> =
        entries(&object["stringData"]).map(|(k, v)| (k.clone(), base64::encode(text(v).as_bytes()))).collect();
    remove(object, "stringData");
    for (key, value) in plain {
        set(child(object, "data"), &key, value);
    }
}
