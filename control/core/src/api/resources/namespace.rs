//! Namespaces.

use crate::api::access::{carry, child, items, set, text};
use crate::api::meta;
use crate::api::resource::{NameRule, Resource, Strategy, Subresource, Verb};
use crate::api::table::{Column, age};

pub(super) static NAMESPACE: Resource = Resource {
    group: "",
    version: "v1",
    kind: "Namespace",
    plural: "namespaces",
    singular: "namespace",
    short_names: &["ns"],
    categories: &[],
    namespaced: false,
    verbs: &[Verb::Create, Verb::Delete, Verb::Get, Verb::List, Verb::Patch, Verb::Update, Verb::Watch],
    subresources: &[Subresource::Finalize, Subresource::Status],
    storage: "namespaces",
    strategy: Strategy {
        default: |object| {
            let name = meta::name(object).to_owned();
            if !name.is_empty() {
                set(child(child(object, "metadata"), "labels"), "kubernetes.io/metadata.name", name);
            }
        },
        prepare_create: |object| {
            let finalizers = items(&object["spec"]["finalizers"]);
            if !finalizers.iter().any(|f| f == "kubernetes") {
                let mut finalizers = finalizers.to_vec();
                finalizers.push("kubernetes".into());
                set(child(object, "spec"), "finalizers", finalizers);
            }
            set(object, "status", serde_json::json!({"phase": "Active"}));
        },
        prepare_update: |new, old| {
            carry(new, old, "status");
            carry(new, old, "spec");
        },
        name: NameRule::Label,
        held: |object| !items(&object["spec"]["finalizers"]).is_empty(),
        terminate: |object| set(child(object, "status"), "phase", "Terminating"),
        returns_deleted: true,
        ..Strategy::PLAIN
    },
    columns: &[Column::NAME, Column::new("Status", "string"), Column::AGE],
    row: |object, now| vec![meta::name(object).into(), text(&object["status"]["phase"]).into(), age(object, now)],
    selectable: &[("status.phase", |o| text(&o["status"]["phase"]).into())],
};
