//! Watches: a stream of JSON frames.
//!
//! ```text
//! start: unset or 0  -> the state as ADDED events, then changes
//!        N           -> changes after N (an ERROR event with 410 when N is compacted away)
//!        sendInitialEvents -> the state, a BOOKMARK that says so, then changes
//! end:   timeoutSeconds, shutdown, the client, or an ERROR event
//! ```

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::{Response, StatusCode};
use skep_control_core::api::{IncludeObject, Status};
use tokio::sync::watch;
use tokio::time::Instant;

use super::accept::{self, Form};
use super::path::Place;
use super::query::forbidden;
use super::{Call, Rest, answer};
use crate::api::{ListOptions, Object, Watch, WatchEvent, WatchItem, WatchKind};

mod frame;

use frame::{Frames, Shape};

/// A watch without timeoutSeconds ends after this and up to as much again, so that clients do not return all at once.
const DEFAULT_SECONDS: u64 = 1800;
/// Watchers that want bookmarks get one this often.
const BOOKMARK_EVERY: Duration = Duration::from_secs(30);

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// With the newest state.
    State,
    /// Behind a revision.
    After(u64),
    /// With what happens from now on.
    Now,
}

struct Options {
    selection: ListOptions,
    start: Start,
    /// A bookmark marks the end of the state.
    marked: bool,
    bookmarks: bool,
    seconds: u64,
}

impl Options {
    fn of(call: &Call, place: &Place) -> Result<Self, Status> {
        let query = &call.query;
        let selection = query.selection(place.resource)?;
        let revision = query.revision()?;
        let initial = query.get("sendInitialEvents").map(|_| query.flag("sendInitialEvents"));
        let rule = query.text("resourceVersionMatch");
        match (initial, rule) {
            (None, Some(_)) => {
                let text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                return Err(forbidden("resourceVersionMatch", text));
            }
            (Some(_), None | Some("Exact")) => {
                let text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                return Err(forbidden("sendInitialEvents", text));
            }
            _ => {}
        }
        let start = match (initial, revision) {
            (Some(true), _) | (None, None | Some(0)) => Start::State,
            (Some(false), None | Some(0)) => Start::Now,
            (_, Some(revision)) => Start::After(revision),
        };
        let bookmarks = query.flag("allowWatchBookmarks");
        let seconds = match query.number("timeoutSeconds")?.unwrap_or(0) {
            seconds @ 1.. => seconds.unsigned_abs(),
            _ => DEFAULT_SECONDS + u64::from(uuid::Uuid::new_v4().as_bytes()[0]) * DEFAULT_SECONDS / 256,
        };
        Ok(Self { selection, start, marked: initial == Some(true) && bookmarks, bookmarks, seconds })
    }
}

pub(super) async fn watch(rest: &Rest, call: &Call, place: &Place) -> Result<Response<Body>, Status> {
    let wanted = accept::negotiate(&call.parts.headers)?;
    let mut options = Options::of(call, place)?;
    if let Some(name) = &place.name {
        // The older form of a watch on one object.
        let by_name = format!("metadata.name={name}");
        options.selection.fields = skep_control_core::api::FieldSelector::parse(place.resource, &by_name)?;
    }
    let shape = match wanted.form {
        Form::Object => Shape::Object,
        Form::Partial => Shape::Partial,
        Form::Table => Shape::Table(IncludeObject::parse(call.query.get("includeObject"))?),
    };
    let frames = Frames::new(place.resource, shape);
    let deadline = Instant::now() + Duration::from_secs(options.seconds);
    let shutdown = rest.inner.shutdown.clone();
    let next_bookmark = options.bookmarks.then(|| Instant::now() + BOOKMARK_EVERY);
    let stream = match open(rest, place, &options, frames).await {
        Ok((source, frames)) => Stream {
            source: Some(source),
            selection: options.selection,
            frames,
            deadline,
            next_bookmark,
            seen: 0,
            shutdown,
        },
        // Clients look for this one in the stream, not in the response.
        Err(status) if status.code == 410 => {
            let mut frames = Frames::new(place.resource, Shape::Object);
            frames.error(&status);
            let selection = ListOptions::default();
            Stream { source: None, selection, frames, deadline, next_bookmark: None, seen: 0, shutdown }
        }
        Err(status) => return Err(status),
    };
    let body = stream::unfold(stream, |mut stream| async {
        let frame = stream.next().await?;
        Some((Ok::<_, Infallible>(frame), stream))
    });
    Ok(answer::bytes(StatusCode::OK, answer::JSON, Body::from_stream(body)))
}

async fn open(rest: &Rest, place: &Place, options: &Options, mut frames: Frames) -> Result<(Watch, Frames), Status> {
    let api = rest.api();
    let after = match options.start {
        Start::After(revision) => revision,
        Start::Now => api.revision(),
        Start::State => {
            let list = api.list(place.resource, &place.namespace, &options.selection).await?;
            frames.state(list.items);
            if options.marked {
                frames.end_of_state(list.revision);
            }
            list.revision
        }
    };
    let name = options.selection.fields.name();
    let watch = match name {
        Some(name) if !place.resource.namespaced || !place.namespace.is_empty() => {
            api.watch_one(place.resource, &place.namespace, name, after).await?
        }
        _ => api.watch(place.resource, &place.namespace, after).await?,
    };
    Ok((watch, frames))
}

struct Stream {
    /// `None` when nothing follows what is in `frames`.
    source: Option<Watch>,
    selection: ListOptions,
    frames: Frames,
    deadline: Instant,
    next_bookmark: Option<Instant>,
    /// Everything up to here has been given.
    seen: u64,
    shutdown: watch::Receiver<bool>,
}

impl Stream {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.frames.next() {
                return Some(frame);
            }
            let source = self.source.as_mut()?;
            let item = tokio::select! {
                biased;
                _ = self.shutdown.wait_for(|over| *over) => return None,
                () = tokio::time::sleep_until(self.deadline) => None,
                item = source.next() => Some(item),
            };
            match item {
                Some(Ok(WatchItem::Events(revision, events))) => {
                    self.seen = revision;
                    if let Err(status) = self.events(events) {
                        self.fail(&status);
                    }
                    self.bookmark_if_due();
                }
                Some(Ok(WatchItem::Progress(revision))) => {
                    self.seen = revision;
                    self.bookmark_if_due();
                }
                Some(Err(status)) => self.fail(&status),
                None => {
                    self.source = None;
                    // A last bookmark lets the client go on from here.
                    if self.next_bookmark.is_some() && self.seen > 0 {
                        self.frames.bookmark(self.seen);
                    }
                }
            }
        }
    }

    fn bookmark_if_due(&mut self) {
        let now = Instant::now();
        if self.source.is_some() && self.next_bookmark.is_some_and(|due| now >= due) {
            self.next_bookmark = Some(now + BOOKMARK_EVERY);
            self.frames.bookmark(self.seen);
        }
    }

    fn fail(&mut self, status: &Status) {
        self.source = None;
        self.frames.error(status);
    }

    fn events(&mut self, events: Vec<WatchEvent>) -> Result<(), Status> {
        for event in events {
            if let Some((kind, object)) = select(&self.selection, event)? {
                self.frames.event(kind, object)?;
            }
        }
        Ok(())
    }
}

/// What a change is to somebody who sees only what the selectors want.
fn select(selection: &ListOptions, event: WatchEvent) -> Result<Option<(WatchKind, Object)>, Status> {
    if !selection.is_selective() {
        return Ok(Some((event.kind, event.object)));
    }
    let resource = event.object.resource();
    let was = match &event.previous {
        Some(previous) => selection.selects(resource, previous)?,
        None => false,
    };
    let is = event.kind != WatchKind::Deleted && selection.selects(resource, &event.object)?;
    Ok(match (was, is) {
        (false, false) => None,
        (false, true) => Some((WatchKind::Added, event.object)),
        (true, true) => Some((WatchKind::Modified, event.object)),
        (true, false) => {
            // The object as it was when it was last seen, at the revision at which it went out of sight.
            let revision = event.object.revision;
            event.previous.map(|previous| (WatchKind::Deleted, previous.at_revision(revision)))
        }
    })
}
