//! Watching.

use skep_control_core::api::{Resource, Status};
use skep_store::{Event, KeyRange, Store, Watch as _, WatchBatch};

use super::key::{self, ResourceRef};
use super::{Api, Object, failure};
use crate::Backend;

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WatchKind {
    /// It is new.
    Added,
    /// It changed.
    Modified,
    /// It is gone.
    Deleted,
}

/// One change of one object.
#[derive(Clone, Debug)]
pub struct WatchEvent {
    /// What happened.
    pub kind: WatchKind,
    /// The object as it is now; a deleted one as it was last, at the revision of its deletion.
    pub object: Object,
    /// The object as it was before.
    pub previous: Option<Object>,
}

/// What a watcher is given.
#[derive(Clone, Debug)]
pub enum WatchItem {
    /// Every change of one revision.
    Events(u64, Vec<WatchEvent>),
    /// Everything up to this revision has been given.
    Progress(u64),
}

/// Changes in order, none left out and none twice.
pub struct Watch {
    inner: <Backend as Store>::Watch,
    /// In whose version objects are shown; `None` leaves them as they are stored.
    resource: Option<&'static Resource>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("resource", &self.resource.map(|r| r.plural)).finish_non_exhaustive()
    }
}

impl Watch {
    /// Waits for what comes next. Dropping the future loses nothing.
    ///
    /// Errors: 410 when this watcher fell behind what the store retains; list, and watch again.
    pub async fn next(&mut self) -> Result<WatchItem, Status> {
        loop {
            match self.inner.next().await.map_err(failure::status)? {
                WatchBatch::Progress(revision) => return Ok(WatchItem::Progress(revision)),
                WatchBatch::Events(revision, events) => {
                    let events: Vec<WatchEvent> = events.iter().filter_map(|event| self.event(event)).collect();
                    if !events.is_empty() {
                        return Ok(WatchItem::Events(revision, events));
                    }
                }
            }
        }
    }

    fn event(&self, event: &Event) -> Option<WatchEvent> {
        let show = |kv| {
            let object = Object::from_stored(kv)?;
            Some(match self.resource {
                Some(resource) => object.served_as(resource),
                None => object,
            })
        };
        match event {
            Event::Put { kv, prev } => {
                let previous = prev.as_ref().and_then(show);
                let kind = if previous.is_none() { WatchKind::Added } else { WatchKind::Modified };
                Some(WatchEvent { kind, object: show(kv)?, previous })
            }
            Event::Delete { prev, revision } => {
                let previous = show(prev)?;
                let object = previous.clone().at_revision(*revision);
                Some(WatchEvent { kind: WatchKind::Deleted, object, previous: Some(previous) })
            }
        }
    }
}

impl Api {
    /// Changes after a revision of a resource's objects in one namespace, or (`""`) in all.
    ///
    /// Errors: 410 when the revision is compacted away, 504 when it has not been.
    pub async fn watch(&self, resource: impl ResourceRef, ns: &str, after: u64) -> Result<Watch, Status> {
        let resource = resource.resolve()?;
        self.watch_range(key::prefix_range(&key::prefix(resource, ns), None), Some(resource), after).await
    }

    /// Changes after a revision of one object.
    pub async fn watch_one(
        &self,
        resource: impl ResourceRef,
        ns: &str,
        name: &str,
        after: u64,
    ) -> Result<Watch, Status> {
        let resource = resource.resolve()?;
        self.watch_range(key::single(&key::object_key(resource, ns, name)), Some(resource), after).await
    }

    /// Changes after a revision of every object of every resource, in the order in which they happened.
    pub async fn watch_all(&self, after: u64) -> Result<Watch, Status> {
        self.watch_range(key::prefix_range(key::ROOT, None), None, after).await
    }

    async fn watch_range(
        &self,
        range: KeyRange,
        resource: Option<&'static Resource>,
        after: u64,
    ) -> Result<Watch, Status> {
        let inner = self.inner.store.watch(range, after).await.map_err(failure::status)?;
        Ok(Watch { inner, resource })
    }
}
