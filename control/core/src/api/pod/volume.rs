//! Rules of volumes.

use serde_json::Value;

use super::container::require;
use crate::api::access::{entries, items, text};
use crate::api::field::{Faults, FieldError, Path};
use crate::api::names::{complain, label};

/// Faults of all volumes of a pod.
pub(super) fn validate_volumes(volumes: &Value, path: &Path, faults: &mut Faults) {
    let mut names: Vec<&str> = Vec::new();
    for (index, volume) in items(volumes).iter().enumerate() {
        let here = path.index(index);
        let name = text(&volume["name"]);
        if name.is_empty() {
            faults.push(FieldError::required(here.child("name"), ""));
        } else if names.contains(&name) {
            faults.push(FieldError::duplicate(here.child("name"), name));
        } else {
            complain(faults, here.child("name"), name, label(name));
            names.push(name);
        }
        validate_source(volume, &here, faults);
    }
}

fn validate_source(volume: &Value, path: &Path, faults: &mut Faults) {
    let mut sources = entries(volume).filter(|(field, _)| *field != "name");
    let Some((kind, source)) = sources.next() else {
        faults.push(FieldError::required(path.clone(), "must specify a volume type"));
        return;
    };
    for (extra, _) in sources {
        faults.push(FieldError::forbidden(path.child(extra), "may not specify more than 1 volume type"));
    }
    let here = path.child(kind);
    match kind.as_str() {
        "secret" => {
            require(source, "secretName", &here, faults);
            validate_files(source, &here, faults);
        }
        "configMap" => {
            require(source, "name", &here, faults);
            validate_files(source, &here, faults);
        }
        "hostPath" => require(source, "path", &here, faults),
        "persistentVolumeClaim" => require(source, "claimName", &here, faults),
        "downwardAPI" | "projected" => check_mode(&source["defaultMode"], &here.child("defaultMode"), faults),
        _ => {}
    }
}

fn validate_files(source: &Value, path: &Path, faults: &mut Faults) {
    check_mode(&source["defaultMode"], &path.child("defaultMode"), faults);
    for (index, item) in items(&source["items"]).iter().enumerate() {
        let here = path.child("items").index(index);
        require(item, "key", &here, faults);
        require(item, "path", &here, faults);
        let target = text(&item["path"]);
        if target.starts_with('/') {
            faults.push(FieldError::invalid(here.child("path"), target, "must be a relative path"));
        }
        if target.split('/').any(|part| part == "..") {
            faults.push(FieldError::invalid(here.child("path"), target, "must not contain '..'"));
        }
        check_mode(&item["mode"], &here.child("mode"), faults);
    }
}

fn check_mode(mode: &Value, path: &Path, faults: &mut Faults) {
    if let Some(mode) = mode.as_i64().filter(|mode| !(0..=0o777).contains(mode)) {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        faults.push(FieldError::invalid(path.clone(), mode, detail));
    }
}
