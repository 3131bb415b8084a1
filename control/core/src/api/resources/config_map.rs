//! ConfigMaps, and the rules of keyed data that Secrets share.

use serde_json::Value;

use crate::api::access::entries;
use crate::api::field::{Faults, FieldError, Path};
use crate::api::meta;
use crate::api::names::{complain, config_key};
use crate::api::resource::{Resource, Strategy, Verb};
use crate::api::table::{Column, age};

/// Bytes of all values together.
const MAX_DATA: usize = 1024 * 1024;

pub(super) static CONFIG_MAP: Resource = Resource {
    group: "",
    version: "v1",
    kind: "ConfigMap",
    plural: "configmaps",
    singular: "configmap",
    short_names: &["cm"],
    categories: &[],
    namespaced: true,
    verbs: Verb::ALL,
    subresources: &[],
    storage: "configmaps",
    strategy: Strategy {
        validate: |object, faults| {
            for (key, _) in entries(&object["data"]) {
                if object["binaryData"].get(key).is_some() {
                    let path = Path::new("data").key(key);
                    faults.push(FieldError::invalid(path, key.as_str(), "duplicate of key present in binaryData"));
                }
            }
            validate_data(object, &["data", "binaryData"], faults);
        },
        validate_update: |new, old, faults| validate_frozen(new, old, &["data", "binaryData"], faults),
        ..Strategy::PLAIN
    },
    columns: &[Column::NAME, Column::new("Data", "string"), Column::AGE],
    row: |object, now| {
        let count = entries(&object["data"]).count() + entries(&object["binaryData"]).count();
        vec![meta::name(object).into(), count.to_string().into(), age(object, now)]
    },
    selectable: &[],
};

/// Faults of keys, and of the total size of values (base64 counts as what it stands for).
pub(super) fn validate_data(object: &Value, fields: &[&str], faults: &mut Faults) {
    let mut size = 0;
    for field in fields {
        let path = Path::new(field);
        for (key, value) in entries(&object[*field]) {
            complain(faults, path.key(key), key, config_key(key));
            let text = value.as_str().unwrap_or_default();
            let plain = *field == "data" && object["kind"] == "ConfigMap";
            size += if plain { text.len() } else { text.trim_end_matches('=').len() / 4 * 3 };
        }
    }
    if size > MAX_DATA {
        let path = Path::new(if fields.len() > 1 { "" } else { "data" });
        faults.push(FieldError::too_long(path, MAX_DATA));
    }
}

/// Faults of changing what was declared immutable.
pub(super) fn validate_frozen(new: &Value, old: &Value, fields: &[&str], faults: &mut Faults) {
    if old["immutable"] != true {
        return;
    }
    for field in ["immutable"].iter().chain(fields) {
        let differs = match *field {
            "immutable" => new["immutable"] != true,
            field => {
                let (a, b) = (entries(&new[field]), entries(&old[field]));
                !a.eq(b)
            }
        };
        if differs {
            faults.push(FieldError::forbidden(Path::new(field), "field is immutable when `immutable` is set"));
        }
    }
}
