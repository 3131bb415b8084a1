//! Deleting.

use jiff::Timestamp;
use skep_control_core::api::{DeleteOptions, Deletion, Status, prepare_delete};

use super::key::ResourceRef;
use super::write::Step;
use super::{Api, Caller, Object};

/// What a delete came to.
#[derive(Clone, Debug)]
pub struct Deleted {
    /// The object as it is now, or was last.
    pub object: Object,
    /// Whether it is gone; else it goes when its grace period is over or its finalizers are done.
    pub removed: bool,
}

impl Api {
    /// Deletes an object, or begins to.
    ///
    /// Errors: 404, 409 when a precondition does not hold, 422 for bad options.
    pub async fn delete(
        &self,
        _caller: &Caller,
        resource: impl ResourceRef,
        ns: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        let resource = resource.resolve()?;
        let dry_run = !options.dry_run.is_empty();
        let changed = self
            .transform(resource, ns, name, dry_run, |old| {
                Ok(match prepare_delete(resource, old, options, Timestamp::now())? {
                    Deletion::Update(new) => Step::Put(new),
                    Deletion::Remove(last) => Step::Remove(last),
                    Deletion::Unchanged => Step::Keep,
                })
            })
            .await?;
        Ok(Deleted { object: changed.object, removed: changed.removed })
    }
}
