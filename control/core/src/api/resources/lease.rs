//! Leases.

use crate::api::access::text;
use crate::api::field::{FieldError, Path};
use crate::api::meta;
use crate::api::resource::{Resource, Strategy, Verb};
use crate::api::table::{Column, age};

pub(super) static LEASE: Resource = Resource {
    group: "coordination.k8s.io",
    version: "v1",
    kind: "Lease",
    plural: "leases",
    singular: "lease",
    short_names: &[],
    categories: &[],
    namespaced: true,
    verbs: Verb::ALL,
    subresources: &[],
    storage: "leases.coordination.k8s.io",
    strategy: Strategy {
        validate: |object, faults| {
            let path = Path::new("spec");
            for (field, least, detail) in [
                ("leaseDurationSeconds", 1, "must be greater than 0"),
                ("leaseTransitions", 0, "must be greater than or equal to 0"),
            ] {
                if let Some(number) = object["spec"][field].as_i64().filter(|n| *n < least) {
                    faults.push(FieldError::invalid(path.child(field), number, detail));
                }
            }
        },
        create_on_update: true,
        unconditional_update: false,
        ..Strategy::PLAIN
    },
    columns: &[Column::NAME, Column::new("Holder", "string"), Column::AGE],
    row: |object, now| {
        vec![meta::name(object).into(), text(&object["spec"]["holderIdentity"]).into(), age(object, now)]
    },
    selectable: &[],
};
