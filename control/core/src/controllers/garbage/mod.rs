//! The garbage collector: objects whose owners are gone, and deletions that wait for dependents.
//!
//! The index shows writes in their order, and an owner's UID is known only once the owner exists. So an owner that the index
//! does not show is gone; no second look at the API is needed.

#[cfg(test)]
mod tests;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::controllers::action::{Action, Outcome, Propagation, Write};
use crate::controllers::engine::{Controller, Turn};
use crate::controllers::index::{Index, Touched};
use crate::controllers::kind::{Key, Kind};
use crate::controllers::object::Object;
use crate::controllers::owner::set_owners;

/// Finalizer of an object whose dependents go first.
const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of an object whose dependents stay.
const ORPHAN: &str = "orphan";

/// The garbage collector.
#[derive(Debug)]
pub(super) struct GarbageCollector;

impl Controller for GarbageCollector {
    fn name(&self) -> &'static str {
        "generic-garbage-collector"
    }

    fn affected(&self, touched: &Touched, index: &Index) -> Vec<Key> {
        let mut keys = Vec::new();
        if let Some(object) = &touched.after
            && (has_owners(object) || finalizer(object, FOREGROUND) || finalizer(object, ORPHAN))
        {
            keys.push(touched.key.clone());
        }
        if let Some(before) = &touched.before {
            let replaced = touched.after.as_ref().is_none_or(|after| after.uid() != before.uid());
            if replaced {
                keys.extend(index.dependents(before.uid()).map(Object::key));
            }
            // A deletion may wait for this object, or have waited for a reference that it had.
            keys.extend(
                owners(before).filter_map(|owner| index.by_uid(&owner.uid)).filter(|o| waits(o)).map(Object::key),
            );
        }
        // What owns this decides what becomes of it once the owner starts to wait.
        if let Some(after) = touched.after.as_ref().filter(|after| waits(after)) {
            keys.extend(index.dependents(after.uid()).map(Object::key));
        }
        keys
    }

    fn reconcile(&self, key: &Key, index: &Index, _turn: Turn) -> Outcome {
        let mut outcome = Outcome::idle();
        let Some(object) = index.object(key) else { return outcome };
        if object.metadata().deletion_timestamp.is_some() {
            if finalizer(object, ORPHAN) {
                orphan_dependents(object, index, &mut outcome);
            } else if finalizer(object, FOREGROUND) {
                delete_dependents(object, index, &mut outcome);
            }
        } else if has_owners(object) {
            collect(object, index, &mut outcome);
        }
        outcome
    }
}

fn owners(object: &Object) -> impl Iterator<Item = &OwnerReference> {
    object.metadata().owner_references.iter().flatten()
}

fn has_owners(object: &Object) -> bool {
    owners(object).next().is_some()
}

fn finalizer(object: &Object, name: &str) -> bool {
    object.metadata().finalizers.iter().flatten().any(|finalizer| finalizer == name)
}

/// Whether the object is being deleted and waits for its dependents to go.
fn waits(object: &Object) -> bool {
    object.metadata().deletion_timestamp.is_some() && (finalizer(object, FOREGROUND) || finalizer(object, ORPHAN))
}

/// How an owner reference stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// The owner is there, or of a kind that is not known here: it holds the object.
    Solid,
    /// The owner is being deleted in the foreground and waits for the object.
    Waiting,
    /// The owner is gone.
    Absent,
}

fn standing(dependent: &Object, reference: &OwnerReference, index: &Index) -> Standing {
    let Some(kind) = Kind::of_reference(&reference.api_version, &reference.kind) else { return Standing::Solid };
    let Some(owner) = index.by_uid(&reference.uid) else { return Standing::Absent };
    let key = owner.key();
    // An owner in another namespace is no owner.
    let reachable = key.namespace.is_empty() || Some(&key.namespace) == dependent.metadata().namespace.as_ref();
    if key.kind != kind || key.name != reference.name || !reachable {
        Standing::Absent
    } else if owner.metadata().deletion_timestamp.is_some() && finalizer(owner, FOREGROUND) {
        Standing::Waiting
    } else {
        Standing::Solid
    }
}

/// Deletes an object that nobody owns any more; takes references to owners that are gone off one that somebody does.
fn collect(object: &Object, index: &Index, outcome: &mut Outcome) {
    let judged: Vec<(&OwnerReference, Standing)> =
        owners(object).map(|reference| (reference, standing(object, reference, index))).collect();
    let any = |wanted: Standing| judged.iter().any(|(_, standing)| *standing == wanted);
    if any(Standing::Solid) {
        if any(Standing::Absent) || any(Standing::Waiting) {
            let solid = judged.iter().filter(|(_, standing)| *standing == Standing::Solid);
            let kept: Vec<OwnerReference> = solid.map(|(reference, _)| (*reference).clone()).collect();
            outcome.act(set_owners(object.key(), object.metadata(), &kept));
        }
        return;
    }
    let foreground = any(Standing::Waiting) && index.dependents(object.uid()).next().is_some();
    outcome.act(Write::Delete {
        target: object.key(),
        uid: object.uid().to_owned(),
        grace_seconds: None,
        propagation: if foreground { Propagation::Foreground } else { Propagation::Background },
    });
}

/// Lets an owner go once no dependent blocks its deletion. The dependents delete themselves by [`collect`].
fn delete_dependents(owner: &Object, index: &Index, outcome: &mut Outcome) {
    let blocking = index.dependents(owner.uid()).any(|dependent| {
        owners(dependent).any(|reference| reference.uid == owner.uid() && reference.block_owner_deletion == Some(true))
    });
    if !blocking {
        outcome.act(without_finalizer(owner, FOREGROUND));
    }
}

fn orphan_dependents(owner: &Object, index: &Index, outcome: &mut Outcome) {
    for dependent in index.dependents(owner.uid()) {
        let kept: Vec<OwnerReference> =
            owners(dependent).filter(|reference| reference.uid != owner.uid()).cloned().collect();
        outcome.act(set_owners(dependent.key(), dependent.metadata(), &kept));
    }
    if outcome.actions.is_empty() {
        outcome.act(without_finalizer(owner, ORPHAN));
    }
}

fn without_finalizer(object: &Object, name: &str) -> Action {
    let metadata = object.metadata();
    let kept: Vec<&String> = metadata.finalizers.iter().flatten().filter(|finalizer| *finalizer != name).collect();
    let kept = if kept.is_empty() { serde_json::Value::Null } else { serde_json::json!(kept) };
    Action::from(Write::Patch {
        target: object.key(),
        subresource: None,
        patch: serde_json::json!({"metadata": {
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
            "finalizers": kept,
        }}),
    })
}
