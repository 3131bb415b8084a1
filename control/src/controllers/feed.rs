//! Everything that is written, as changes for the index: one listing at one revision, then every change after it.

use std::time::Duration;

use skep_control_core::controllers::{Change, Kind, Object};
use tokio::sync::mpsc;

use crate::api::{self, Api, At, ListOptions, ResourceRef as _, Status, WatchItem, WatchKind};

/// Wait before listing again after a lost watch.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Changes of one revision, or a listing.
pub(super) type Batch = Vec<Change>;

/// Feeds the driver until it goes away.
pub(super) async fn run(api: Api, batches: mpsc::Sender<Batch>) {
    loop {
        match follow(&api, &batches).await {
            Ok(()) => return,
            Err(status) => tracing::warn!(error = %status.message, "the controllers' watch was lost, listing again"),
        }
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

/// `Ok` when nobody takes the changes any more.
async fn follow(api: &Api, batches: &mpsc::Sender<Batch>) -> Result<(), Status> {
    let (objects, revision) = list(api).await?;
    tracing::debug!(revision, objects = objects.len(), "controllers listed");
    if batches.send(vec![Change::Replace { objects, revision }]).await.is_err() {
        return Ok(());
    }
    let mut watch = api.watch_all(revision).await?;
    loop {
        let batch = match watch.next().await? {
            WatchItem::Progress(revision) => vec![Change::Progress { revision }],
            WatchItem::Events(revision, events) => {
                let mut batch: Batch = events.into_iter().filter_map(change).collect();
                // Writes of other kinds move the revision on as well.
                batch.push(Change::Progress { revision });
                batch
            }
        };
        if batches.send(batch).await.is_err() {
            return Ok(());
        }
    }
}

async fn list(api: &Api) -> Result<(Vec<Object>, u64), Status> {
    let mut at = At::Now;
    let mut revision = 0;
    let mut objects = Vec::new();
    for kind in Kind::ALL {
        let options = ListOptions { at, ..ListOptions::default() };
        let list = api.list(storage_name(kind).as_str(), "", &options).await?;
        revision = list.revision;
        at = At::Exactly(revision);
        objects.extend(list.items.iter().filter_map(|object| decode(kind, object)));
    }
    Ok((objects, revision))
}

fn change(event: api::WatchEvent) -> Option<Change> {
    let kind = kind_of(&event.object)?;
    let revision = event.object.revision;
    match event.kind {
        WatchKind::Deleted => {
            let key = skep_control_core::controllers::Key::new(kind, event.object.namespace(), event.object.name());
            Some(Change::Delete { key, revision })
        }
        WatchKind::Added | WatchKind::Modified => {
            Some(Change::Upsert { object: decode(kind, &event.object)?, revision })
        }
    }
}

/// Name under which objects of a kind are stored, which names its resource too.
pub(super) fn storage_name(kind: Kind) -> String {
    match kind.group() {
        "" => kind.plural().to_owned(),
        group => format!("{}.{group}", kind.plural()),
    }
}

fn kind_of(object: &api::Object) -> Option<Kind> {
    let storage = object.resource().storage;
    Kind::ALL.into_iter().find(|kind| {
        let group = kind.group();
        match storage.strip_prefix(kind.plural()) {
            Some("") => group.is_empty(),
            Some(rest) => rest.strip_prefix('.') == Some(group),
            None => false,
        }
    })
}

/// An object that does not decode cannot be decided on: it is left out, and said so.
fn decode(kind: Kind, object: &api::Object) -> Option<Object> {
    Object::decode(kind, &object.json())
        .inspect_err(|error| {
            tracing::error!(%kind, namespace = object.namespace(), name = object.name(), %error, "a stored object does not decode");
        })
        .ok()
}

/// Whether every kind is a resource of this API.
pub(super) fn check() -> Result<(), Status> {
    Kind::ALL.into_iter().try_for_each(|kind| storage_name(kind).as_str().resolve().map(|_| ()))
}
