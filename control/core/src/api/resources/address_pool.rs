//! Pools of addresses for Services of type LoadBalancer. A resource of Skep's own.

use serde_json::Value;

use crate::address::{Span, special};
use crate::api::access::{child, fill, items, text};
use crate::api::field::{Faults, FieldError, Path};
use crate::api::meta;
use crate::api::names::{complain, label, validate_selector};
use crate::api::resource::{Resource, Strategy, Subresource, Verb};
use crate::api::table::{Column, age, or_none, some_of};

/// Most ranges of one pool.
const MAX_RANGES: usize = 100;

pub(super) static ADDRESS_POOL: Resource = Resource {
    group: "skep.io",
    version: "v1alpha1",
    kind: "AddressPool",
    plural: "addresspools",
    singular: "addresspool",
    short_names: &["ap"],
    categories: &[],
    namespaced: false,
    verbs: Verb::ALL,
    subresources: &[Subresource::Status],
    storage: "addresspools.skep.io",
    strategy: Strategy {
        default: |object| fill(child(object, "spec"), "autoAssign", true),
        validate,
        generation: true,
        ..Strategy::WITH_STATUS
    },
    columns: &[
        Column::NAME,
        Column::new("Auto-Assign", "string"),
        Column::new("IPv4", "string"),
        Column::new("IPv6", "string"),
        Column::AGE,
        Column::wide("Addresses", "string"),
    ],
    row: |object, now| {
        let ranges: Vec<String> = items(&object["spec"]["addresses"]).iter().map(|r| text(r).to_owned()).collect();
        vec![
            meta::name(object).into(),
            (object["spec"]["autoAssign"] != false).to_string().into(),
            count(&object["status"]["ipv4"]),
            count(&object["status"]["ipv6"]),
            age(object, now),
            or_none(&some_of(&ranges, 4)),
        ]
    },
    selectable: &[],
};

/// `3/256`: assigned of all.
fn count(count: &Value) -> Value {
    let number = |field: &str| count[field].as_i64().unwrap_or_default();
    if count.is_null() { "<unknown>".into() } else { format!("{}/{}", number("assigned"), number("total")).into() }
}

fn validate(object: &Value, faults: &mut Faults) {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    let (ranges, here) = (items(&spec["addresses"]), path.child("addresses"));
    if ranges.is_empty() {
        faults.push(FieldError::required(here.clone(), "must have at least one range"));
    }
    if ranges.len() > MAX_RANGES {
        faults.push(FieldError::too_many(here, ranges.len(), MAX_RANGES));
        return;
    }
    let mut known: Vec<(Span, &str)> = Vec::new();
    for (index, range) in ranges.iter().enumerate() {
        let here = here.index(index);
        let span = match Span::parse(text(range)) {
            Ok(span) => span,
            Err(error) => {
                faults.push(FieldError::invalid(here, range.clone(), &error.to_string()));
                continue;
            }
        };
        let ends = [span.nth(0), span.nth(span.count() - 1)];
        if let Some(detail) = ends.into_iter().flatten().find_map(special) {
            faults.push(FieldError::invalid(here.clone(), range.clone(), &detail));
        }
        if let Some((_, other)) = known.iter().find(|(other, _)| other.overlaps(&span)) {
            faults.push(FieldError::invalid(here, range.clone(), &format!("overlaps with {other:?} of the same pool")));
        }
        known.push((span, text(range)));
    }
    validate_selector(&spec["serviceSelector"], &path.child("serviceSelector"), faults);
    for (index, namespace) in items(&spec["namespaces"]).iter().enumerate() {
        complain(faults, path.child("namespaces").index(index), text(namespace), label(text(namespace)));
    }
}

/// A range that the cluster uses for something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The addresses.
    pub span: Span,
    /// What for: `the Service range 10.96.0.0/16`.
    pub purpose: String,
}

/// Ranges of a pool, given that it is valid by itself, that others have already: other pools, or the cluster.
pub fn overlaps<'a>(pool: &Value, others: impl Iterator<Item = &'a Value>, reserved: &[Reserved]) -> Faults {
    let spans = |pool: &Value| -> Vec<Option<Span>> {
        items(&pool["spec"]["addresses"]).iter().map(|range| Span::parse(text(range)).ok()).collect()
    };
    let mut taken = reserved.to_vec();
    for other in others.filter(|other| meta::name(other) != meta::name(pool)) {
        let purpose = format!("AddressPool {:?}", meta::name(other));
        taken.extend(spans(other).into_iter().flatten().map(|span| Reserved { span, purpose: purpose.clone() }));
    }
    let mut faults = Faults::new();
    for (index, span) in spans(pool).into_iter().enumerate() {
        let Some(clash) = span.and_then(|span| taken.iter().find(|taken| taken.span.overlaps(&span))) else { continue };
        let here = Path::new("spec").child("addresses").index(index);
        let range = pool["spec"]["addresses"][index].clone();
        faults.push(FieldError::invalid(here, range, &format!("overlaps with {}", clash.purpose)));
    }
    faults
}
