//! Paths and operations.

use serde_json::{Map, Value, json};

use super::Dialect;
use crate::api::resource::{Resource, Verb};

const PATCH_TYPES: [&str; 3] =
    ["application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json"];

const BODY_TYPES: [&str; 2] = ["application/json", "application/yaml"];

/// Adds the paths of one resource.
pub(super) fn add(dialect: Dialect, resource: &Resource, paths: &mut Map<String, Value>) {
    let root = if resource.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", resource.group) };
    let root = format!("{root}/{}", resource.version);
    let builder = Builder { dialect, resource };
    let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("{root}{scope}/{}", resource.plural);
    let item = format!("{collection}/{{name}}");
    paths.insert(
        collection,
        builder.path(&[("get", "list", Verb::List), ("post", "post", Verb::Create)], resource.namespaced, false),
    );
    let operations = [
        ("get", "get", Verb::Get),
        ("put", "put", Verb::Update),
        ("patch", "patch", Verb::Patch),
        ("delete", "delete", Verb::Delete),
    ];
    paths.insert(item, builder.path(&operations, resource.namespaced, true));
    if resource.namespaced {
        paths.insert(format!("{root}/{}", resource.plural), builder.path(&[("get", "list", Verb::List)], false, false));
    }
}

struct Builder<'a> {
    dialect: Dialect,
    resource: &'a Resource,
}

impl Builder<'_> {
    fn path(&self, operations: &[(&str, &str, Verb)], namespaced: bool, named: bool) -> Value {
        let mut path = Map::new();
        for (method, action, verb) in operations {
            if self.resource.serves(*verb) {
                path.insert((*method).to_owned(), self.operation(method, action));
            }
        }
        let in_path = [("namespace", namespaced), ("name", named)];
        let parameters: Vec<Value> =
            in_path.iter().filter(|(_, given)| *given).map(|(name, _)| self.parameter(name, "path", true)).collect();
        if !parameters.is_empty() {
            path.insert("parameters".into(), parameters.into());
        }
        path.into()
    }

    fn operation(&self, method: &str, action: &str) -> Value {
        let resource = self.resource;
        let names: &[&str] = match method {
            "patch" => &["dryRun", "fieldManager", "fieldValidation", "force"],
            "post" | "put" => &["dryRun", "fieldManager", "fieldValidation"],
            "delete" => &["dryRun", "gracePeriodSeconds", "propagationPolicy"],
            _ => &[],
        };
        let mut parameters: Vec<Value> = names.iter().map(|name| self.parameter(name, "query", false)).collect();
        let id = format!("{action}{}{}{}", title(resource.group), title(resource.version), resource.kind);
        let mut operation = json!({
            "operationId": id,
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind":
                {"group": resource.group, "kind": resource.kind, "version": resource.version},
        });
        let types: &[&str] = match method {
            "patch" => &PATCH_TYPES,
            "post" | "put" => &BODY_TYPES,
            _ => &[],
        };
        if !types.is_empty() {
            match self.dialect {
                Dialect::V2 => {
                    operation["consumes"] = json!(types);
                    parameters
                        .push(json!({"name": "body", "in": "body", "required": true, "schema": {"type": "object"}}));
                }
                Dialect::V3 => {
                    let content: Map<String, Value> =
                        types.iter().map(|t| ((*t).to_owned(), json!({"schema": {"type": "object"}}))).collect();
                    operation["requestBody"] = json!({"content": content, "required": true});
                }
            }
        }
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into();
        }
        operation
    }

    fn parameter(&self, name: &str, place: &str, required: bool) -> Value {
        let kind = match name {
            "force" => "boolean",
            "gracePeriodSeconds" => "integer",
            _ => "string",
        };
        let mut parameter = json!({"name": name, "in": place});
        if required {
            parameter["required"] = true.into();
        }
        match self.dialect {
            Dialect::V2 => parameter["type"] = kind.into(),
            Dialect::V3 => parameter["schema"] = json!({"type": kind}),
        }
        parameter
    }
}

/// `events.k8s.io` to `Events`, empty to `Core`.
fn title(group: &str) -> String {
    let first = match group.split('.').next() {
        None | Some("") => "core",
        Some(first) => first,
    };
    let mut letters = first.chars();
    letters.next().map(|c| c.to_ascii_uppercase()).into_iter().chain(letters).collect()
}
