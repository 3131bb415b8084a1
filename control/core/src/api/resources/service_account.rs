//! ServiceAccounts.

use crate::api::access::items;
use crate::api::meta;
use crate::api::resource::{Resource, Strategy, Verb};
use crate::api::table::{Column, age};

pub(super) static SERVICE_ACCOUNT: Resource = Resource {
    group: "",
    version: "v1",
    kind: "ServiceAccount",
    plural: "serviceaccounts",
    singular: "serviceaccount",
    short_names: &["sa"],
    categories: &[],
    namespaced: true,
    verbs: Verb::ALL,
    subresources: &[],
    storage: "serviceaccounts",
    strategy: Strategy { returns_deleted: true, ..Strategy::PLAIN },
    columns: &[Column::NAME, Column::new("Secrets", "string"), Column::AGE],
    row: |object, now| {
        vec![meta::name(object).into(), items(&object["secrets"]).len().to_string().into(), age(object, now)]
    },
    selectable: &[],
};
